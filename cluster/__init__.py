"""Workers on the other machines of a Ray cluster: a gateway process, one actor on each node, and commands to a run."""
