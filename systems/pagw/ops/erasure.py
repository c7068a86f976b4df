"""Erasure of a request: the deletes of its row, lookups, deliveries, idempotency keys and files.

The audit log stays: it holds no PHI, and the law requires it. A request that has not ended cannot be erased,
nor one under a legal hold. Without a row, files are searched in the month encoded in the id, because an
interrupted erasure may have left them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast import Stores
from holdfast.core.errors import InvalidRequest
from holdfast.guarantees import SubjectData
from holdfast.model.operations import Operation
from holdfast.model.ulids import parse_ulid
from pagw.domain.statuses import TERMINAL
from pagw.model.entities import IdempotencyRecord, RequestRow
from pagw.ops import legal_holds
from pagw.ops.monitoring import any_request
from pagw.ops.retention import remove_counters, remove_requests
from pagw.workers.related_requests import PAGW_ID
from pagw.workers.sweeper import remove_file

KIND: Final = "request"
# A request is created shortly after its id is minted, which may be in the next month.
CREATION_SLACK: Final = timedelta(hours=1)
# The first ten characters of a ULID are milliseconds, in Crockford's base 32.
_TIME_CHARS: Final = 10
_CROCKFORD_BASE32: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


async def find_request_traces(stores: Stores, pagw_id: str) -> SubjectData:
    """Return the deletes that erase a request. The caller runs them. Raise `InvalidRequest` for an invalid
    id, a held or a running request.
    """
    if not PAGW_ID.fullmatch(pagw_id):
        raise InvalidRequest("Invalid request id: expected PAGW- and 26 letters and digits.")
    request = await stores.run(any_request(pagw_id))
    if request is None:
        return SubjectData(await _find_leftover_files(stores, pagw_id), (pagw_id,))
    if await stores.run(legal_holds.holds(pagw_id)):
        raise InvalidRequest(f"{pagw_id} is under a legal hold. Lift the hold first, if the law allows it.")
    if request.status not in TERMINAL:
        raise InvalidRequest(
            f"{pagw_id} is {request.status} and still being processed. Erase it when it has ended."
        )
    return SubjectData(
        [*_build_row_deletes(request), *await _build_file_deletes(stores, request.created_at, pagw_id)],
        (pagw_id,),
    )


def _build_row_deletes(request: RequestRow) -> list[Operation[Any]]:
    """Return the deletes of keys and rows. They run before those of the files that the row points at."""
    keys = (request.metadata.get("idempotencyKey"), f"{request.tenant}:{request.pagw_id}#payer")
    return [
        *(IdempotencyRecord.of(str(key)).delete() for key in keys if key),
        remove_counters([request.pagw_id]),
        remove_requests([request.pagw_id]),
    ]


async def _build_file_deletes(stores: Stores, created_at: datetime, pagw_id: str) -> list[Operation[Any]]:
    """Return the deletes of a request's files. `created_at` is any time in the month of its creation."""
    return [remove_file(key) async for key in legal_holds.iterate_keys(stores, created_at, pagw_id)]


async def _find_leftover_files(stores: Stores, pagw_id: str) -> list[Operation[Any]]:
    """Return the deletes of files without a row, in the month of the id and, near its end, in the next."""
    minted = _parse_mint_time(pagw_id)
    months = {each.strftime("%Y%m"): each for each in (minted, minted + CREATION_SLACK)}
    return [each for month in months.values() for each in await _build_file_deletes(stores, month, pagw_id)]


def _parse_mint_time(pagw_id: str) -> datetime:
    """Return the time encoded in a request's id. Raise `InvalidRequest` if it is out of range."""
    milliseconds = 0
    for character in parse_ulid(pagw_id.removeprefix("PAGW-"))[:_TIME_CHARS]:
        milliseconds = milliseconds * 32 + _CROCKFORD_BASE32.index(character)
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError):
        raise InvalidRequest(f"Invalid request id {pagw_id}: its timestamp is out of range.") from None
