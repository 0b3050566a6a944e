"""What a run counts and measures between its reports."""
