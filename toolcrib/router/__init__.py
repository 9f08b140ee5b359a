"""From a turn to a decision: its context, its route, and what goes with it."""
