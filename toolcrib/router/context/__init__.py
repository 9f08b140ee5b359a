"""What kind of turn it is: intent, domain, urgency, sensitivity, entities and language."""
