"""What experiment trackers write to disk, read while it grows: only a bounded part of a file per look."""
