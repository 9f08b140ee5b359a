"""Routes: what each address takes and answers."""
