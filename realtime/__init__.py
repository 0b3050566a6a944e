"""When inference processes act in a game that does not wait: staggering rules, latency models and a simulation."""
