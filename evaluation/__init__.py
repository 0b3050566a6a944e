"""What is done with a trained policy: score it, film it, show it, export it."""
