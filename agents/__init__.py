"""The agent: its network, how it acts, how it learns, and what is said of it."""
