"""The memory that the learner and its workers share: slots for unrolls, and the newest weights."""
