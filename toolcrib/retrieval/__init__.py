"""Retrieval: from a query to a ranking; a search raises `StoreError` if the store fails."""
