"""Store: points with vectors and payloads, kept and searched."""
