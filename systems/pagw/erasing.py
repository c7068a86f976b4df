"""What belongs to a request, for erasing it: its row with lookups and deliveries, its keys, its files.

The audit stays: it holds no PHI, and the law wants it. A request that has not ended is not erased under its stages, and one
under a legal hold not at all. Without a row, files are looked for in the month that the id tells: an erasure that died may
have left them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast import Operation, Stores, ulid
from holdfast.errors import InvalidRequest
from holdfast.guarantees import Traces
from pagw import holds
from pagw.formers import PAGW_ID
from pagw.model import IdempotencyRecord, Tracked
from pagw.monitoring import any_request
from pagw.retaining import remove_counters, remove_requests
from pagw.statuses import TERMINAL
from pagw.sweeping import remove_file

KIND: Final = "request"
# A request is created a moment after its id is minted: at the end of a month, in the next one.
AROUND: Final = timedelta(hours=1)
# The first ten characters of a ULID are milliseconds, in Crockford's base 32.
_TIME_CHARS: Final = 10
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


async def of_request(stores: Stores, pagw_id: str) -> Traces:
    if not PAGW_ID.fullmatch(pagw_id):
        raise InvalidRequest("That is no id of a request: it is PAGW- and 26 letters and digits.")
    request = await stores.run(any_request(pagw_id))
    if request is None:
        return Traces(await _left(stores, pagw_id), (pagw_id,))
    if await stores.run(holds.holds(pagw_id)):
        raise InvalidRequest(f"{pagw_id} is under a legal hold: lift it first, if that may be.")
    if request.status not in TERMINAL:
        raise InvalidRequest(
            f"{pagw_id} is {request.status}, and its stages are at it: erase it when it has ended."
        )
    return Traces([*_rows(request), *await _files(stores, request.created_at, pagw_id)], (pagw_id,))


def _rows(request: Tracked) -> list[Operation[Any]]:
    """The row goes before the files that it points at."""
    keys = (request.metadata.get("idempotencyKey"), f"{request.tenant}:{request.pagw_id}#payer")
    return [
        *(IdempotencyRecord.of(str(key)).delete() for key in keys if key),
        remove_counters([request.pagw_id]),
        remove_requests([request.pagw_id]),
    ]


async def _files(stores: Stores, created_at: datetime, pagw_id: str) -> list[Operation[Any]]:
    return [remove_file(key) async for key in holds.keys_of(stores, created_at, pagw_id)]


async def _left(stores: Stores, pagw_id: str) -> list[Operation[Any]]:
    minted = _minted_at(pagw_id)
    months = {each.strftime("%Y%m"): each for each in (minted, minted + AROUND)}
    return [each for month in months.values() for each in await _files(stores, month, pagw_id)]


def _minted_at(pagw_id: str) -> datetime:
    milliseconds = 0
    for character in ulid(pagw_id.removeprefix("PAGW-"))[:_TIME_CHARS]:
        milliseconds = milliseconds * 32 + _ALPHABET.index(character)
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError):
        raise InvalidRequest(f"{pagw_id} is of a time that is not to come: it is no id of ours.") from None
