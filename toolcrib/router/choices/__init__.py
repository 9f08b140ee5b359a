"""Agents: which of a few targets a turn is for, by heuristics or a language model, supervised."""
