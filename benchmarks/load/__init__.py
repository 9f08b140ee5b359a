"""Load on a running service, and what it makes of it."""
