"""Rules for option values, the options of environments and replays, the parser of command lines and the help text."""
