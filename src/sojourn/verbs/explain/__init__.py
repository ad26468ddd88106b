"""What happened and why, on a box, to a run, in the catalog: `why`, `doctor`, `gpu`, `gotchas`, `learn`."""
