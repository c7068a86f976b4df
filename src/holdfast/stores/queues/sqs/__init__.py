"""The queues engine that speaks to SQS: at AWS, or at any endpoint that answers its protocol.

engine.py       runs operations: takes each to its function in act/
act/            one operation → one or more requests → its result
definitions.py  queues as SQS's attributes and back; messages.py messages as its entries and back
service.py      asks: a thread for the SDK's call, the retries, the doubt after a lost answer
failures.py     every error of the SDK and of the service as one of ours
"""

from __future__ import annotations

from holdfast.stores.queues.sqs.engine import SQSQueues, open_sqs

__all__ = ["SQSQueues", "open_sqs"]
