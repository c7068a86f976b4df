"""Model of DynamoDB: its answers, from dictionaries and DynamoDB's own arithmetic.

It takes the requests of `steps.py` (the protocol's members, with conditions and updates as data) and returns
the protocol's answer, or raises `Refusal`. It does not answer scans and queries whole: `matching` lists the
items and their order, and `page` gives one page of them, because the order of a scan, and of equal keys in an
index, is up to the store.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .expressions import Invalid, Update, apply_update, get_value, holds, project
from .values import Item, Tagged, are_equal, get_item_size, get_tag, make_sort_key

NOT_THE_SCHEMA = "The provided key element does not match the schema"
DUPLICATES = "Provided list of item keys contains duplicates"
ONE_ITEM_TWICE = "Transaction request cannot include multiple operations on one item"
INVALID = "One or more parameter values were invalid: "
CONDITION_FAILED = "The conditional request failed"
TOKEN_LIFETIME_S = 600
FIVE_YEARS_S = 5 * 365 * 86400

Answer = dict[str, Any]
Key = tuple[Any, ...]


class Refusal(Exception):
    """Error with the texts that the service may give: of several faults it names one."""

    def __init__(self, code: str, messages: Iterable[str], **more: Any) -> None:
        self.code, self.messages, self.more = code, frozenset(messages), more
        super().__init__(code, sorted(self.messages), more)


@dataclass
class IndexModel:
    """Secondary index; `projection` holds the attributes in addition to the keys, or None for all of them."""

    name: str
    keys: dict[str, str]
    projection: list[str] | None
    is_global: bool = True


@dataclass
class TableModel:
    name: str
    keys: dict[str, str]
    indexes: dict[str, IndexModel]
    items: dict[Key, Item] = field(default_factory=dict)
    lifetime: str | None = None

    def key_of(self, item: Item) -> Key:
        return tuple(make_sort_key(item[name]) for name in self.keys)

    def key_item(self, item: Item) -> Item:
        return {name: item[name] for name in self.keys}

    def view(self, item: Item, index: IndexModel) -> Item | None:
        """Return the item as the index holds it, or None where it is not in the index."""
        for name, tag in index.keys.items():
            if name not in item or get_tag(item[name]) != tag or not item[name][tag]:
                return None
        if index.projection is None:
            return item
        names = {*self.keys, *index.keys, *index.projection}
        return {name: value for name, value in item.items() if name in names}


@dataclass
class Effect:
    """One item before and after."""

    table: TableModel
    key: Key
    old: Item | None
    new: Item | None


class Model:
    def __init__(self, tables: list[TableModel]) -> None:
        self.tables = {table.name: table for table in tables}
        self.now = 0.0
        self._tokens: dict[str, tuple[float, Answer]] = {}

    def answer(self, operation: str, request: Answer) -> Answer:
        try:
            return getattr(self, "_" + operation)(request)  # type: ignore[no-any-return]
        except Invalid as invalid:
            raise Refusal("ValidationException", invalid.messages) from None

    # --- single items ---------------------------------------------------------------------------------------

    def _GetItem(self, request: Answer) -> Answer:  # noqa: N802
        table = self.tables[request["TableName"]]
        item = table.items.get(_check_key(table, request["Key"]))
        answer: Answer = {} if item is None else {"Item": _project_item(item, request.get("Projection"))}
        units = _read_units(_size(item), consistent=request.get("ConsistentRead", False))
        return answer | _build_capacity(request, [_count_units(table, units)])

    def _PutItem(self, request: Answer) -> Answer:  # noqa: N802
        table = self.tables[request["TableName"]]
        effect = self._put(table, request)
        self._apply(effect)
        return _old_values(request, effect) | _build_capacity(request, [_count_write(effect)])

    def _DeleteItem(self, request: Answer) -> Answer:  # noqa: N802
        effect = self._delete(self.tables[request["TableName"]], request)
        self._apply(effect)
        return _old_values(request, effect) | _build_capacity(request, [_count_write(effect)])

    def _UpdateItem(self, request: Answer) -> Answer:  # noqa: N802
        effect = self._update(self.tables[request["TableName"]], request)
        self._apply(effect)
        return _updated_values(request, effect) | _build_capacity(request, [_count_write(effect)])

    def _put(self, table: TableModel, request: Answer) -> Effect:
        key = _check_item(table, request["Item"])
        old = table.items.get(key)
        _require(request, old)
        return Effect(table, key, old, copy.deepcopy(request["Item"]))

    def _delete(self, table: TableModel, request: Answer) -> Effect:
        key = _check_key(table, request["Key"])
        old = table.items.get(key)
        _require(request, old)
        return Effect(table, key, old, None)

    def _update(self, table: TableModel, request: Answer) -> Effect:
        key = _check_key(table, request["Key"])
        update: Update = request.get("Update", [])
        _check_update(table, update)
        old = table.items.get(key)
        _require(request, old)
        if old is None and update and all(kind in ("remove", "delete") for kind, *_ in update):
            return Effect(table, key, None, None)  # removing from a missing item creates nothing
        new = apply_update(update, dict(request["Key"]) if old is None else old)
        _check_result(table, update, new)
        return Effect(table, key, old, new)

    def _apply(self, effect: Effect) -> None:
        if effect.new is None:
            effect.table.items.pop(effect.key, None)
        else:
            effect.table.items[effect.key] = effect.new

    # --- many items -----------------------------------------------------------------------------------------

    def _BatchGetItem(self, request: Answer) -> Answer:  # noqa: N802
        responses: Answer = {}
        consumed = []
        for name, wanted in request["RequestItems"].items():
            table = self.tables[name]
            keys = [_check_key(table, key) for key in wanted["Keys"]]
            if len(set(keys)) != len(keys):
                raise Invalid(DUPLICATES)
            items = [table.items.get(key) for key in keys]
            responses[name] = [
                _project_item(item, wanted.get("Projection")) for item in items if item is not None
            ]
            consistent = wanted.get("ConsistentRead", False)
            consumed.append(
                _count_units(table, sum(_read_units(_size(item), consistent=consistent) for item in items))
            )
        return {"Responses": responses, "UnprocessedKeys": {}} | _build_capacity(request, consumed, many=True)

    def _BatchWriteItem(self, request: Answer) -> Answer:  # noqa: N802
        effects: list[Effect] = []
        seen: set[tuple[str, Key]] = set()
        for name, writes in request["RequestItems"].items():
            table = self.tables[name]
            for write in writes:
                effect = self._build_batch_effect(table, write)
                if (name, effect.key) in seen:
                    raise Invalid(DUPLICATES)
                seen.add((name, effect.key))
                effects.append(effect)
        for effect in effects:
            self._apply(effect)
        consumed = [_count_write(effect) for effect in effects]
        return {"UnprocessedItems": {}} | _build_capacity(request, consumed, many=True)

    def _build_batch_effect(self, table: TableModel, write: Answer) -> Effect:
        if "DeleteRequest" in write:
            return self._delete(table, write["DeleteRequest"])
        return self._put(table, write["PutRequest"])

    def _TransactGetItems(self, request: Answer) -> Answer:  # noqa: N802
        answers: list[Answer] = []
        consumed = []
        seen = set()
        for entry in request["TransactItems"]:
            get = entry["Get"]
            table = self.tables[get["TableName"]]
            key = _check_key(table, get["Key"])
            seen.add((table.name, key))
            item = table.items.get(key)
            answers.append({} if item is None else {"Item": _project_item(item, get.get("Projection"))})
            consumed.append(_count_units(table, 2 * _read_units(_size(item), consistent=True), kind="Read"))
        if len(seen) != len(answers):
            raise Invalid(ONE_ITEM_TWICE)
        return {"Responses": answers} | _build_capacity(request, consumed, many=True)

    def _TransactWriteItems(self, request: Answer) -> Answer:  # noqa: N802
        token = request.get("ClientRequestToken")
        if token in self._tokens and self._tokens[token][0] > self.now - TOKEN_LIFETIME_S:
            return self._answer_repeat(request, self._tokens[token][1])
        effects, reasons = [], []
        for entry in request["TransactItems"]:
            effect, reason = self._evaluate(*next(iter(entry.items())))
            effects.append(effect)
            reasons.append(reason)
        if len({(effect.table.name, effect.key) for effect in effects}) != len(effects):
            raise Invalid(ONE_ITEM_TWICE)
        if any(reason["Code"] != "None" for reason in reasons):
            codes = ", ".join(reason["Code"] for reason in reasons)
            text = f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
            raise Refusal("TransactionCanceledException", [text], CancellationReasons=reasons)
        consumed = [_count_write(effect, factor=2, kind="Write") for effect in effects]
        for effect in effects:
            self._apply(effect)
        if token is not None:
            self._tokens[token] = (self.now, request)
        return _build_capacity(request, consumed, many=True)

    def _answer_repeat(self, request: Answer, first: Answer) -> Answer:
        if request != first:
            text = "The provided client token is already in use with different request parameters"
            raise Refusal(
                "IdempotentParameterMismatchException",
                [f"An error occurred (IdempotentParameterMismatchException): {text}", text],
            )
        consumed = []
        for entry in request["TransactItems"]:
            action = next(iter(entry.values()))
            table = self.tables[action["TableName"]]
            item = table.items.get(table.key_of(action.get("Item") or action["Key"]))
            consumed.append(_count_units(table, 2 * _read_units(_size(item), consistent=True), kind="Read"))
        return _build_capacity(request, consumed, many=True)

    def _evaluate(self, kind: str, action: Answer) -> tuple[Effect, Answer]:
        table = self.tables[action["TableName"]]
        decide = {"Put": self._put, "Update": self._update, "Delete": self._delete}.get(kind)
        try:
            if decide is not None:
                return decide(table, action), {"Code": "None"}
            key = _check_key(table, action["Key"])
            _require(action, table.items.get(key))
            unchanged = table.items.get(key)
            return Effect(table, key, unchanged, unchanged), {"Code": "None"}
        except Refusal as refusal:
            key = table.key_of(action.get("Item") or action["Key"])
            reason = {"Code": "ConditionalCheckFailed", "Message": CONDITION_FAILED, **refusal.more}
            return Effect(table, key, None, None), reason

    # --- pages ----------------------------------------------------------------------------------------------

    def matching(self, request: Answer) -> list[tuple[Any, Item]]:
        """List every item that a query or scan passes, with its sort value, as the table or index holds
        it.
        """
        table = self.tables[request["TableName"]]
        index = table.indexes[request["IndexName"]] if "IndexName" in request else None
        keys = list(index.keys if index else table.keys)
        passed = []
        for item in table.items.values():
            view = table.view(item, index) if index else item
            if view is not None and _meets(request.get("KeyCondition", []), view):
                passed.append((tuple(make_sort_key(view[name]) for name in keys), view))
        return sorted(passed, key=lambda entry: entry[0], reverse=not request.get("ScanIndexForward", True))

    def page(self, request: Answer, passed: list[Item]) -> Answer:
        """Build the answer of a page with these items, without its LastEvaluatedKey."""
        table = self.tables[request["TableName"]]
        index = table.indexes[request["IndexName"]] if "IndexName" in request else None
        kept = [item for item in passed if "Filter" not in request or holds(request["Filter"], item)]
        answer: Answer = {"Count": len(kept), "ScannedCount": len(passed)}
        if request.get("Select") != "COUNT":
            answer["Items"] = [_project_item(item, request.get("Projection")) for item in kept]
        size = sum(get_item_size(item) for item in passed)
        units = _read_units(size, consistent=request.get("ConsistentRead", False))
        if index is None:
            return answer | _build_capacity(request, [_count_units(table, units)])
        return answer | _build_capacity(request, [_count_units(table, 0.0, {index.name: units})])

    def get_start_key(self, request: Answer, item: Item) -> Item:
        table = self.tables[request["TableName"]]
        index = table.indexes[request["IndexName"]] if "IndexName" in request else None
        return {name: item[name] for name in {*table.keys, *(index.keys if index else ())}}

    # --- tables ---------------------------------------------------------------------------------------------

    def counts(self, name: str) -> Answer:
        table = self.tables[name]
        held = {index.name: [] for index in table.indexes.values()}  # type: dict[str, list[int]]
        for item in table.items.values():
            for index in table.indexes.values():
                view = table.view(item, index)
                if view is not None:
                    held[index.name].append(get_item_size(view))
        sizes = [get_item_size(item) for item in table.items.values()]
        return {"": (len(sizes), sum(sizes))} | {key: (len(found), sum(found)) for key, found in held.items()}

    def expire(self) -> None:
        for table in self.tables.values():
            for key, item in list(table.items.items()):
                end = item.get(table.lifetime or "", {}).get("N")
                if table.lifetime and end and self.now - FIVE_YEARS_S < int(float(end)) <= self.now:
                    del table.items[key]


# --- checks -------------------------------------------------------------------------------------------------


def _check_key(table: TableModel, key: Item) -> Key:
    if key.keys() != table.keys.keys() or any(get_tag(key[name]) != tag for name, tag in table.keys.items()):
        raise Invalid(NOT_THE_SCHEMA)
    return table.key_of(key)


def _check_item(table: TableModel, item: Item) -> Key:
    for name, tag in table.keys.items():
        if name not in item:
            raise Invalid(f"{INVALID}Missing the key {name} in the item")
        if get_tag(item[name]) != tag:
            raise Invalid(
                f"{INVALID}Type mismatch for key {name} expected: {tag} actual: {get_tag(item[name])}"
            )
    refusals = [
        refusal
        for index in table.indexes.values()
        for name, tag in index.keys.items()
        if name in item
        for refusal in _build_index_key_refusal(index, name, tag, item[name])
    ]
    if refusals:
        raise Invalid(*refusals)
    return table.key_of(item)


def _build_index_key_refusal(index: IndexModel, name: str, tag: str, value: Tagged) -> list[str]:
    if get_tag(value) != tag:
        return [_build_mismatch(index, name, tag, get_tag(value))]
    if value[tag] in ("", b""):
        return [
            "One or more parameter values are not valid. A value specified for a secondary index key is not"
            " supported. The AttributeValue for a key attribute cannot contain an empty "
            f"{'string' if tag == 'S' else 'binary'}"
            f" value. IndexName: {index.name}, IndexKey: {name}"
        ]
    return []


def _build_mismatch(index: IndexModel, name: str, tag: str, actual: str) -> str:
    return (
        f"{INVALID}Type mismatch for Index Key {name} Expected: {tag} Actual: {actual} IndexName: "
        f"{index.name}"
    )


def _check_update(table: TableModel, update: Update) -> None:
    """Raise for faults that the update alone shows."""
    for _, path, *_ in update:
        if path[0] in table.keys:
            raise Invalid(f"{INVALID}Cannot update attribute {path[0]}. This attribute is part of the key")
    refusals = [
        _build_mismatch(index, name, tag, "N" if kind == "plus" else get_tag(values[0]))
        for index in table.indexes.values()
        for name, tag in index.keys.items()
        for kind, path, *values in update
        if path == (name,) and kind in ("set", "add", "plus") and get_tag(values[0]) != tag
    ]
    if refusals:
        raise Invalid(*refusals)


def _check_result(table: TableModel, update: Update, new: Item) -> None:
    """Raise for faults that only the result shows."""
    touched = {path[0] for _, path, *_ in update}
    refusals: list[str] = []
    for index in table.indexes.values():
        for name, tag in index.keys.items():
            if name not in touched or name not in new:
                continue
            if get_tag(new[name]) != tag:
                refusals.append(
                    "The update expression attempted to update the secondary index key to unsupported type"
                )
            elif new[name][tag] in ("", b""):
                refusals.append(
                    "One or more parameter values are not valid. The update expression attempted to update a"
                    " secondary index key to a value that is not supported. The AttributeValue for a key "
                    "attribute"
                    f" cannot contain an empty {'string' if tag == 'S' else 'binary'} value."
                )
    if refusals:
        raise Invalid(*refusals)


def _require(request: Answer, old: Item | None) -> None:
    if "Condition" not in request or holds(request["Condition"], old or {}):
        return
    shows = old is not None and request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
    more = {"Item": old} if shows else {}
    raise Refusal("ConditionalCheckFailedException", [CONDITION_FAILED], **more)


def _meets(tests: list[tuple[Any, ...]], item: Item) -> bool:
    return all(
        _meets_one(kind, make_sort_key(item[name]), *map(make_sort_key, values))
        for kind, name, *values in tests
    )


def _meets_one(kind: str, here: Any, bound: Any, high: Any = None) -> bool:
    match kind:
        case "=":
            return bool(here == bound)
        case "<":
            return bool(here < bound)
        case "<=":
            return bool(here <= bound)
        case ">":
            return bool(here > bound)
        case ">=":
            return bool(here >= bound)
        case "between":
            return bool(bound <= here <= high)
    return bool(here.startswith(bound))


# --- returned values ----------------------------------------------------------------------------------------


def _project_item(item: Item, paths: list[tuple[Any, ...]] | None) -> Item:
    return item if paths is None else project(paths, item)


def _old_values(request: Answer, effect: Effect) -> Answer:
    wanted = request.get("ReturnValues") == "ALL_OLD" and effect.old is not None
    return {"Attributes": effect.old} if wanted else {}


def _updated_values(request: Answer, effect: Effect) -> Answer:
    wanted = request.get("ReturnValues", "NONE")
    shown = effect.old if wanted.endswith("OLD") else effect.new
    if wanted == "NONE" or shown is None:
        return {}
    if wanted.startswith("ALL"):
        return {"Attributes": shown}
    paths = [path for _, path, *_ in request.get("Update", [])]
    part = project([path for path in paths if get_value(shown, path) is not None], shown)
    return {"Attributes": part} if part else {}


# --- capacity -----------------------------------------------------------------------------------------------


@dataclass
class Consumed:
    table: str
    own: float
    local: dict[str, float]
    globally: dict[str, float]
    kind: str | None


def _size(item: Item | None) -> int:
    return 0 if item is None else get_item_size(item)


def _read_units(size: int, *, consistent: bool) -> float:
    return max(1, -(-size // 4096)) * (1.0 if consistent else 0.5)


def _write_units(size: int) -> float:
    return float(max(1, -(-size // 1024)))


def _count_units(
    table: TableModel, own: float, indexes: dict[str, float] | None = None, kind: str | None = None
) -> Consumed:
    by_name = indexes or {}
    return Consumed(
        table.name,
        own,
        {name: units for name, units in by_name.items() if not table.indexes[name].is_global},
        {name: units for name, units in by_name.items() if table.indexes[name].is_global},
        kind,
    )


def _count_write(effect: Effect, factor: float = 1.0, kind: str | None = None) -> Consumed:
    """Count a write's units: an index is written where its content changes, as a removal, a put, or both."""
    table, old, new = effect.table, effect.old, effect.new
    own = _write_units(max(_size(old), _size(new)))
    indexes: dict[str, float] = {}
    for index in table.indexes.values():
        before = table.view(old, index) if old else None
        after = table.view(new, index) if new else None
        units = _index_units(index, before, after)
        if units:
            indexes[index.name] = units * factor
    return _count_units(table, own * factor, indexes, kind)


