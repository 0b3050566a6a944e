"""Whole programs on nodes: which nodes can run them, how they are started, and how they end with who started them."""
