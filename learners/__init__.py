"""Several learner processes that make each update together."""
