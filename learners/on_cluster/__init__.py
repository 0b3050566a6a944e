"""Learners on the nodes of a Ray cluster: which node gets how many, how they are started, watched and ended."""
