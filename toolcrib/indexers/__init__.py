"""Indexers: read, audit and prepare tools and documents, and sync them with a store."""
