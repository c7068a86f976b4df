"""ARNs: the names of tables, indexes, streams and backups on the wire.

The engine knows tables by their plain names. Encoding a result builds ARNs for the caller's `Place`; decoding
a request parses them. A text that is not an ARN of the expected kind parses to `None`, and the operation's
own check raises DynamoDB's error for it.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

DEFAULT_REGION: Final = "us-east-1"
DEFAULT_ACCOUNT: Final = "000000000000"


class Place(NamedTuple):
    """The region and the account in the ARNs of one caller's responses."""

    region: str = DEFAULT_REGION
    account: str = DEFAULT_ACCOUNT


HERE: Final = Place()


class StreamParts(NamedTuple):
    table: str
    label: str


class BackupParts(NamedTuple):
    table: str
    id: str


def table_arn(place: Place, table: str) -> str:
    return f"arn:{_partition(place.region)}:dynamodb:{place.region}:{place.account}:table/{table}"


def index_arn(place: Place, table: str, index: str) -> str:
    return f"{table_arn(place, table)}/index/{index}"


def stream_arn(place: Place, table: str, label: str) -> str:
    return f"{table_arn(place, table)}/stream/{label}"


def backup_arn(place: Place, table: str, backup_id: str) -> str:
    return f"{table_arn(place, table)}/backup/{backup_id}"


def table_of(arn: str) -> str | None:
    """Return the table that a table ARN names."""
    found = _TABLE.fullmatch(arn)
    return found["table"] if found else None


def stream_of(arn: str) -> StreamParts | None:
    """Return the table and the label that a stream ARN names."""
    found = _STREAM.fullmatch(arn)
    return StreamParts(found["table"], found["label"]) if found else None


def backup_of(arn: str) -> BackupParts | None:
    """Return the table and the id that a backup ARN names."""
    found = _BACKUP.fullmatch(arn)
    return BackupParts(found["table"], found["id"]) if found else None


def _partition(region: str) -> str:
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"


_PREFIX: Final = r"arn:aws[a-z-]*:dynamodb:[A-Za-z0-9-]+:[0-9]{12}:table/(?P<table>[a-zA-Z0-9_.-]+)"
_TABLE: Final = re.compile(_PREFIX)
_STREAM: Final = re.compile(_PREFIX + r"/stream/(?P<label>[0-9T:.-]+)")
_BACKUP: Final = re.compile(_PREFIX + r"/backup/(?P<id>[a-zA-Z0-9-]+)")
