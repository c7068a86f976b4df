"""A model of DynamoDB in plain Python: the answer that DynamoDB gives to each request.

It takes the requests of `steps.py` (the protocol's members, with conditions and updates as data) and returns
the protocol's answer, or raises `Refusal`. It does not answer scans and queries whole: `list_matching` lists
the items and their order, and `build_page` gives one page of them, because the order of a scan, and of equal
keys in an index, is up to the store.
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

JsonObject = dict[str, Any]
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
    """A table: key attributes with their types, indexes by name, items by key, and the TTL attribute."""

    name: str
    keys: dict[str, str]
    indexes: dict[str, IndexModel]
    items: dict[Key, Item] = field(default_factory=dict)
    lifetime: str | None = None

    def get_key(self, item: Item) -> Key:
        """Return the item's key values in a form that sorts."""
        return tuple(make_sort_key(item[name]) for name in self.keys)

    def get_key_attributes(self, item: Item) -> Item:
        """Return only the key attributes of an item."""
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
    """The tables and their time. A method `_Operation` answers each operation of the protocol."""

    def __init__(self, tables: list[TableModel]) -> None:
        self.tables = {table.name: table for table in tables}
        self.now = 0.0
        self._tokens: dict[str, tuple[float, JsonObject]] = {}

    def answer(self, operation: str, request: JsonObject) -> JsonObject:
        """Return the protocol's answer to a request, or raise `Refusal`."""
        try:
            return getattr(self, "_" + operation)(request)  # type: ignore[no-any-return]
        except Invalid as invalid:
            raise Refusal("ValidationException", invalid.messages) from None

    # --- single items ---------------------------------------------------------------------------------------

    def _GetItem(self, request: JsonObject) -> JsonObject:  # noqa: N802
        """Return the item, projected as requested, and the capacity that the request wants."""
        table = self.tables[request["TableName"]]
        item = table.items.get(_check_key(table, request["Key"]))
        answer: JsonObject = {} if item is None else {"Item": _project_item(item, request.get("Projection"))}
        units = _count_read_units(_get_item_size(item), consistent=request.get("ConsistentRead", False))
        return answer | _build_capacity(request, [_count_units(table, units)])

    def _PutItem(self, request: JsonObject) -> JsonObject:  # noqa: N802
        """Put the item if the condition holds; return the wanted old values and capacity."""
        table = self.tables[request["TableName"]]
        effect = self._put(table, request)
        self._apply(effect)
        return _build_old_values(request, effect) | _build_capacity(request, [_count_write(effect)])

    def _DeleteItem(self, request: JsonObject) -> JsonObject:  # noqa: N802
        """Delete the item if the condition holds; return the wanted old values and capacity."""
        effect = self._delete(self.tables[request["TableName"]], request)
        self._apply(effect)
        return _build_old_values(request, effect) | _build_capacity(request, [_count_write(effect)])

    def _UpdateItem(self, request: JsonObject) -> JsonObject:  # noqa: N802
        """Update or create the item if the condition holds; return the wanted values and capacity."""
        effect = self._update(self.tables[request["TableName"]], request)
        self._apply(effect)
        return _build_updated_values(request, effect) | _build_capacity(request, [_count_write(effect)])

    def _put(self, table: TableModel, request: JsonObject) -> Effect:
        """Return the effect of a put without applying it. Raise `Invalid`, or `Refusal` if its condition
        fails.
        """
        key = _check_item(table, request["Item"])
        old = table.items.get(key)
        _require_condition(request, old)
        return Effect(table, key, old, copy.deepcopy(request["Item"]))

    def _delete(self, table: TableModel, request: JsonObject) -> Effect:
        """Return the effect of a delete without applying it. Raise `Invalid`, or `Refusal` if its condition
        fails.
        """
        key = _check_key(table, request["Key"])
        old = table.items.get(key)
        _require_condition(request, old)
        return Effect(table, key, old, None)

    def _update(self, table: TableModel, request: JsonObject) -> Effect:
        """Return the effect of an update without applying it. Raise `Invalid`, or `Refusal` if its condition
        fails.
        """
        key = _check_key(table, request["Key"])
        update: Update = request.get("Update", [])
        _check_update(table, update)
        old = table.items.get(key)
        _require_condition(request, old)
        if old is None and update and all(kind in ("remove", "delete") for kind, *_ in update):
            return Effect(table, key, None, None)  # removing from a missing item creates nothing
        new = apply_update(update, dict(request["Key"]) if old is None else old)
        _check_result(table, update, new)
        return Effect(table, key, old, new)

    def _apply(self, effect: Effect) -> None:
        """Store the effect's new item, or remove the item."""
        if effect.new is None:
            effect.table.items.pop(effect.key, None)
        else:
            effect.table.items[effect.key] = effect.new

    # --- many items -----------------------------------------------------------------------------------------

    def _BatchGetItem(self, request: JsonObject) -> JsonObject:  # noqa: N802
        """Return the existing items of each table. Raise `Invalid` for a key that is given twice."""
        responses: JsonObject = {}
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
                _count_units(
                    table,
                    sum(_count_read_units(_get_item_size(item), consistent=consistent) for item in items),
                )
            )
        return {"Responses": responses, "UnprocessedKeys": {}} | _build_capacity(request, consumed, many=True)

    def _BatchWriteItem(self, request: JsonObject) -> JsonObject:  # noqa: N802
        """Apply all puts and deletes. Raise `Invalid`, and change nothing, if an item is written twice."""
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

    def _build_batch_effect(self, table: TableModel, write: JsonObject) -> Effect:
        if "DeleteRequest" in write:
            return self._delete(table, write["DeleteRequest"])
        return self._put(table, write["PutRequest"])

    def _TransactGetItems(self, request: JsonObject) -> JsonObject:  # noqa: N802
        """Return the items in the order of the request. Raise `Invalid` for an item that is read twice."""
        answers: list[JsonObject] = []
        consumed = []
        seen = set()
        for entry in request["TransactItems"]:
            get = entry["Get"]
            table = self.tables[get["TableName"]]
            key = _check_key(table, get["Key"])
            seen.add((table.name, key))
            item = table.items.get(key)
            answers.append({} if item is None else {"Item": _project_item(item, get.get("Projection"))})
            consumed.append(
                _count_units(table, 2 * _count_read_units(_get_item_size(item), consistent=True), kind="Read")
            )
        if len(seen) != len(answers):
            raise Invalid(ONE_ITEM_TWICE)
        return {"Responses": answers} | _build_capacity(request, consumed, many=True)

    def _TransactWriteItems(self, request: JsonObject) -> JsonObject:  # noqa: N802
        """Apply all actions, or raise `Refusal` with a reason for each. A known token answers as a repeat."""
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

    def _answer_repeat(self, request: JsonObject, first: JsonObject) -> JsonObject:
        """Answer a transaction whose token was used before: the first request again only costs reads.

        Raise `Refusal` if the request differs from the first.
        """
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
            item = table.items.get(table.get_key(action.get("Item") or action["Key"]))
            consumed.append(
                _count_units(table, 2 * _count_read_units(_get_item_size(item), consistent=True), kind="Read")
            )
        return _build_capacity(request, consumed, many=True)

    def _evaluate(self, kind: str, action: JsonObject) -> tuple[Effect, JsonObject]:
        """Return the effect of one action of a transaction and its cancellation reason, whose code is "None"
        if it holds.
        """
        table = self.tables[action["TableName"]]
        decide = {"Put": self._put, "Update": self._update, "Delete": self._delete}.get(kind)
        try:
            if decide is not None:
                return decide(table, action), {"Code": "None"}
            key = _check_key(table, action["Key"])
            _require_condition(action, table.items.get(key))
            unchanged = table.items.get(key)
            return Effect(table, key, unchanged, unchanged), {"Code": "None"}
        except Refusal as refusal:
            key = table.get_key(action.get("Item") or action["Key"])
            reason = {"Code": "ConditionalCheckFailed", "Message": CONDITION_FAILED, **refusal.more}
            return Effect(table, key, None, None), reason

    # --- pages ----------------------------------------------------------------------------------------------

    def list_matching(self, request: JsonObject) -> list[tuple[Any, Item]]:
        """Return every item that a query or scan reads, as the table or index holds it, with its key for
        sorting.

        The list is in the order of the keys, or in reverse as requested; filters are not applied.
        """
        table = self.tables[request["TableName"]]
        index = table.indexes[request["IndexName"]] if "IndexName" in request else None
        keys = list(index.keys if index else table.keys)
        passed = []
        for item in table.items.values():
            view = table.view(item, index) if index else item
            if view is not None and _meets_key_condition(request.get("KeyCondition", []), view):
                passed.append((tuple(make_sort_key(view[name]) for name in keys), view))
        return sorted(passed, key=lambda entry: entry[0], reverse=not request.get("ScanIndexForward", True))

    def build_page(self, request: JsonObject, passed: list[Item]) -> JsonObject:
        """Return the answer of a page that reads these items, without its LastEvaluatedKey."""
        table = self.tables[request["TableName"]]
        index = table.indexes[request["IndexName"]] if "IndexName" in request else None
        kept = [item for item in passed if "Filter" not in request or holds(request["Filter"], item)]
        answer: JsonObject = {"Count": len(kept), "ScannedCount": len(passed)}
        if request.get("Select") != "COUNT":
            answer["Items"] = [_project_item(item, request.get("Projection")) for item in kept]
        size = sum(get_item_size(item) for item in passed)
        units = _count_read_units(size, consistent=request.get("ConsistentRead", False))
        if index is None:
            return answer | _build_capacity(request, [_count_units(table, units)])
        return answer | _build_capacity(request, [_count_units(table, 0.0, {index.name: units})])

    def get_start_key(self, request: JsonObject, item: Item) -> Item:
        """Return the LastEvaluatedKey of a page that ends with this item."""
        table = self.tables[request["TableName"]]
        index = table.indexes[request["IndexName"]] if "IndexName" in request else None
        return {name: item[name] for name in {*table.keys, *(index.keys if index else ())}}

    # --- tables ---------------------------------------------------------------------------------------------

    def count_items(self, name: str) -> JsonObject:
        """Return (items, bytes) of the table under "" and of each index under its name."""
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
        """Remove the items whose TTL has passed, unless it is more than five years ago."""
        for table in self.tables.values():
            for key, item in list(table.items.items()):
                end = item.get(table.lifetime or "", {}).get("N")
                if table.lifetime and end and self.now - FIVE_YEARS_S < int(float(end)) <= self.now:
                    del table.items[key]


