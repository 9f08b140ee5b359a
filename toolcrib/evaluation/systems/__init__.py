"""Systems to measure: toolcrib, its ablations, and other libraries."""
