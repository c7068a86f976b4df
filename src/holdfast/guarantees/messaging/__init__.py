"""Messaging: outboxes, which send messages at least once, and an inbox, which runs their effects once.

outbox (in tables), sql_outbox (in SQL), inbox (in SQL). An outbox writes a message in the transaction of the
change that it announces.
"""
