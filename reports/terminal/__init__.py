"""What the terminal shows of a run or a test."""
