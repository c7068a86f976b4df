"""Clients of the payers: configuration, message formats, authentication and calls.

    config.py           a payer's address, authentication and format, and the names of its secrets
    formats.py          an enriched request to the payer's bytes, and the payer's answer to a decision
    messages.py         the JSON messages to and from a payer: our own small schema
    decision_checks.py  plausibility of a payer's decision
    oauth.py            tokens by client credentials
    client.py           one call, and the meaning of its failure

No error and no log contains any part of a request or an answer: both hold patient data.
"""
