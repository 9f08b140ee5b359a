"""Sources in: reading, rendering, keeping in step."""
