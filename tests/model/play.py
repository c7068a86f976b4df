"""Steps played against an engine and the model, every answer compared; the shortest run that still fails."""

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
    attribute_definitions,
    create_requests,
    index_request,
    models,
    online_index,
    random_steps,
    rendered,
)
from .values import Item, comparable

Opener = Callable[[Path, Random], AbstractContextManager[Driver]]

PAGES_MAX = 200
NO_TABLE = Refusal("ResourceNotFoundException", ["Requested resource not found"])
SHRINKING_S_MAX = 20.0


class Different(AssertionError):
    """The engine and the model gave different answers."""


def check(opener: Opener, seed: int, steps: int) -> None:
    """Plays random steps. What fails is cut down to the fewest steps that still do, and told."""
    played = random_steps(Random(seed), steps)
    difference = _difference(opener, seed, played)
    if difference is None:
        return
    shortest, difference = _shortest(opener, seed, played[: difference[0] + 1], difference)
    story = "\n".join(
        f"{at:3} {step.kind} {pformat(step.request, width=150)}" for at, step in enumerate(shortest)
    )
    raise AssertionError(f"seed {seed}, {len(shortest)} steps:\n{story}\n\n{difference[1]}")


def _difference(opener: Opener, seed: int, steps: list[Step]) -> tuple[int, str] | None:
    """The step at which engine and model differ, and how; None if they never do."""
    with tempfile.TemporaryDirectory() as folder, opener(Path(folder), Random(seed)) as driver:
        game = Game(driver)
        for at, step in enumerate(steps):
            try:
                game.play(step)
            except Different as difference:
                return at, str(difference)
        try:
            game.check_everything()
        except Different as difference:
            return len(steps) - 1, f"at the end: {difference}"
    return None


def _shortest(
    opener: Opener, seed: int, steps: list[Step], difference: tuple[int, str]
) -> tuple[list[Step], tuple[int, str]]:
    """Leaves out ever smaller stretches of steps as long as what is left still fails."""
    give_up = time.monotonic() + SHRINKING_S_MAX
    stretch = len(steps) // 2
    while stretch and time.monotonic() < give_up:
        at = 0
        while at < len(steps) and time.monotonic() < give_up:
            fewer = steps[:at] + steps[at + stretch :]
            found = _difference(opener, seed, fewer) if fewer else None
            if found is None:
                at += stretch
            else:
                steps, difference = fewer[: found[0] + 1], found
        stretch //= 2
    return steps, difference