# --- checks -------------------------------------------------------------------------------------------------


def _check_key(table: TableModel, key: Item) -> Key:
    """Return the key of a request. Raise `Invalid` if it does not match the schema."""
    if key.keys() != table.keys.keys() or any(get_tag(key[name]) != tag for name, tag in table.keys.items()):
        raise Invalid(NOT_THE_SCHEMA)
    return table.get_key(key)


def _check_item(table: TableModel, item: Item) -> Key:
    """Return the key of an item to put. Raise `Invalid` if a key of the table or of an index is invalid."""
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
    return table.get_key(item)


def _build_index_key_refusal(index: IndexModel, name: str, tag: str, value: Tagged) -> list[str]:
    """Return the messages about an invalid value of an index key; empty if it is valid."""
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


def _require_condition(request: JsonObject, old: Item | None) -> None:
    """Raise `Refusal` if the request has a condition that the old item does not meet."""
    if "Condition" not in request or holds(request["Condition"], old or {}):
        return
    shows = old is not None and request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
    more = {"Item": old} if shows else {}
    raise Refusal("ConditionalCheckFailedException", [CONDITION_FAILED], **more)


def _meets_key_condition(tests: list[tuple[Any, ...]], item: Item) -> bool:
    """Return True if the item meets every test of a key condition."""
    return all(
        _meets_key_test(kind, make_sort_key(item[name]), *map(make_sort_key, values))
        for kind, name, *values in tests
    )


