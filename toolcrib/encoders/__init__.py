"""Text to vectors and scores."""
