"""A page in the browser to watch and compare runs, made from their files."""
