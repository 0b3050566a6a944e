"""Several learner processes that make each update together: their start, their connection, what each one gets."""
