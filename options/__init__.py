"""Rules for option values, options by topic, the parser of command lines and the help text."""