def _index_units(index: IndexModel, before: Item | None, after: Item | None) -> float:
    if before is None or after is None:
        return 0.0 if before is after else _write_units(max(_size(before), _size(after)))
    if any(not are_equal(before[name], after[name]) for name in index.keys):
        return _write_units(_size(before)) + _write_units(_size(after))
    unchanged = before.keys() == after.keys() and all(are_equal(before[name], after[name]) for name in before)
    return 0.0 if unchanged else _write_units(max(_size(before), _size(after)))


def _build_capacity(request: Answer, consumed: list[Consumed], *, many: bool = False) -> Answer:
    detail = request.get("ReturnConsumedCapacity", "NONE")
    if detail == "NONE":
        return {}
    entries = [_build_entry(one, detail) for one in _sum_units(consumed)]
    return {"ConsumedCapacity": entries if many else entries[0]}


def _sum_units(consumed: list[Consumed]) -> list[Consumed]:
    totals: dict[str, Consumed] = {}
    for one in consumed:
        total = totals.setdefault(one.table, Consumed(one.table, 0.0, {}, {}, one.kind))
        total.own += one.own
        for source, target in ((one.local, total.local), (one.globally, total.globally)):
            for name, units in source.items():
                target[name] = target.get(name, 0.0) + units
    return list(totals.values())


def _build_entry(one: Consumed, detail: str) -> Answer:
    total = one.own + sum(one.local.values()) + sum(one.globally.values())
    entry: Answer = {"TableName": one.table} | _units(total, one.kind)
    if detail == "INDEXES":
        entry["Table"] = _units(one.own, one.kind)
        for member, by_name in (
            ("LocalSecondaryIndexes", one.local),
            ("GlobalSecondaryIndexes", one.globally),
        ):
            if by_name:
                entry[member] = {name: _units(units, one.kind) for name, units in by_name.items()}
    return entry


def _units(units: float, kind: str | None) -> Answer:
    answer: Answer = {"CapacityUnits": units}
    return answer | {f"{kind}CapacityUnits": units} if kind and units else answer
