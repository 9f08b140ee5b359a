"""Indexers: tools and documents are read, audited, prepared and kept in step with a store."""
