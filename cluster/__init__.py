"""Workers on the other machines of a Ray cluster."""
