"""Context of a turn: intent, domain, urgency, sensitivity, entities and language."""
