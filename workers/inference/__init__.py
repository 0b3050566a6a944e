"""With --inference=learner: one process chooses the actions of all workers on the learner's device."""
