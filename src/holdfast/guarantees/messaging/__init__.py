"""Messaging: outboxes that send each message at least once with the change it announces, and the inbox that
runs each message's effect once.

outbox (in tables), sql_outbox (in SQL), inbox (in SQL).
"""
