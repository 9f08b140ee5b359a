"""Questions: one of several classes is chosen for a turn, by a model or by examples."""