class Game:
    """An engine and a model with the same tables."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.model = Model(models())
        self.model.now = START
        for request in create_requests():
            driver.call("CreateTable", request)

    def play(self, step: Step) -> None:
        special: dict[str, Callable[[dict[str, Any]], None]] = {
            "Query": self._pages,
            "Scan": self._segments,
            "AddIndex": self._add_index,
            "DropIndex": self._drop_index,
            "Lifetimes": self._lifetimes,
            "Advance": self._advance,
            "Recreate": self._recreate,
            "DescribeTable": lambda request: self._counts(request["TableName"]),
        }
        if step.kind in special:
            special[step.kind](step.request)
        else:
            self._compare(step.kind, step.request)

    def check_everything(self) -> None:
        for name, table in self.model.tables.items():
            self._counts(name)
            for index in (None, *table.indexes):
                self._segments({"TableName": name} | ({"IndexName": index} if index else {}))

    def _compare(self, kind: str, request: dict[str, Any]) -> dict[str, Any]:
        try:
            expected: Any = self.model.answer(kind, request)
        except Refusal as refusal:
            expected = refusal
        return self._called(kind, request, expected)

    def _called(self, kind: str, request: dict[str, Any], expected: Any) -> dict[str, Any]:
        try:
            got = self.driver.call(kind, rendered(kind, request))
        except Refused as refused:
            _require_same_refusal(kind, request, refused, expected)
            return {}
        if isinstance(expected, Refusal):
            raise Different(f"{kind} {pformat(request)}\nwas answered {pformat(got)}\nexpected {expected!r}")
        _require_same(kind, request, got, expected)
        return got

    # --- pages ----------------------------------------------------------------------------------------------

    def _pages(self, request: dict[str, Any]) -> None:
        if self._is_refused_for_want_of_index("Query", request):
            return
        passed = self.model.matching(request)
        self._walk("Query", request, passed)

    def _segments(self, request: dict[str, Any]) -> None:
        total = request.get("TotalSegments")
        segments = [{}] if total is None else [{"Segment": number} for number in range(total)]
        if self._is_refused_for_want_of_index("Scan", request | segments[0]):
            return
        passed = self.model.matching(request)
        left = passed
        for segment in segments:
            left = self._walk("Scan", request | segment, left, whole=segment == segments[-1])

    def _is_refused_for_want_of_index(self, kind: str, request: dict[str, Any]) -> bool:
        name = request.get("IndexName")
        if name is None or name in self.model.tables[request["TableName"]].indexes:
            return False
        text = f"The table does not have the specified index: {name}"
        self._called(kind, request, Refusal("ValidationException", [text]))
        return True

    def _walk(
        self, kind: str, request: dict[str, Any], expected: list[tuple[Any, Item]], *, whole: bool = True
    ) -> list[tuple[Any, Item]]:
        """Page by page, first as it is to learn the store's order, then as asked; returns what was not met."""
        bare = {
            name: value for name, value in request.items() if name not in ("Filter", "Projection", "Select")
        }
        left = list(expected)
        order: list[Any] = []
        start: dict[str, Any] = {}
        for _ in range(PAGES_MAX):
            passed, last = self._bare_page(kind, bare | start, left, order)
            wanted = self.model.page(request, passed) | ({"LastEvaluatedKey": last} if last else {})
            self._called(kind, request | start, wanted)
            if not last:
                break
            start = {"ExclusiveStartKey": last}
        if whole and left:
            raise Different(f"{kind} {pformat(request)}\ndid not return {pformat(left)}")
        return left

    def _bare_page(
        self, kind: str, request: dict[str, Any], left: list[tuple[Any, Item]], order: list[Any]
    ) -> tuple[list[Item], Item | None]:
        got = self.driver.call(kind, rendered(kind, request))
        passed = [self._taken(kind, request, item, left, order) for item in got["Items"]]
        is_full = "Limit" in request and len(passed) == request["Limit"]
        last = self.model.start_key(request, passed[-1]) if is_full else None
        wanted = self.model.page(request, passed) | ({"LastEvaluatedKey": last} if last else {})
        _require_same(kind, request, got, wanted)
        return passed, last

    def _taken(
        self, kind: str, request: dict[str, Any], item: Item, left: list[tuple[Any, Item]], order: list[Any]
    ) -> Item:
        """The model's own version of an item that was returned; it may come once, and not out of order."""
        for at, (place, known) in enumerate(left):
            if comparable(known) == comparable(item):
                del left[at]
                _require_order(kind, request, place, order)
                order.append(place)
                return known
        raise Different(
            f"{kind} {pformat(request)}\nreturned {pformat(item)}, which is not there or came before"
        )

    # --- tables ---------------------------------------------------------------------------------------------

    def _add_index(self, request: dict[str, Any]) -> None:
        index, table = online_index(), self.model.tables[ORDERS]
        change = {
            "TableName": ORDERS,
            "AttributeDefinitions": attribute_definitions(index.keys),
            "GlobalSecondaryIndexUpdates": [{"Create": index_request(index)}],
        }
        if ONLINE in table.indexes:
            text = f"One or more parameter values were invalid: Duplicate index name: {ONLINE}"
            exists = "Attempting to create an index which already exists"
            self._called("UpdateTable", change, Refusal("ValidationException", [text, exists]))
            return
        self.driver.call("UpdateTable", change)
        self.driver.settle()
        table.indexes[ONLINE] = index
        self._counts(ORDERS)

    def _drop_index(self, request: dict[str, Any]) -> None:
        change = {"TableName": ORDERS, "GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": ONLINE}}]}
        table = self.model.tables[ORDERS]
        if ONLINE not in table.indexes:
            text = "Requested resource not found"
            self._called("UpdateTable", change, Refusal("ResourceNotFoundException", [text]))
            return
        self.driver.call("UpdateTable", change)
        del table.indexes[ONLINE]

    def _lifetimes(self, request: dict[str, Any]) -> None:
        table, on = self.model.tables[request["TableName"]], request["Enabled"]
        specification = {"Enabled": on, "AttributeName": "e"}
        change = {"TableName": table.name, "TimeToLiveSpecification": specification}
        if on == (table.lifetime is not None):
            text = f"TimeToLive is already {'enabled' if on else 'disabled'}"
            self._called("UpdateTimeToLive", change, Refusal("ValidationException", [text]))
            return
        self._called("UpdateTimeToLive", change, {"TimeToLiveSpecification": specification})
        table.lifetime = "e" if on else None
        self._advance({"Seconds": 0})

    def _advance(self, request: dict[str, Any]) -> None:
        self.driver.advance(request["Seconds"])
        self.model.now += request["Seconds"]
        self.model.expire()

    def _recreate(self, request: dict[str, Any]) -> None:
        """The table deleted and made again: empty, and as it was in the beginning."""
        self.driver.call("DeleteTable", request)
        [creation] = [each for each in create_requests() if each["TableName"] == request["TableName"]]
        self._called("GetItem", request | {"Key": {"pk": {"S": "p"}}}, NO_TABLE)
        self.driver.call("CreateTable", creation)
        [fresh] = [table for table in models() if table.name == request["TableName"]]
        self.model.tables[fresh.name] = fresh

    def _counts(self, name: str) -> None:
        told = self.driver.call("DescribeTable", {"TableName": name})["Table"]
        indexes = told.get("GlobalSecondaryIndexes", []) + told.get("LocalSecondaryIndexes", [])
        got = {"": (told["ItemCount"], told["TableSizeBytes"])}
        got |= {index["IndexName"]: (index["ItemCount"], index["IndexSizeBytes"]) for index in indexes}
        _require_same("DescribeTable", {"TableName": name}, got, self.model.counts(name))


