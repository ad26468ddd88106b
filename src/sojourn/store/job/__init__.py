"""The job file: text to a checked job, with the place of every mistake."""
