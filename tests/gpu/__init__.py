"""Tests of the learner on an NVIDIA GPU. They are skipped where there is none."""