# --- comparisons --------------------------------------------------------------------------------------------


def _require_same(kind: str, request: Any, got: Any, expected: Any) -> None:
    if _unordered(kind, got) != _unordered(kind, expected):
        raise Different(
            f"{kind} {pformat(request)}\nwas answered\n{pformat(got)}\nexpected\n{pformat(expected)}"
        )


def _unordered(kind: str, answer: Any) -> Any:
    """A batch may answer in any order, and so may what it consumed in several tables."""
    plain = comparable(answer)
    if kind == "BatchGetItem":
        plain["Responses"] = {name: sorted(items, key=repr) for name, items in plain["Responses"].items()}
        plain["Responses"] = {name: items for name, items in plain["Responses"].items() if items}
    if isinstance(plain.get("ConsumedCapacity"), list):
        plain["ConsumedCapacity"] = sorted(plain["ConsumedCapacity"], key=lambda entry: entry["TableName"])
    return plain


def _require_same_refusal(kind: str, request: Any, refused: Refused, expected: Any) -> None:
    same = (
        isinstance(expected, Refusal)
        and refused.code == expected.code
        and refused.message in expected.messages
        and comparable(refused.more) == comparable(expected.more)
    )
    if not same:
        raise Different(f"{kind} {pformat(request)}\nwas refused: {refused!r}\nexpected\n{pformat(expected)}")


def _require_order(kind: str, request: Any, place: Any, order: list[Any]) -> None:
    """A query is in the order of the sort key; a scan keeps each partition together, and that order in it."""
    if not order:
        return
    forward = request.get("ScanIndexForward", True)
    former = order[-1]
    if former[0] == place[0]:
        if (place < former) if forward else (place > former):
            raise Different(f"{kind} {pformat(request)}\nreturned {place} after {former}")
    elif any(earlier[0] == place[0] for earlier in order):
        raise Different(f"{kind} {pformat(request)}\nreturned a partition twice: {place[0]}")
