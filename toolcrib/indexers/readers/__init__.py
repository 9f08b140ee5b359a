"""Readers: one module for each format of tools, and their registry."""
