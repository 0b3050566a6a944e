"""A training run: its setup, its loop, and the counters, reports, checkpoints and evaluations of it."""
