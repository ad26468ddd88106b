"""Many runs from one job file: `sweep`, `reconcile`, `results`."""
