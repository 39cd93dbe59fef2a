"""The command line; one command in each file."""
