"""Tools in the shapes that others expect."""
