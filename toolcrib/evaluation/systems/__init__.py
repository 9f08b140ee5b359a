"""Systems to measure: toolcrib, its ablations, and the libraries it is compared with."""
