"""Games as environments: one class for each step of Atari's preprocessing (`atari.py`), and `any_environment/`."""
