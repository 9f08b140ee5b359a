"""Enrichment that a language model wrote for public sets, and what it is worth."""
