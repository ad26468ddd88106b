"""One contract suite per port."""
