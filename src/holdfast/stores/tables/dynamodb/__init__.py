"""The tables engine on DynamoDB: at AWS, or at any endpoint that speaks its protocol.

engine.py       runs operations: passes each to its handler
handlers/       one operation → one or more requests → its result; modules named as in the embedded engine
definitions.py  table definitions as request members; descriptions.py response members as results
values.py       attribute values; expressions.py expressions; capacity.py consumed capacity; arns.py ARNs
expiry.py       hides expired items that the service has not removed yet
service.py      sends requests: a thread for the SDK's call, retries, lost responses
repeats.py      which writes may be repeated; holdfast.stores.retries has the backoff and the deadline
errors.py       maps the errors of the SDK and of the service to Holdfast's
clients.py      the SDK's clients: credentials, region, endpoint, timeouts. Only this module creates them
"""

from __future__ import annotations

from holdfast.config.aws_clients import Timeouts
from holdfast.stores.retries import Backoff, RetryTiming
from holdfast.stores.tables.dynamodb.engine import DynamoDBTables, open_dynamodb

__all__ = ["Backoff", "DynamoDBTables", "RetryTiming", "Timeouts", "open_dynamodb"]
