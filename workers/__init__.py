"""The processes: workers that play, the memory they share with the learner, and the training loop that drives it all."""
