"""A query in, a ranking out; every search raises `StoreError` where the store fails."""
