"""What the replays of a run chose, and what they hold."""
