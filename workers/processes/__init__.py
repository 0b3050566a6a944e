"""Child processes: how they are started, watched, replaced and ended."""
