"""Compare an engine with the model: run steps against both and find the shortest failing run."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from pprint import pformat
from random import Random
from typing import Any

from .drivers import Driver, Refused
from .model import Model, Refusal
from .steps import (
    ONLINE,
    ORDERS,
    START,
    Step,
    make_attribute_definitions,
    make_create_requests,
    make_index_request,
    make_models,
    make_online_index,
    make_random_steps,
    render,
)
from .values import Item, make_comparable

Opener = Callable[[Path, Random], AbstractContextManager[Driver]]

MAX_PAGES = 200
NO_TABLE = Refusal("ResourceNotFoundException", ["Requested resource not found"])
MAX_SHRINKING_S = 20.0


class Different(AssertionError):
    """The engine and the model gave different answers."""


def check(opener: Opener, seed: int, steps: int) -> None:
    """Run this many random steps; on a difference, raise `AssertionError` with the fewest steps that still
    fail.
    """
    random_run = make_random_steps(Random(seed), steps)
    difference = _find_difference(opener, seed, random_run)
    if difference is None:
        return
    shortest, difference = _shrink(opener, seed, random_run[: difference[0] + 1], difference)
    story = "\n".join(
        f"{at:3} {step.kind} {pformat(step.request, width=150)}" for at, step in enumerate(shortest)
    )
    raise AssertionError(f"seed {seed}, {len(shortest)} steps:\n{story}\n\n{difference[1]}")


def _find_difference(opener: Opener, seed: int, steps: list[Step]) -> tuple[int, str] | None:
    """Return the step at which engine and model differ, and how; None if they never do."""
    with tempfile.TemporaryDirectory() as folder, opener(Path(folder), Random(seed)) as driver:
        game = Comparison(driver)
        for at, step in enumerate(steps):
            try:
                game.run_step(step)
            except Different as difference:
                return at, str(difference)
        try:
            game.check_everything()
        except Different as difference:
            return len(steps) - 1, f"at the end: {difference}"
    return None


def _shrink(
    opener: Opener, seed: int, steps: list[Step], difference: tuple[int, str]
) -> tuple[list[Step], tuple[int, str]]:
    """Leave out ever smaller stretches of steps as long as the rest still fails, for at most 20 s.

    Return the remaining steps and their difference.
    """
    give_up = time.monotonic() + MAX_SHRINKING_S
    stretch = len(steps) // 2
    while stretch and time.monotonic() < give_up:
        at = 0
        while at < len(steps) and time.monotonic() < give_up:
            fewer = steps[:at] + steps[at + stretch :]
            found = _find_difference(opener, seed, fewer) if fewer else None
            if found is None:
                at += stretch
            else:
                steps, difference = fewer[: found[0] + 1], found
        stretch //= 2
    return steps, difference


class Comparison:
    """An engine and a model with the same tables."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.model = Model(make_models())
        self.model.now = START
        for request in make_create_requests():
            driver.call("CreateTable", request)

    def run_step(self, step: Step) -> None:
        """Run one step on engine and model. Raise `Different` if their answers differ."""
        special: dict[str, Callable[[dict[str, Any]], None]] = {
            "Query": self._compare_query,
            "Scan": self._compare_scan,
            "AddIndex": self._add_index,
            "DropIndex": self._drop_index,
            "Lifetimes": self._switch_lifetimes,
            "Advance": self._advance,
            "Recreate": self._recreate,
            "DescribeTable": lambda request: self._compare_counts(request["TableName"]),
        }
        if step.kind in special:
            special[step.kind](step.request)
        else:
            self._compare(step.kind, step.request)

    def check_everything(self) -> None:
        """Compare the counts and all items of every table and index."""
        for name, table in self.model.tables.items():
            self._compare_counts(name)
            for index in (None, *table.indexes):
                self._compare_scan({"TableName": name} | ({"IndexName": index} if index else {}))

    def _compare(self, kind: str, request: dict[str, Any]) -> dict[str, Any]:
        """Send the request to both and return the engine's answer, empty if both refuse it."""
        try:
            expected: Any = self.model.answer(kind, request)
        except Refusal as refusal:
            expected = refusal
        return self._require_answer(kind, request, expected)

    def _require_answer(self, kind: str, request: dict[str, Any], expected: Any) -> dict[str, Any]:
        """Send the request to the engine and require the expected answer or `Refusal`; return the answer."""
        try:
            got = self.driver.call(kind, render(kind, request))
        except Refused as refused:
            _require_same_refusal(kind, request, refused, expected)
            return {}
        if isinstance(expected, Refusal):
            raise Different(f"{kind} {pformat(request)}\nwas answered {pformat(got)}\nexpected {expected!r}")
        _require_same(kind, request, got, expected)
        return got

    # --- pages ----------------------------------------------------------------------------------------------

    def _compare_query(self, request: dict[str, Any]) -> None:
        """Compare all pages of a query."""
        if self._is_refused_without_index("Query", request):
            return
        passed = self.model.list_matching(request)
        self._compare_pages("Query", request, passed)

    def _compare_scan(self, request: dict[str, Any]) -> None:
        """Compare all pages of a scan, segment by segment: together the segments return each item once."""
        total = request.get("TotalSegments")
        segments = [{}] if total is None else [{"Segment": number} for number in range(total)]
        if self._is_refused_without_index("Scan", request | segments[0]):
            return
        passed = self.model.list_matching(request)
        left = passed
        for segment in segments:
            left = self._compare_pages("Scan", request | segment, left, whole=segment == segments[-1])

    def _is_refused_without_index(self, kind: str, request: dict[str, Any]) -> bool:
        """Return True if the request names an index that does not exist, after checking that the engine
        refuses it.
        """
        name = request.get("IndexName")
        if name is None or name in self.model.tables[request["TableName"]].indexes:
            return False
        text = f"The table does not have the specified index: {name}"
        self._require_answer(kind, request, Refusal("ValidationException", [text]))
        return True

    def _compare_pages(
        self, kind: str, request: dict[str, Any], expected: list[tuple[Any, Item]], *, whole: bool = True
    ) -> list[tuple[Any, Item]]:
        """Read page by page, each first without filters to learn the store's order, then as requested.

        Return the expected items that were not met; raise `Different` if there are any and `whole` is True.
        """
        bare = {
            name: value for name, value in request.items() if name not in ("Filter", "Projection", "Select")
        }
        left = list(expected)
        order: list[Any] = []
        start: dict[str, Any] = {}
        for _ in range(MAX_PAGES):
            passed, last = self._compare_unfiltered_page(kind, bare | start, left, order)
            wanted = self.model.build_page(request, passed) | ({"LastEvaluatedKey": last} if last else {})
            self._require_answer(kind, request | start, wanted)
            if not last:
                break
            start = {"ExclusiveStartKey": last}
        if whole and left:
            raise Different(f"{kind} {pformat(request)}\ndid not return {pformat(left)}")
        return left

    def _compare_unfiltered_page(
        self, kind: str, request: dict[str, Any], left: list[tuple[Any, Item]], order: list[Any]
    ) -> tuple[list[Item], Item | None]:
        """Read a page without filters and compare it; return the model's items and the key of the next page.

        The items are removed from `left` and their positions added to `order`.
        """
        got = self.driver.call(kind, render(kind, request))
        passed = [self._match_item(kind, request, item, left, order) for item in got["Items"]]
        is_full = "Limit" in request and len(passed) == request["Limit"]
        last = self.model.get_start_key(request, passed[-1]) if is_full else None
        wanted = self.model.build_page(request, passed) | ({"LastEvaluatedKey": last} if last else {})
        _require_same(kind, request, got, wanted)
        return passed, last

    def _match_item(
        self, kind: str, request: dict[str, Any], item: Item, left: list[tuple[Any, Item]], order: list[Any]
    ) -> Item:
        """Return the model's version of a returned item; it may come once, and not out of order.

        It is removed from `left`, and its position is added to `order`.
        """
        for at, (place, known) in enumerate(left):
            if make_comparable(known) == make_comparable(item):
                del left[at]
                _require_order(kind, request, place, order)
                order.append(place)
                return known
        raise Different(
            f"{kind} {pformat(request)}\nreturned {pformat(item)}, which is not there or came before"
        )

    # --- tables ---------------------------------------------------------------------------------------------

    def _add_index(self, request: dict[str, Any]) -> None:
        """Add the online index in both, or require the refusal if it exists."""
        index, table = make_online_index(), self.model.tables[ORDERS]
        change = {
            "TableName": ORDERS,
            "AttributeDefinitions": make_attribute_definitions(index.keys),
            "GlobalSecondaryIndexUpdates": [{"Create": make_index_request(index)}],
        }
        if ONLINE in table.indexes:
            text = f"One or more parameter values were invalid: Duplicate index name: {ONLINE}"
            exists = "Attempting to create an index which already exists"
            self._require_answer("UpdateTable", change, Refusal("ValidationException", [text, exists]))
            return
        self.driver.call("UpdateTable", change)
        self.driver.settle()
        table.indexes[ONLINE] = index
        self._compare_counts(ORDERS)

    def _drop_index(self, request: dict[str, Any]) -> None:
        """Delete the online index in both, or require the refusal if it does not exist."""
        change = {"TableName": ORDERS, "GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": ONLINE}}]}
        table = self.model.tables[ORDERS]
        if ONLINE not in table.indexes:
            text = "Requested resource not found"
            self._require_answer("UpdateTable", change, Refusal("ResourceNotFoundException", [text]))
            return
        self.driver.call("UpdateTable", change)
        del table.indexes[ONLINE]

    def _switch_lifetimes(self, request: dict[str, Any]) -> None:
        """Switch TTL on or off in both, or require the refusal if it already is."""
        table, on = self.model.tables[request["TableName"]], request["Enabled"]
        specification = {"Enabled": on, "AttributeName": "e"}
        change = {"TableName": table.name, "TimeToLiveSpecification": specification}
        if on == (table.lifetime is not None):
            text = f"TimeToLive is already {'enabled' if on else 'disabled'}"
            self._require_answer("UpdateTimeToLive", change, Refusal("ValidationException", [text]))
            return
        self._require_answer("UpdateTimeToLive", change, {"TimeToLiveSpecification": specification})
        table.lifetime = "e" if on else None
        self._advance({"Seconds": 0})

    def _advance(self, request: dict[str, Any]) -> None:
        """Move the time of both forward and expire items."""
        self.driver.advance(request["Seconds"])
        self.model.now += request["Seconds"]
        self.model.expire()

    def _recreate(self, request: dict[str, Any]) -> None:
        """Delete the table and create it again, empty and as it was at the start."""
        self.driver.call("DeleteTable", request)
        [creation] = [each for each in make_create_requests() if each["TableName"] == request["TableName"]]
        self._require_answer("GetItem", request | {"Key": {"pk": {"S": "p"}}}, NO_TABLE)
        self.driver.call("CreateTable", creation)
        [fresh] = [table for table in make_models() if table.name == request["TableName"]]
        self.model.tables[fresh.name] = fresh

    def _compare_counts(self, name: str) -> None:
        """Compare item counts and sizes of the table and its indexes."""
        described = self.driver.call("DescribeTable", {"TableName": name})["Table"]
        indexes = described.get("GlobalSecondaryIndexes", []) + described.get("LocalSecondaryIndexes", [])
        got = {"": (described["ItemCount"], described["TableSizeBytes"])}
        got |= {index["IndexName"]: (index["ItemCount"], index["IndexSizeBytes"]) for index in indexes}
        _require_same("DescribeTable", {"TableName": name}, got, self.model.count_items(name))


