"""The tables of an outbox in SQL, as statements for a system's migration.

    def upgrade() -> None:
        for statement in outbox_ddl("pagw"):
            op.execute(statement)

An announcement is a row until it is swept. Beside them stands the counter of each aggregate: its row is locked by the
transaction that announces, so that numbers and ids are given in the order of the commits.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.errors import DeclarationError

TABLE: Final = "outbox"
# PostgreSQL cuts names off after 63 characters, and the longest of ours ends in this.
LONGEST_ENDING: Final = "_unprocessed"
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")


def outbox_ddl(schema: str, table: str = TABLE) -> list[str]:
    """Makes the outbox, its counters and its indexes."""
    check_names(schema, table)
    place = f"{schema}.{table}"
    return [
        # No column is filled in by the database's clock: the times are the writers' own, of the stores' clock. Rows are
        # claimed and marked soon after they are written: room on the page keeps the claim from moving them. What was never
        # tried has no next attempt: it is due at once, whatever the clocks of writers and publishers say. `is_behind` is
        # set where a publisher found others before a row: from then on the row is looked for by its lane.
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
        # What waits, oldest first. `processed` itself is no column of it: it would be the same in every entry.
        f"CREATE INDEX {table}_unprocessed ON {place} (id) WHERE NOT processed",
        # What may be sent, as far as a row says it itself: neither dead nor known to stand behind another.
        f"CREATE INDEX {table}_ready ON {place} (next_attempt_at, id) WHERE NOT processed AND dead_at IS NULL AND NOT is_behind",
        # The lanes in which something stands behind another.
        f"CREATE INDEX {table}_behind ON {place} (aggregate, queue_name) WHERE is_behind AND NOT processed",
        # The first of a lane, and what follows it.
        f"CREATE INDEX {table}_heads ON {place} (aggregate, queue_name, id) WHERE NOT processed",
        # What a sweep removes.
        f"CREATE INDEX {table}_processed ON {place} (processed_at) WHERE processed",
    ]


def check_names(schema: str, table: str) -> None:
    """They become part of statements, of a channel and of the ids by which a queue knows copies."""
    if not all(_NAME.fullmatch(each) for each in (schema, table)):
        raise DeclarationError(
            f"{schema}.{table} is no name for a table: use lower-case letters, digits and underscores."
        )
    if len(f"{schema}_{table}{LONGEST_ENDING}") > 63:
        raise DeclarationError(f"{schema}.{table} is too long a name for a table with indexes: shorten it.")
