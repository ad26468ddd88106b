"""The keeper at work: one attempt after the other, from its working copy to its end; and a sweep's queue."""
