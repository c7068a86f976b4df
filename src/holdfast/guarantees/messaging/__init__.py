"""Messaging: outboxes, which send messages at least once, and an inbox, which runs their effects once.

An outbox writes a message in the transaction of the change that it announces. `outbox` stores messages in
tables, `sql_outbox` in SQL; both have one `relay` and one shape (`declaration`). `inbox` is in SQL.
"""
