"""The objects engine on S3: at AWS, or at any endpoint that speaks its protocol.

engine.py     runs operations
buckets.py    applies a bucket's definition: encryption, lifecycle, Object Lock
service.py    sends requests: the SDK in a thread with retries, obstore for the bytes of objects
errors.py     maps every error of both to a `HoldfastError`
"""

from __future__ import annotations

from holdfast.config.aws_clients import Timeouts
from holdfast.stores.objects.extra import require_obstore

# Check before the first import of the dependency, whose own error says less.
require_obstore()

from holdfast.stores.objects.s3.engine import S3Objects, open_s3  # noqa: E402

__all__ = ["S3Objects", "Timeouts", "open_s3"]
