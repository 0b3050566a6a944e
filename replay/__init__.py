"""What an unroll is, where unrolls are kept, and how one batch is mixed from all replays."""
