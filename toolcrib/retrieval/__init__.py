"""A query in, a ranking out."""
