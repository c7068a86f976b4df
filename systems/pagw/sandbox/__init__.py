"""The stand-ins for the outside parties, spoken to over real HTTP: payers, issuers of tokens and clients' servers.

Each keeps a ledger of every effect that reached it: that is what the tests believe.
"""
