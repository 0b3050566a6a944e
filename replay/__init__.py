"""What an unroll is, where unrolls are kept, and how a batch is mixed from them. Takes numbers and functions only."""
