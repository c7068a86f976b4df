"""The tables engine for DynamoDB: at AWS, or at any endpoint that implements its protocol.

engine.py       runs operations: passes each to its function in act/
act/            one operation → one or more requests → its result; modules named as in the embedded engine
definitions.py  table definitions as request members; descriptions.py response members as results
values.py       attribute values; capacity.py consumed capacity
service.py      sends requests: a thread for the SDK's call, retries, lost responses
repeats.py      which writes may be repeated; holdfast.stores.retrying has the backoff and the deadline
failures.py     maps the errors of the SDK and of the service to Holdfast's
clients.py      the SDK's clients: credentials, region, endpoint, timeouts. Only this module creates them
"""

from __future__ import annotations

from holdfast.config.aws_clients import Timeouts
from holdfast.stores.retrying import Backoff, Waiting
from holdfast.stores.tables.dynamodb.engine import DynamoDBTables, open_dynamodb

__all__ = ["Backoff", "DynamoDBTables", "Timeouts", "Waiting", "open_dynamodb"]
