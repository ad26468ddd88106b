"""The job file: from text to a checked job, with the location of every mistake."""