# --- comparisons --------------------------------------------------------------------------------------------


def _require_same(kind: str, request: Any, got: Any, expected: Any) -> None:
    """Raise `Different` if the answers differ, apart from orders that are up to the store."""
    if _sort_unordered(kind, got) != _sort_unordered(kind, expected):
        raise Different(
            f"{kind} {pformat(request)}\nwas answered\n{pformat(got)}\nexpected\n{pformat(expected)}"
        )


def _sort_unordered(kind: str, answer: Any) -> Any:
    """Sort the parts that may come in any order: a batch's answers, and its consumed capacity per table."""
    plain = make_comparable(answer)
    if kind == "BatchGetItem":
        plain["Responses"] = {name: sorted(items, key=repr) for name, items in plain["Responses"].items()}
        plain["Responses"] = {name: items for name, items in plain["Responses"].items() if items}
    if isinstance(plain.get("ConsumedCapacity"), list):
        plain["ConsumedCapacity"] = sorted(plain["ConsumedCapacity"], key=lambda entry: entry["TableName"])
    return plain


def _require_same_refusal(kind: str, request: Any, refused: Refused, expected: Any) -> None:
    """Raise `Different` unless the engine refused as the model expects, with one of the possible texts."""
    same = (
        isinstance(expected, Refusal)
        and refused.code == expected.code
        and refused.message in expected.messages
        and make_comparable(refused.more) == make_comparable(expected.more)
    )
    if not same:
        raise Different(f"{kind} {pformat(request)}\nwas refused: {refused!r}\nexpected\n{pformat(expected)}")


def _require_order(kind: str, request: Any, place: Any, order: list[Any]) -> None:
    """Raise `Different` if a query does not follow the sort key, or a scan splits a partition."""
    if not order:
        return
    forward = request.get("ScanIndexForward", True)
    former = order[-1]
    if former[0] == place[0]:
        if (place < former) if forward else (place > former):
            raise Different(f"{kind} {pformat(request)}\nreturned {place} after {former}")
    elif any(earlier[0] == place[0] for earlier in order):
        raise Different(f"{kind} {pformat(request)}\nreturned a partition twice: {place[0]}")
