"""Policies as distributions over actions: one of n, one choice for each of several factors, or real numbers."""
