"""The statements that create the tables of an SQL outbox, for a system's migration.

    def upgrade() -> None:
        for statement in outbox_ddl("pagw"):
            op.execute(statement)

A message is a row until it is swept. A counter table has one row per aggregate: the announcing transaction
locks it, so that numbers and ids follow the order of the commits.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.core.errors import DeclarationError

TABLE: Final = "outbox"
# PostgreSQL truncates names after 63 characters; this is the longest suffix used here.
LONGEST_SUFFIX: Final = "_unprocessed"
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")


def outbox_ddl(schema: str, table: str = TABLE) -> list[str]:
    """Return the statements that create the outbox, its counters and its indexes.

    `table` is the outbox's name.
    """
    check_names(schema, table)
    place = f"{schema}.{table}"
    return [
        # Times come from the stores' clock of the writer, never from the database. Rows are updated soon
        # after the insert: the fill factor leaves space on the page so that an update does not move the row.
        # A row without next_attempt_at was never tried and is due at once, whatever the clocks of writers and
        # publishers say. `is_behind` is set when a publisher finds earlier rows in the lane: the row is then
        # found by its lane.
        f"""CREATE TABLE {place} (
    id BIGSERIAL PRIMARY KEY,
    queue_name VARCHAR(255) NOT NULL,
    message_body TEXT NOT NULL,
    processed BOOLEAN NOT NULL DEFAULT FALSE,
    processed_at TIMESTAMPTZ,
    retry_count INTEGER NOT NULL DEFAULT 0,
    last_error TEXT,
    created_at TIMESTAMPTZ NOT NULL,
    sequence_number BIGINT NOT NULL,
    aggregate TEXT NOT NULL,
    next_attempt_at TIMESTAMPTZ,
    claimed_by TEXT,
    claimed_until TIMESTAMPTZ,
    dead_at TIMESTAMPTZ,
    is_behind BOOLEAN NOT NULL DEFAULT FALSE,
    correlation_id VARCHAR(100)
) WITH (fillfactor = 80)""",
        f"""CREATE TABLE {place}_counter (
    aggregate TEXT PRIMARY KEY,
    last BIGINT NOT NULL,
    used_at TIMESTAMPTZ NOT NULL DEFAULT 'epoch'
) WITH (fillfactor = 80)""",
        # Unsent rows, oldest first. `processed` is not a column: it would be the same in every entry.
        f"CREATE INDEX {table}_unprocessed ON {place} (id) WHERE NOT processed",
        # Rows that may be sent: neither dead nor known to be behind another.
        f"CREATE INDEX {table}_ready ON {place} (next_attempt_at, id) WHERE NOT processed AND dead_at IS "
        "NULL AND NOT is_behind",
        # The lanes with rows behind another.
        f"CREATE INDEX {table}_behind ON {place} (aggregate, queue_name) WHERE is_behind AND NOT processed",
        # The first row of a lane and those after it.
        f"CREATE INDEX {table}_heads ON {place} (aggregate, queue_name, id) WHERE NOT processed",
        # Rows that a sweep removes.
        f"CREATE INDEX {table}_processed ON {place} (processed_at) WHERE processed",
    ]


def check_names(schema: str, table: str) -> None:
    """Raise `DeclarationError` if a name is too long, or not safe in statements, channels and deduplication
    ids.
    """
    if not all(_NAME.fullmatch(each) for each in (schema, table)):
        raise DeclarationError(
            f"Invalid table name {schema}.{table}: use lower-case letters, digits and underscores."
        )
    if len(f"{schema}_{table}{LONGEST_SUFFIX}") > 63:
        raise DeclarationError(
            f"Invalid table name {schema}.{table}: with the suffixes of its indexes it is over 63 "
            "characters. Shorten it."
        )
