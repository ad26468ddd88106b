"""A run that another client started, or none: `recover`, `handbook`."""
