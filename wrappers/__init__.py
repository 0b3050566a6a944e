"""Games as environments: Atari's chain of preprocessing (`atari.py`), and `any_environment/`."""
