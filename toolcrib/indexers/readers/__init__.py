"""Readers: one file a source of tools, and their registry."""
