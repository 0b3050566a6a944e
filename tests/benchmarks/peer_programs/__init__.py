"""Training programs of other platforms, each run by the interpreter of its own environment."""
