"""Peers as systems of the evaluator: `toolcrib eval --system benchmarks.peers.MODULE:CLASS`."""
