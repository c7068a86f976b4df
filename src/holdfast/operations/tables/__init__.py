"""The operations of a tables store: DynamoDB's own, as frozen values, one file per operation.

Names follow Python here (`table`, `consistent`); only `holdfast.wire` uses AWS's casing.
"""

from __future__ import annotations

from holdfast.operations.tables.batch_get_item import BatchGetItem, BatchGetItemResult, KeysAndAttributes
from holdfast.operations.tables.batch_write_item import (
    BatchWrite,
    BatchWriteItem,
    BatchWriteItemResult,
    Delete,
    Put,
)
from holdfast.operations.tables.capacity import ConsumedCapacity, Units
from holdfast.operations.tables.create_table import CreateTable
from holdfast.operations.tables.delete_item import DeleteItem
from holdfast.operations.tables.delete_table import DeleteTable
from holdfast.operations.tables.describe_limits import DescribeLimits, DescribeLimitsResult
from holdfast.operations.tables.describe_table import DescribeTable
from holdfast.operations.tables.get_item import GetItem, GetItemResult
from holdfast.operations.tables.item_history import (
    GetItemAt,
    ItemAt,
    ItemChange,
    ItemChanges,
    ListItemChanges,
)
from holdfast.operations.tables.list_tables import ListTables, ListTablesResult
from holdfast.operations.tables.operation import CapacityDetail, ItemOperation, Operation
from holdfast.operations.tables.page import PageResult, Select
from holdfast.operations.tables.put_item import PutItem
from holdfast.operations.tables.query import Query
from holdfast.operations.tables.recovery import (
    BackupDescription,
    BackupName,
    BackupSummary,
    ContinuousBackups,
    CreateBackup,
    DeleteBackup,
    DescribeBackup,
    DescribeContinuousBackups,
    ListBackups,
    ListBackupsResult,
    RestoreOverrides,
    RestoreTableFromBackup,
    RestoreTableToPointInTime,
    UpdateContinuousBackups,
)
from holdfast.operations.tables.scan import Scan
from holdfast.operations.tables.schema import (
    BillingMode,
    IndexDefinition,
    IndexProjection,
    IndexState,
    KeyAttribute,
    KeySchema,
    KeyTag,
    RestoreOrigin,
    StreamView,
    TableClass,
    TableDefinition,
    TableDescription,
    TableStatus,
    Throughput,
)
from holdfast.operations.tables.streams import (
    DescribeStream,
    GetRecords,
    GetRecordsResult,
    GetShardIterator,
    ListStreams,
    ListStreamsResult,
    Shard,
    ShardIterator,
    StreamDescription,
    StreamName,
    StreamRecord,
)
from holdfast.operations.tables.time_to_live import (
    DescribeTimeToLive,
    DescribeTimeToLiveResult,
    TimeToLiveSpecification,
    UpdateTimeToLive,
)
from holdfast.operations.tables.transact_get_items import (
    TransactGet,
    TransactGetItems,
    TransactGetItemsResult,
)
from holdfast.operations.tables.transact_write_items import (
    ConditionCheck,
    TransactWrite,
    TransactWriteItems,
    TransactWriteItemsResult,
)
from holdfast.operations.tables.update_item import UpdateItem
from holdfast.operations.tables.update_table import (
    CreateIndex,
    DeleteIndex,
    IndexChange,
    StreamChange,
    UpdateIndex,
    UpdateTable,
)
from holdfast.operations.tables.write import ReturnOldValues, ReturnValues, WriteResult

__all__ = [
    "BackupDescription",
    "BackupName",
    "BackupSummary",
    "BatchGetItem",
    "BatchGetItemResult",
    "BatchWrite",
    "BatchWriteItem",
    "BatchWriteItemResult",
    "BillingMode",
    "CapacityDetail",
    "ConditionCheck",
    "ConsumedCapacity",
    "ContinuousBackups",
    "CreateBackup",
    "CreateIndex",
    "CreateTable",
    "Delete",
    "DeleteBackup",
    "DeleteIndex",
    "DeleteItem",
    "DeleteTable",
    "DescribeBackup",
    "DescribeContinuousBackups",
    "DescribeLimits",
    "DescribeLimitsResult",
    "DescribeStream",
    "DescribeTable",
    "DescribeTimeToLive",
    "DescribeTimeToLiveResult",
    "GetItem",
    "GetItemAt",
    "GetItemResult",
    "GetRecords",
    "GetRecordsResult",
    "GetShardIterator",
    "IndexChange",
    "IndexDefinition",
    "IndexProjection",
    "IndexState",
    "ItemAt",
    "ItemChange",
    "ItemChanges",
    "ItemOperation",
    "KeyAttribute",
    "KeySchema",
    "KeyTag",
    "KeysAndAttributes",
    "ListBackups",
    "ListBackupsResult",
    "ListItemChanges",
    "ListStreams",
    "ListStreamsResult",
    "ListTables",
    "ListTablesResult",
    "Operation",
    "PageResult",
    "Put",
    "PutItem",
    "Query",
    "RestoreOrigin",
    "RestoreOverrides",
    "RestoreTableFromBackup",
    "RestoreTableToPointInTime",
    "ReturnOldValues",
    "ReturnValues",
    "Scan",
    "Select",
    "Shard",
    "ShardIterator",
    "StreamChange",
    "StreamDescription",
    "StreamName",
    "StreamRecord",
    "StreamView",
    "TableClass",
    "TableDefinition",
    "TableDescription",
    "TableStatus",
    "Throughput",
    "TimeToLiveSpecification",
    "TransactGet",
    "TransactGetItems",
    "TransactGetItemsResult",
    "TransactWrite",
    "TransactWriteItems",
    "TransactWriteItemsResult",
    "Units",
    "UpdateContinuousBackups",
    "UpdateIndex",
    "UpdateItem",
    "UpdateTable",
    "UpdateTimeToLive",
    "WriteResult",
]
