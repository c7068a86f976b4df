"""Cut a result that is too large for an agent, with a cursor for the rest.

Lists are cut, nothing else: at most so many elements of each that the result fits. The cursor says how much
of each list was returned; the next call computes the result again and returns the lists from there. It holds
a hash of the call, so that it is refused with other arguments.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Final

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import KIB

# About 16,000 tokens. One element is always returned whole, and an item has 400 KB at most.
MAX_PAGE_BYTES: Final = 64 * KIB
# For results that have no list to cut, or one element that is larger than a page.
MAX_RESULT_BYTES: Final = 256 * KIB
# Lists further down are parts of an element.
MAX_DEPTH: Final = 3
_HASH_CHARS: Final = 16

IsList = Callable[[str], bool]


def hash_call(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return a short hash of a call, without its cursor."""
    own = {name: value for name, value in arguments.items() if name != "cursor"}
    text = json.dumps([tool, own], sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]


def cut_result(
    result: dict[str, Any], call: str, cursor: str | None, may_cut: IsList = lambda _: True
) -> dict[str, Any]:
    """Return the result, or the part of it that the cursor names, with `cursor` and `truncated` if it is too
    large for a page.

    `call` is the hash of the call. `may_cut` says which lists may be cut, by their JSON pointers. Raise
    `InvalidRequest` for a result that is too large even so, and for a cursor of another call.
    """
    lists = {pointer: found for pointer, found in _find_lists(result) if may_cut(pointer)}
    shown = {} if cursor is None else _decode_cursor(cursor, call)
    if cursor is not None:
        result["cursor"] = None
        for pointer, found in lists.items():
            del found[: shown.get(pointer, len(found))]
    size = count_bytes(result)
    if size <= MAX_PAGE_BYTES:
        return result
    kept = _count_fitting(size, lists)
    cut = {pointer: len(found) for pointer, found in lists.items() if len(found) > kept}
    for pointer in cut:
        del lists[pointer][kept:]
    _refuse_too_large(result)
    ends = {pointer: shown.get(pointer, 0) + kept for pointer in cut}
    lengths = {pointer: shown.get(pointer, 0) + count for pointer, count in cut.items()}
    truncated = {pointer: {"shown": kept, "of": length} for pointer, length in lengths.items()}
    return result | {"cursor": _encode_cursor(call, ends), "truncated": truncated} if cut else result


def count_bytes(plain: Any) -> int:
    """Return the size of a JSON value as an agent receives it."""
    return len(json.dumps(plain, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _refuse_too_large(result: dict[str, Any]) -> None:
    """Raise `InvalidRequest` for a result that is too large although its lists are cut."""
    if (size := count_bytes(result)) > MAX_RESULT_BYTES:
        raise InvalidRequest(
            f"The result has {size:,} bytes, more than the limit of {MAX_RESULT_BYTES:,}. Request less."
        )


def _find_lists(value: Any, pointer: str = "", depth: int = 0) -> Iterator[tuple[str, list[Any]]]:
    """Yield each list in objects, with its JSON pointer, down to the maximum depth."""
    if isinstance(value, list):
        yield pointer, value
    elif isinstance(value, dict) and depth < MAX_DEPTH:
        for name, each in value.items():
            step = name.replace("~", "~0").replace("/", "~1")
            yield from _find_lists(each, f"{pointer}/{step}", depth + 1)


def _count_fitting(size: int, lists: Mapping[str, list[Any]]) -> int:
    """Return how many elements of each list fit on a page, at least one. `size` is that of the whole."""
    # Each element is followed by a comma and a space; the last of a list makes the estimate a little high.
    sums = [
        list(accumulate((count_bytes(each) + 2 for each in found), initial=0)) for found in lists.values()
    ]
    base = size - sum(each[-1] for each in sums)
    low, high = 1, max((len(found) for found in lists.values()), default=1)
    while low < high:
        middle = (low + high + 1) // 2
        if base + sum(each[min(middle, len(each) - 1)] for each in sums) <= MAX_PAGE_BYTES:
            low = middle
        else:
            high = middle - 1
    return low


def _encode_cursor(call: str, offsets: Mapping[str, int]) -> str:
    return base64.urlsafe_b64encode(json.dumps([call, offsets]).encode()).decode()


def _decode_cursor(cursor: str, call: str) -> dict[str, int]:
    """Return the offsets by list. Raise `InvalidRequest` for a text that no result had, or that of another
    call.
    """
    try:
        of, offsets = json.loads(base64.urlsafe_b64decode(cursor))
        found = {str(pointer): int(offset) for pointer, offset in offsets.items()}
    except (ValueError, TypeError, AttributeError, binascii.Error):
        raise InvalidRequest("Invalid cursor: pass the `cursor` of a result unchanged, or omit it.") from None
    if of != call or any(offset < 0 for offset in found.values()):
        raise InvalidRequest(
            "Invalid cursor: it belongs to a call with other arguments. Pass it with the same arguments."
        )
    return found
