"""Published scores of Atari games, and one number for the returns of many games."""
