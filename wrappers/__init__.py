"""Games as environments: one class for each step of preprocessing, put together in `atari.py`."""
