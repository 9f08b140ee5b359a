"""Routes: endpoints with their requests and answers."""
