"""Many runs of main.py: planned, started, watched, summed up."""
