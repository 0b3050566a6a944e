"""The wiring of a run, its loop, and what is counted, reported, saved and resumed in it."""
