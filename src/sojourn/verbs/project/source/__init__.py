"""What a project's source says about itself, for `init`: read with `ast`, never imported and never run."""
