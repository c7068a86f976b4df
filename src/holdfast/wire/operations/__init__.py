"""One file per DynamoDB operation, with the operation's name: its shape, `decode` and `encode`.

`CODECS` maps the value of the header X-Amz-Target to these files. Any other value is answered with
UnknownOperationException: without a message, as DynamoDB does, or with a sentence if DynamoDB has the
operation and Holdfast does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.wire.operations import (
    batch_get_item,
    batch_write_item,
    create_backup,
    create_table,
    delete_backup,
    delete_item,
    delete_table,
    describe_backup,
    describe_continuous_backups,
    describe_limits,
    describe_stream,
    describe_table,
    describe_time_to_live,
    get_item,
    get_records,
    get_shard_iterator,
    list_backups,
    list_streams,
    list_tables,
    put_item,
    query,
    restore_table_from_backup,
    restore_table_to_point_in_time,
    scan,
    transact_get_items,
    transact_write_items,
    update_continuous_backups,
    update_item,
    update_table,
    update_time_to_live,
)

if TYPE_CHECKING:
    from holdfast.wire.dispatch import Codec

_TABLES: Final[dict[str, Codec]] = {
    "BatchGetItem": batch_get_item,
    "BatchWriteItem": batch_write_item,
    "CreateBackup": create_backup,
    "CreateTable": create_table,
    "DeleteBackup": delete_backup,
    "DeleteItem": delete_item,
    "DeleteTable": delete_table,
    "DescribeBackup": describe_backup,
    "DescribeContinuousBackups": describe_continuous_backups,
    "DescribeLimits": describe_limits,
    "DescribeTable": describe_table,
    "DescribeTimeToLive": describe_time_to_live,
    "GetItem": get_item,
    "ListBackups": list_backups,
    "ListTables": list_tables,
    "PutItem": put_item,
    "Query": query,
    "RestoreTableFromBackup": restore_table_from_backup,
    "RestoreTableToPointInTime": restore_table_to_point_in_time,
    "Scan": scan,
    "TransactGetItems": transact_get_items,
    "TransactWriteItems": transact_write_items,
    "UpdateContinuousBackups": update_continuous_backups,
    "UpdateItem": update_item,
    "UpdateTable": update_table,
    "UpdateTimeToLive": update_time_to_live,
}
_STREAMS: Final[dict[str, Codec]] = {
    "DescribeStream": describe_stream,
    "GetRecords": get_records,
    "GetShardIterator": get_shard_iterator,
    "ListStreams": list_streams,
}
CODECS: Final[dict[str, Codec]] = {
    **{f"DynamoDB_20120810.{name}": codec for name, codec in _TABLES.items()},
    **{f"DynamoDBStreams_20120810.{name}": codec for name, codec in _STREAMS.items()},
}

NOT_SERVED: Final = frozenset(
    {
        "BatchExecuteStatement",
        "CreateGlobalTable",
        "DeleteResourcePolicy",
        "DescribeContributorInsights",
        "DescribeExport",
        "DescribeGlobalTable",
        "DescribeGlobalTableSettings",
        "DescribeImport",
        "DescribeKinesisStreamingDestination",
        "DescribeTableReplicaAutoScaling",
        "DisableKinesisStreamingDestination",
        "EnableKinesisStreamingDestination",
        "ExecuteStatement",
        "ExecuteTransaction",
        "ExportTableToPointInTime",
        "GetResourcePolicy",
        "ImportTable",
        "ListContributorInsights",
        "ListExports",
        "ListGlobalTables",
        "ListImports",
        "ListTagsOfResource",
        "PutResourcePolicy",
        "TagResource",
        "UntagResource",
        "UpdateContributorInsights",
        "UpdateGlobalTable",
        "UpdateGlobalTableSettings",
        "UpdateKinesisStreamingDestination",
        "UpdateTableReplicaAutoScaling",
    }
)
"""Operations that DynamoDB has and Holdfast does not serve."""
