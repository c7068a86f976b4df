"""The stand-ins for the outside parties, spoken to over real HTTP: the shapes, the paging and the refusals of the real ones.

Each keeps a ledger of every effect that reached it. None but the mailer knows idempotency: asked twice, it does it twice.
"""
