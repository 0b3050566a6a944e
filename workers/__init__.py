"""The worker processes (the actors of IMPALA), and the shared memory and pipes between them and the learner."""
