"""Child processes, from start to end."""
