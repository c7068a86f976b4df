"""Pure rules: keys, webhook formats, intents, routing, decisions, plans and order checks. No stores, no
I/O.
"""
