"""The tables engine that speaks to DynamoDB: at AWS, or at any endpoint that answers its protocol.

engine.py       runs operations: takes each to its function in act/
act/            one operation → one or more requests → its result, in the rooms of the embedded engine's act/
definitions.py  tables as requests declare them; descriptions.py tables as answers tell them
values.py       attribute values; capacity.py what was consumed
service.py      asks: a thread for the SDK's call, the retries, the doubt after a lost answer
repeats.py      which writes may be repeated; holdfast.stores.retrying for how long, and how long between
failures.py     every error of the SDK and of the service as one of ours
clients.py      the SDK's clients: credentials, region, endpoint, time-outs. The only module that makes them
"""

from __future__ import annotations

from holdfast.config.aws_clients import Timeouts
from holdfast.stores.retrying import Backoff, Waiting
from holdfast.stores.tables.dynamodb.engine import DynamoDBTables, open_dynamodb

__all__ = ["Backoff", "DynamoDBTables", "Timeouts", "Waiting", "open_dynamodb"]
