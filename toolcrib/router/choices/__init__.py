"""Choices between targets, capabilities and classes, by rules, examples or a language model."""
