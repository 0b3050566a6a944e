"""Rules for option values, options by topic, and the command line: absl flags made from them."""
