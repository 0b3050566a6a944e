"""Runs of a sweep on the nodes of a Ray cluster: where they fit, how they are started, how their files come back."""
