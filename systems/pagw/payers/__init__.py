"""The payers, each behind its configuration: what they are told, how they are asked, and how they prove who asks.

    config.py   where a payer is, how it wants to be asked, and the names of its secrets
    formats.py  from an enriched request to the payer's bytes, and from its answer to a decision
    messages.py the JSON that goes to a payer and comes back: our own small schema
    oauth.py    tokens by client credentials
    client.py   one call at a time, and what its failure means

Nothing of a request or of an answer stands in an error or a log: they are about patients.
"""
