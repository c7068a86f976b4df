"""Sandboxes that simulate the external services over real HTTP, with the same bodies, paging and refusals.

Each sandbox keeps a ledger of every effect. Only the mailer has idempotency keys: the others repeat a
repeated request.
"""
