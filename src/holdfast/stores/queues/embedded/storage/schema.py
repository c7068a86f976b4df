"""The SQLite schema of the embedded queues.

queues          the catalog: a definition per queue, and the lot its messages are in
lots            a lot is the messages of a queue since its last purge: a purge gives the queue an empty lot,
                and the old one, with `dropped` = 1, is cleared in small batches; 2 if only messages are left
                that SQLite cannot remove. `messages` counts its rows, kept by the triggers
messages        every message, with a checksum. `place` orders them and is never reused
deduplications  the ids seen within the window; they outlive their messages

The column `due` keeps a receive cheap. It is the moment from which a message may be received, and NULL for a
message that is not the first of its FIFO group. A group has one message with a `due`, its head; deleting the
head sets the `due` of the next one. So "the oldest visible message whose group is free" is the first entry of
one index, however many messages and locked groups there are.

The column `hidden_s` is for how many seconds a message was last hidden: its delay, or its visibility timeout.
A `due` farther away than that was written by a clock that was ahead.
"""

from __future__ import annotations

from typing import Any, Final

import apsw

from holdfast.stores.queues.embedded.storage.messages import compute_sum
from holdfast.stores.sqlite import Migration, Schema

APPLICATION_ID: Final = 0x48464451  # "HFDQ"

INITIAL: Final = """
CREATE TABLE queues (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, lot INTEGER NOT NULL,
                     definition BLOB NOT NULL);
CREATE TABLE lots (lot INTEGER PRIMARY KEY AUTOINCREMENT, messages INTEGER NOT NULL DEFAULT 0,
                   dropped INTEGER NOT NULL DEFAULT 0);
CREATE INDEX lots_dropped ON lots (lot) WHERE dropped = 1;
CREATE TABLE messages (place INTEGER PRIMARY KEY AUTOINCREMENT, lot INTEGER NOT NULL, id TEXT NOT NULL, "group" TEXT,
                       deduplication TEXT, sent_at REAL NOT NULL, available_at REAL NOT NULL, due REAL,
                       receives INTEGER NOT NULL DEFAULT 0, token TEXT, died_in TEXT, attributes BLOB NOT NULL,
                       body TEXT NOT NULL);
CREATE INDEX messages_due ON messages (lot, due) WHERE due IS NOT NULL;
CREATE INDEX messages_group ON messages (lot, "group") WHERE "group" IS NOT NULL;
CREATE INDEX messages_age ON messages (lot, sent_at);
CREATE INDEX messages_held ON messages (lot, due) WHERE token IS NOT NULL;
CREATE INDEX messages_delayed ON messages (lot, available_at) WHERE available_at > sent_at;
CREATE TRIGGER message_counted AFTER INSERT ON messages
BEGIN UPDATE lots SET messages = messages + 1 WHERE lot = new.lot; END;
CREATE TRIGGER message_uncounted AFTER DELETE ON messages
BEGIN UPDATE lots SET messages = messages - 1 WHERE lot = old.lot; END;
CREATE TABLE deduplications (queue INTEGER NOT NULL, deduplication TEXT NOT NULL, at REAL NOT NULL, id TEXT NOT NULL,
                             place INTEGER NOT NULL, PRIMARY KEY (queue, deduplication)) WITHOUT ROWID;
CREATE INDEX deduplications_age ON deduplications (at);
"""  # noqa: E501


def _add_sums(connection: apsw.Connection) -> None:
    """Give each message its checksum, and room for how long it is hidden: the migration of a file of version
    0.2 and before.
    """

    def sum_message(*row: Any) -> int:
        return compute_sum(row)

    columns = (
        'lot, id, "group", deduplication, sent_at, available_at, due, hidden_s, receives, token, died_in, '
        "attributes, body"
    )
    connection.create_scalar_function("holdfast_message_sum", sum_message, 13, deterministic=True)
    connection.execute("ALTER TABLE messages ADD COLUMN hidden_s REAL")
    connection.execute("ALTER TABLE messages ADD COLUMN sum INTEGER NOT NULL DEFAULT 0")
    connection.execute(f"UPDATE messages SET sum = holdfast_message_sum({columns})")
    connection.create_scalar_function("holdfast_message_sum", None)


SCHEMA: Final = Schema(APPLICATION_ID, (Migration(1, INITIAL), Migration(2, _add_sums)))

# The tables other than the messages, and the indexes by which messages are found. Two others only count.
_SIDE_ROWS: Final = (
    "messages INDEXED BY messages_due WHERE due IS NOT NULL",
    'messages INDEXED BY messages_group WHERE "group" IS NOT NULL',
    "messages INDEXED BY messages_age",
    "queues NOT INDEXED",
    "queues INDEXED BY sqlite_autoindex_queues_1",
    "lots NOT INDEXED",
    "lots INDEXED BY lots_dropped WHERE dropped = 1",
)
_DEDUPLICATIONS: Final = ("deduplications NOT INDEXED", "deduplications INDEXED BY deduplications_age")


def read_all_but_messages(connection: apsw.Connection, *, deduplications: bool) -> None:
    """Read every page that is needed to find messages and to change them, except those of messages.

    With `deduplications`, also those that are needed to send one.
    """
    for rows in (*_SIDE_ROWS, *(_DEDUPLICATIONS if deduplications else ())):
        connection.execute(f"SELECT count(*) FROM {rows}").fetchall()
