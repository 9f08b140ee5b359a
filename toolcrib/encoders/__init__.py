"""Encoders: text to vectors and scores."""
