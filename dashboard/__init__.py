"""A page in the browser to watch runs, compare them and see the agent play. It reads only the files of runs."""
