"""The objects engine that speaks to S3: at AWS, or at any endpoint that answers its protocol.

engine.py     runs operations
buckets.py    what a definition becomes: encryption, lifecycle, Object Lock
service.py    asks: the SDK in a thread with retries, obstore for the bytes of objects
failures.py   every error of both as one of ours
"""

from __future__ import annotations

from holdfast.config.aws_clients import Timeouts
from holdfast.stores.objects.extra import require_obstore

# Before the first import of it, which would say less.
require_obstore()

from holdfast.stores.objects.s3.engine import S3Objects, open_s3  # noqa: E402

__all__ = ["S3Objects", "Timeouts", "open_s3"]
