"""Atari games as learning environments: one small class for each step of preprocessing, put together in `atari.py`."""
