"""`stage`: a data set copied from slow storage to a fast local disk of the box, by a process of its own."""
