"""Unrolls, the replays that hold them, and batches mixed from replays. Sizes and distance functions are passed in."""
