"""Store: the points that are kept and searched."""
