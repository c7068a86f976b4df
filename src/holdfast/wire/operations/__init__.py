"""One file per DynamoDB operation, named as the operation is: its shape, `decode` and `encode`.

`CODECS` is the table of all of them, by what the header X-Amz-Target says.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from holdfast.wire.dispatch import Codec

_TABLES: Final = (
    "batch_get_item batch_write_item create_backup create_table delete_backup delete_item delete_table "
    "describe_backup describe_continuous_backups describe_limits describe_table describe_time_to_live "
    "get_item list_backups list_tables put_item query restore_table_from_backup "
    "restore_table_to_point_in_time scan transact_get_items transact_write_items update_continuous_backups "
    "update_item update_table update_time_to_live describe_endpoints"
).split()
_STREAMS: Final = "describe_stream get_records get_shard_iterator list_streams".split()


def _codecs() -> dict[str, Any]:
    return {
        f"{service}_20120810.{name.title().replace('_', '')}": import_module(f"{__name__}.{name}")
        for service, names in (("DynamoDB", _TABLES), ("DynamoDBStreams", _STREAMS))
        for name in names
        if find_spec(f"{__name__}.{name}") is not None
    }


CODECS: Final[dict[str, Codec]] = _codecs()