def _meets_key_test(kind: str, here: Any, bound: Any, high: Any = None) -> bool:
    """Compare a key value with the bound, or bounds, of one test."""
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


def _build_old_values(request: JsonObject, effect: Effect) -> JsonObject:
    """Return the old item as `Attributes`, if the request wants it and there is one."""
    wanted = request.get("ReturnValues") == "ALL_OLD" and effect.old is not None
    return {"Attributes": effect.old} if wanted else {}


def _build_updated_values(request: JsonObject, effect: Effect) -> JsonObject:
    """Return the `Attributes` of an UpdateItem answer, as its ReturnValues want them."""
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
    """The units that a request consumes on a table and its indexes; `kind` is "Read", "Write" or None."""

    table: str
    own: float
    local: dict[str, float]
    globally: dict[str, float]
    kind: str | None


def _get_item_size(item: Item | None) -> int:
    return 0 if item is None else get_item_size(item)


def _count_read_units(size: int, *, consistent: bool) -> float:
    """Return the units of reading this many bytes: one per started 4 KB, half if eventually consistent."""
    return max(1, -(-size // 4096)) * (1.0 if consistent else 0.5)


def _count_write_units(size: int) -> float:
    """Return the units of writing this many bytes: one per started KB."""
    return float(max(1, -(-size // 1024)))


def _count_units(
    table: TableModel, own: float, indexes: dict[str, float] | None = None, kind: str | None = None
) -> Consumed:
    """Return these units as consumed by the table itself and by its indexes, by name."""
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
    own = _count_write_units(max(_get_item_size(old), _get_item_size(new)))
    indexes: dict[str, float] = {}
    for index in table.indexes.values():
        before = table.view(old, index) if old else None
        after = table.view(new, index) if new else None
        units = _count_index_units(index, before, after)
        if units:
            indexes[index.name] = units * factor
    return _count_units(table, own * factor, indexes, kind)


def _count_index_units(index: IndexModel, before: Item | None, after: Item | None) -> float:
    """Return the write units of changing an index entry from `before` to `after`; None means no entry."""
    if before is None or after is None:
        return (
            0.0 if before is after else _count_write_units(max(_get_item_size(before), _get_item_size(after)))
        )
    if any(not are_equal(before[name], after[name]) for name in index.keys):
        return _count_write_units(_get_item_size(before)) + _count_write_units(_get_item_size(after))
    unchanged = before.keys() == after.keys() and all(are_equal(before[name], after[name]) for name in before)
    return 0.0 if unchanged else _count_write_units(max(_get_item_size(before), _get_item_size(after)))


def _build_capacity(request: JsonObject, consumed: list[Consumed], *, many: bool = False) -> JsonObject:
    """Return the `ConsumedCapacity` member in the wanted detail: a list if `many`, empty if not wanted."""
    detail = request.get("ReturnConsumedCapacity", "NONE")
    if detail == "NONE":
        return {}
    entries = [_build_entry(one, detail) for one in _sum_units(consumed)]
    return {"ConsumedCapacity": entries if many else entries[0]}


def _sum_units(consumed: list[Consumed]) -> list[Consumed]:
    """Return one total for each table."""
    totals: dict[str, Consumed] = {}
    for one in consumed:
        total = totals.setdefault(one.table, Consumed(one.table, 0.0, {}, {}, one.kind))
        total.own += one.own
        for source, target in ((one.local, total.local), (one.globally, total.globally)):
            for name, units in source.items():
                target[name] = target.get(name, 0.0) + units
    return list(totals.values())


def _build_entry(one: Consumed, detail: str) -> JsonObject:
    """Return one `ConsumedCapacity` entry, with its indexes if the detail is INDEXES."""
    total = one.own + sum(one.local.values()) + sum(one.globally.values())
    entry: JsonObject = {"TableName": one.table} | _build_units(total, one.kind)
    if detail == "INDEXES":
        entry["Table"] = _build_units(one.own, one.kind)
        for member, by_name in (
            ("LocalSecondaryIndexes", one.local),
            ("GlobalSecondaryIndexes", one.globally),
        ):
            if by_name:
                entry[member] = {name: _build_units(units, one.kind) for name, units in by_name.items()}
    return entry


def _build_units(units: float, kind: str | None) -> JsonObject:
    answer: JsonObject = {"CapacityUnits": units}
    return answer | {f"{kind}CapacityUnits": units} if kind and units else answer
