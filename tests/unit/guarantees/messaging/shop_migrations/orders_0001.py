"""Migration 0001 of the SQL shop: creates the orders, the effects of messages, the outbox and the inbox."""

from __future__ import annotations

from alembic import op

from holdfast.guarantees import inbox_ddl, outbox_ddl

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the four tables in the schema `shop`."""
    op.execute("CREATE TABLE shop.orders (order_id TEXT PRIMARY KEY, version INTEGER NOT NULL)")
    # Without a key, so that an effect applied twice has two rows.
    op.execute("CREATE TABLE shop.effects (id BIGSERIAL, order_id TEXT NOT NULL, version INTEGER NOT NULL)")
    for statement in (*outbox_ddl("shop"), *inbox_ddl("shop")):
        op.execute(statement)
