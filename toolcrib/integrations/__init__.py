"""Integrations: tools and passages in the forms of agent frameworks and providers."""
