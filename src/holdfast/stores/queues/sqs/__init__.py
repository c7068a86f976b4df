"""The queues engine on SQS: at AWS, or at any endpoint that speaks its protocol.

engine.py       runs operations: passes each to its handler
handlers/       one operation → one or more requests → its result
definitions.py  queues to SQS's attributes and back; messages.py messages to its entries and back
service.py      sends requests: a thread for the SDK's call, the retries, the doubt after a lost response
errors.py       maps every error of the SDK and of the service to a `HoldfastError`
"""

from __future__ import annotations

from holdfast.stores.queues.sqs.engine import SQSQueues, open_sqs

__all__ = ["SQSQueues", "open_sqs"]
