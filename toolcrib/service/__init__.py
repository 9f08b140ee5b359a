"""The faces to the outside: the command line."""
