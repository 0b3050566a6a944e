"""The network, acting, V-trace, losses, ranking, and one update of the weights."""
