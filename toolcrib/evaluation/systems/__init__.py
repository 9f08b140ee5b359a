"""What can be measured: toolcrib, its ablations, and the libraries it is compared with."""
