"""Games as environments: Atari's preprocessing (`atari.py`), and `any_environment/`."""
