"""The worker processes (IMPALA's actors), and the memory that they share with the learner."""
