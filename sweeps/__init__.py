"""Many runs of main.py: planned, started, watched and summarised."""
