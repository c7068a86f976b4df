"""Pure rules without I/O: keys, webhook formats, intents, routing, decisions, plans and order checks."""
