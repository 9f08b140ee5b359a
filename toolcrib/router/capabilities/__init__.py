"""Capabilities: what an agent can switch on for a turn, any number of them."""
