"""One file a source."""
