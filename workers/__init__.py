"""The processes: workers that play, the memory they share with the learner, and the loop that drives it all."""
