"""What goes over the wire: bodies that are validated, and answers as they are documented."""
