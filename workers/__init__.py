"""Processes that play for the learner, and the memory and pipes between them."""
