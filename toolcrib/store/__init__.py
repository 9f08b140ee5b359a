"""What is kept and searched."""
