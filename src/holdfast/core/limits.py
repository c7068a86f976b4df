"""All numeric limits, each with its source.

AWS's numbers are those of the Amazon DynamoDB Developer Guide ("Quotas", "Constraints", "Item sizes") and of
the API reference, and of the same two for SQS; our own say why they are what they are.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * 1024

# --- items and values (Developer Guide: Constraints) --------------------------------------------------------
MAX_ITEM_BYTES: Final = 400 * KIB
MAX_PARTITION_KEY_BYTES: Final = 2048
MAX_SORT_KEY_BYTES: Final = 1024
MAX_NESTING_LEVELS: Final = 32
# A value is a level too: so many lists and maps may enclose it.
MAX_NESTING_CONTAINERS: Final = MAX_NESTING_LEVELS - 1
MAX_NUMBER_DIGITS: Final = 38
MAX_NUMBER_EXPONENT: Final = 125
MIN_NUMBER_EXPONENT: Final = -130
MAX_ATTRIBUTE_NAME_BYTES: Final = 65535

# --- capacity units (Developer Guide: Read/write capacity mode) ---------------------------------------------
READ_UNIT_BYTES: Final = 4 * KIB
WRITE_UNIT_BYTES: Final = KIB

# --- requests (API reference) -------------------------------------------------------------------------------
MAX_PAGE_BYTES: Final = MIB
MAX_BATCH_WRITES: Final = 25
MAX_BATCH_READS: Final = 100
MAX_BATCH_READ_BYTES: Final = 16 * MIB
MAX_TRANSACTION_ACTIONS: Final = 100
MAX_TRANSACTION_TOKEN_CHARS: Final = 36
MAX_TRANSACTION_BYTES: Final = 4 * MIB
MAX_SCAN_SEGMENTS: Final = 1_000_000
TRANSACTION_TOKEN_LIFETIME_S: Final = 10 * 60

# --- expressions (Developer Guide: Constraints, expression parameters) --------------------------------------
MAX_EXPRESSION_BYTES: Final = 4 * KIB
MAX_EXPRESSION_OPERATORS: Final = 300
MAX_EXPRESSION_IN_OPERANDS: Final = 100
MAX_EXPRESSION_PLACEHOLDER_BYTES: Final = 255

# --- tables and indexes (Developer Guide: Quotas) -----------------------------------------------------------
MAX_GLOBAL_INDEXES: Final = 20
MAX_LOCAL_INDEXES: Final = 5
MAX_PROJECTED_ATTRIBUTES: Final = 100
MAX_LIST_TABLES: Final = 100
MAX_TABLES: Final = 2500
MAX_ACCOUNT_UNITS: Final = 80_000
MAX_TABLE_UNITS: Final = 40_000
# Beyond this the service refuses to change an index's throughput (seen in recordings).
MAX_INDEX_UNITS: Final = 10**12

# --- streams and recovery (Developer Guide: Streams, Point-in-time recovery) --------------------------------
STREAM_RETENTION_S: Final = 24 * 3600
MAX_STREAM_RECORDS: Final = 1000
MAX_STREAM_PAGE_BYTES: Final = MIB
STREAM_ITERATOR_LIFETIME_S: Final = 15 * 60
MAX_LIST_STREAMS: Final = 100
MAX_STREAM_SHARDS: Final = 100
MAX_RECOVERY_DAYS: Final = 35
MAX_LIST_BACKUPS: Final = 100

# --- time to live (Developer Guide: Time to live; an older expiry time is treated as a mistake) ----------
MAX_EXPIRED_AGE_S: Final = 5 * 365 * 86400

# --- the wire -----------------------------------------------------------------------------------------------
# The largest legal request is a batch of 25 items of 400 KiB, whose binaries grow by a third as base64.
MAX_REQUEST_BODY_BYTES: Final = 16 * MIB
# All large bodies together, from their first byte until their response: sixteen of the largest. Without this
# budget, every connection could start one and leave it unfinished. Bodies up to a socket's buffer are free:
# at the maximum number of connections they take 50 MiB, and they get through while others fill the budget.
MAX_REQUEST_BODIES_BYTES: Final = 256 * MIB
REQUEST_BODY_BYTES_FREE: Final = 64 * KIB
# A cursor in a query has up to 10,000 characters; a presigned request with a session token has headers of a
# few KiB.
MAX_REQUEST_TARGET_BYTES: Final = 16 * KIB
MAX_REQUEST_HEAD_BYTES: Final = 64 * KIB
MAX_REQUEST_HEADERS: Final = 200
MAX_PORT: Final = 65535
REQUEST_HEAD_TIMEOUT_S: Final = 15.0
REQUEST_BODY_TIMEOUT_S: Final = 30.0
KEEP_ALIVE_TIMEOUT_S: Final = 60.0
SHUTDOWN_GRACE_S: Final = 30.0

# --- background work: small batches, so that a waiting writer waits milliseconds ----------------------------
EXPIRY_BATCH_ITEMS: Final = 50
BACKFILL_BATCH_ITEMS: Final = 200
TRIM_BATCH_RECORDS: Final = 500
# Rows are also bounded by bytes: an item may have 400 KiB, and a step of 200 of them would take a second.
MAX_STEP_BYTES: Final = MIB

# --- workers ------------------------------------------------------------------------------------------------
# Grace period of running handlers after a stop. Then they are cancelled and their messages released.
WORKER_GRACE_S: Final = 20.0
# A receive is never cancelled, because received messages would stay hidden: a stop may wait this long for it.
RECEIVE_WAIT_S: Final = 2.0

# --- queues (Amazon SQS Developer Guide: Message quotas; API reference) -------------------------------------
MAX_QUEUE_NAME_CHARS: Final = 80
MAX_QUEUE_BATCH: Final = 10
# A message with its attributes, and all messages of a batch together.
MAX_MESSAGE_BYTES: Final = MIB
# SQS accepts ten; one is reserved for the deduplication id of a redriven message.
MAX_MESSAGE_ATTRIBUTES: Final = 9
MAX_MESSAGE_ATTRIBUTE_NAME_CHARS: Final = 256
# A message group id or a deduplication id.
MAX_MESSAGE_TOKEN_CHARS: Final = 128
DEDUPLICATION_WINDOW_S: Final = 5 * 60
MAX_VISIBILITY_S: Final = 12 * 3600
MAX_MESSAGE_DELAY_S: Final = 15 * 60
MAX_RECEIVE_WAIT_S: Final = 20
MIN_MESSAGE_RETENTION_S: Final = 60
MAX_MESSAGE_RETENTION_S: Final = 14 * 86400
MAX_RECEIVES: Final = 1000
# Ours: how many other messages one unit of work may move or remove, so that other callers wait milliseconds.
QUEUE_STEP_MESSAGES: Final = 100
# Ours: after this many units of work, this many ended rows are removed: twice what those units can add.
QUEUE_SWEEP_EVERY: Final = 8
QUEUE_SWEEP_ROWS: Final = 2 * QUEUE_SWEEP_EVERY * MAX_QUEUE_BATCH
# Ours: a waiting receiver polls at this interval in any case, because another process may move a run clock.
QUEUE_LOOK_AGAIN_S: Final = 1.0

# --- several requests of one operation ----------------------------------------------------------------------
# Requests of one operation that run at the same time.
MAX_PARALLEL_REQUESTS: Final = 16
# Attempts of a batch whose items the service leaves unprocessed.
MAX_BATCH_ATTEMPTS: Final = 10
