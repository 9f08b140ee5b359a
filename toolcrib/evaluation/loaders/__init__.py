"""Data sets from wherever they lie, checked while they are read."""
