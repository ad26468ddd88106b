"""From a job file to a process that was seen alive, and its end on request: `plan`, `run`, `resume`, `stop`."""
