"""Rules for the values of options, the replay options, the parser of command lines and the help text."""
