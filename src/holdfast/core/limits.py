"""All numeric limits, each with its source.

AWS's numbers are those of the Amazon DynamoDB Developer Guide ("Quotas", "Constraints", "Item sizes") and of
the API reference, and of the same two for SQS; our own say why they are what they are.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * 1024

# --- items and values (Developer Guide: Constraints) --------------------------------------------------------
ITEM_BYTES_MAX: Final = 400 * KIB
PARTITION_KEY_BYTES_MAX: Final = 2048
SORT_KEY_BYTES_MAX: Final = 1024
NESTING_LEVELS_MAX: Final = 32
# A value is a level too: so many lists and maps may enclose it.
NESTING_CONTAINERS_MAX: Final = NESTING_LEVELS_MAX - 1
NUMBER_DIGITS_MAX: Final = 38
NUMBER_EXPONENT_MAX: Final = 125
NUMBER_EXPONENT_MIN: Final = -130
ATTRIBUTE_NAME_BYTES_MAX: Final = 65535

# --- capacity units (Developer Guide: Read/write capacity mode) ---------------------------------------------
READ_UNIT_BYTES: Final = 4 * KIB
WRITE_UNIT_BYTES: Final = KIB

# --- requests (API reference) -------------------------------------------------------------------------------
PAGE_BYTES_MAX: Final = MIB
BATCH_WRITES_MAX: Final = 25
BATCH_READS_MAX: Final = 100
BATCH_READ_BYTES_MAX: Final = 16 * MIB
TRANSACTION_ACTIONS_MAX: Final = 100
TRANSACTION_TOKEN_CHARS_MAX: Final = 36
TRANSACTION_BYTES_MAX: Final = 4 * MIB
SCAN_SEGMENTS_MAX: Final = 1_000_000
TRANSACTION_TOKEN_LIFETIME_S: Final = 10 * 60

# --- expressions (Developer Guide: Constraints, expression parameters) --------------------------------------
EXPRESSION_BYTES_MAX: Final = 4 * KIB
EXPRESSION_OPERATORS_MAX: Final = 300
EXPRESSION_IN_OPERANDS_MAX: Final = 100
EXPRESSION_PLACEHOLDER_BYTES_MAX: Final = 255

# --- tables and indexes (Developer Guide: Quotas) -----------------------------------------------------------
GLOBAL_INDEXES_MAX: Final = 20
LOCAL_INDEXES_MAX: Final = 5
PROJECTED_ATTRIBUTES_MAX: Final = 100
LIST_TABLES_MAX: Final = 100
TABLES_MAX: Final = 2500
ACCOUNT_UNITS_MAX: Final = 80_000
TABLE_UNITS_MAX: Final = 40_000
# Beyond this the service refuses to change an index's throughput (seen in recordings).
INDEX_UNITS_MAX: Final = 10**12

# --- streams and recovery (Developer Guide: Streams, Point-in-time recovery) --------------------------------
STREAM_RETENTION_S: Final = 24 * 3600
STREAM_RECORDS_MAX: Final = 1000
STREAM_PAGE_BYTES_MAX: Final = MIB
STREAM_ITERATOR_LIFETIME_S: Final = 15 * 60
LIST_STREAMS_MAX: Final = 100
STREAM_SHARDS_MAX: Final = 100
RECOVERY_DAYS_MAX: Final = 35
LIST_BACKUPS_MAX: Final = 100

# --- time to live (Developer Guide: Time to live; an older expiry time is treated as a mistake) ----------
EXPIRED_AGE_S_MAX: Final = 5 * 365 * 86400

# --- the wire -----------------------------------------------------------------------------------------------
# The largest legal request is a batch of 25 items of 400 KiB, whose binaries grow by a third as base64.
REQUEST_BODY_BYTES_MAX: Final = 16 * MIB
# All large bodies together, from their first byte until their response: sixteen of the largest. Without this
# budget, every connection could start one and leave it unfinished. Bodies up to a socket's buffer are free:
# at the maximum number of connections they take 50 MiB, and they get through while others fill the budget.
REQUEST_BODIES_BYTES_MAX: Final = 256 * MIB
REQUEST_BODY_BYTES_FREE: Final = 64 * KIB
REQUEST_HEAD_TIMEOUT_S: Final = 15.0
REQUEST_BODY_TIMEOUT_S: Final = 30.0
KEEP_ALIVE_TIMEOUT_S: Final = 60.0
SHUTDOWN_GRACE_S: Final = 30.0

# --- background work: small batches, so that a waiting writer waits milliseconds ----------------------------
EXPIRY_BATCH_ITEMS: Final = 50
BACKFILL_BATCH_ITEMS: Final = 200
TRIM_BATCH_RECORDS: Final = 500
# Rows are also bounded by bytes: an item may have 400 KiB, and a step of 200 of them would take a second.
STEP_BYTES_MAX: Final = MIB

# --- queues (Amazon SQS Developer Guide: Message quotas; API reference) -------------------------------------
QUEUE_NAME_CHARS_MAX: Final = 80
QUEUE_BATCH_MAX: Final = 10
# A message with its attributes, and all messages of a batch together.
MESSAGE_BYTES_MAX: Final = MIB
# SQS accepts ten; one is reserved for the deduplication id of a redriven message.
MESSAGE_ATTRIBUTES_MAX: Final = 9
MESSAGE_ATTRIBUTE_NAME_CHARS_MAX: Final = 256
# A message group id or a deduplication id.
MESSAGE_TOKEN_CHARS_MAX: Final = 128
DEDUPLICATION_WINDOW_S: Final = 5 * 60
VISIBILITY_S_MAX: Final = 12 * 3600
MESSAGE_DELAY_S_MAX: Final = 15 * 60
RECEIVE_WAIT_S_MAX: Final = 20
MESSAGE_RETENTION_S_MIN: Final = 60
MESSAGE_RETENTION_S_MAX: Final = 14 * 86400
RECEIVES_MAX: Final = 1000
# Ours: how many other messages one unit of work may move or remove, so that other callers wait milliseconds.
QUEUE_STEP_MESSAGES: Final = 100
# Ours: after this many units of work, this many ended rows are removed: twice what those units can add.
QUEUE_SWEEP_EVERY: Final = 8
QUEUE_SWEEP_ROWS: Final = 2 * QUEUE_SWEEP_EVERY * QUEUE_BATCH_MAX
# Ours: a waiting receiver polls at this interval in any case, because another process may move a run clock.
QUEUE_LOOK_AGAIN_S: Final = 1.0
