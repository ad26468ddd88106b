"""What every Python of a payload loads first where its job says `protect: saves`: PYTHONPATH names this folder."""
