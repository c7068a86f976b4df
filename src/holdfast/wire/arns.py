"""ARNs on the wire: format and parse the names of tables, indexes, streams and backups.

The engine knows tables by their plain names. Encoding a result builds ARNs for the caller's `AwsLocation`;
decoding a request parses them. A text that is not an ARN of the expected kind parses to `None`, and the
operation's own check raises DynamoDB's error for it.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

DEFAULT_REGION: Final = "us-east-1"
DEFAULT_ACCOUNT: Final = "000000000000"


class AwsLocation(NamedTuple):
    """The AWS region and account in the ARNs of one caller's responses."""

    region: str = DEFAULT_REGION
    account: str = DEFAULT_ACCOUNT


DEFAULT_LOCATION: Final = AwsLocation()


class StreamArnParts(NamedTuple):
    table: str
    label: str


class BackupArnParts(NamedTuple):
    table: str
    id: str


def format_table_arn(location: AwsLocation, table: str) -> str:
    return (
        f"arn:{_get_partition(location.region)}:dynamodb:{location.region}:{location.account}:table/{table}"
    )


def format_index_arn(location: AwsLocation, table: str, index: str) -> str:
    return f"{format_table_arn(location, table)}/index/{index}"


def format_stream_arn(location: AwsLocation, table: str, label: str) -> str:
    return f"{format_table_arn(location, table)}/stream/{label}"


def format_backup_arn(location: AwsLocation, table: str, backup_id: str) -> str:
    return f"{format_table_arn(location, table)}/backup/{backup_id}"


def parse_table_arn(arn: str) -> str | None:
    """Return the table that a table ARN names, or None if the text is not one."""
    found = _TABLE_ARN.fullmatch(arn)
    return found["table"] if found else None


def parse_stream_arn(arn: str) -> StreamArnParts | None:
    """Return the table and the label that a stream ARN names, or None if the text is not one."""
    found = _STREAM_ARN.fullmatch(arn)
    return StreamArnParts(found["table"], found["label"]) if found else None


def parse_backup_arn(arn: str) -> BackupArnParts | None:
    """Return the table and the id that a backup ARN names, or None if the text is not one."""
    found = _BACKUP_ARN.fullmatch(arn)
    return BackupArnParts(found["table"], found["id"]) if found else None


def _get_partition(region: str) -> str:
    """Return the AWS partition of a region: aws, aws-cn or aws-us-gov."""
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"


_TABLE_ARN_PREFIX: Final = r"arn:aws[a-z-]*:dynamodb:[A-Za-z0-9-]+:[0-9]{12}:table/(?P<table>[a-zA-Z0-9_.-]+)"
_TABLE_ARN: Final = re.compile(_TABLE_ARN_PREFIX)
_STREAM_ARN: Final = re.compile(_TABLE_ARN_PREFIX + r"/stream/(?P<label>[0-9T:.-]+)")
_BACKUP_ARN: Final = re.compile(_TABLE_ARN_PREFIX + r"/backup/(?P<id>[a-zA-Z0-9-]+)")
