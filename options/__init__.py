"""Rules for the values of options, the replay options, and the parser of command lines."""
