"""One page of the items of a table or an index, from the fields of a form.

With a partition key it is a query, with a condition on the sort key; without, it is a page of a scan. Filters
apply to what was read, so a page with filters reads on until it is full or `MAX_EXAMINED` items were read.
The cursor is a token in the address: it holds the last key, and belongs to this table, index, key and filter.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final, Literal, cast, get_args

from holdfast.console.browser.entities import extract_key, find_declaration
from holdfast.console.browser.item_masker import ItemMasker
from holdfast.console.masking import Masker
from holdfast.core.errors import HoldfastError, InvalidRequest
from holdfast.model.entities import get_declaration
from holdfast.model.entities.cursors import decode_cursor, encode_cursor
from holdfast.model.entities.declaration import Attribute
from holdfast.model.entities.key_templates import Template
from holdfast.model.tables import Index, Table
from holdfast.operations import numbers
from holdfast.operations.expressions import nodes
from holdfast.operations.expressions.key_conditions import KeyCondition, KeyOperator, KeyTest
from holdfast.operations.tables import GetItem, Query, Scan
from holdfast.operations.values import Item, Value
from holdfast.runtime.stores import Stores

__all__ = ["FILTER_OPERATORS", "SORT_OPERATORS", "Filter", "ItemPage", "ItemQuery", "load_items"]

PAGE_SIZES: Final = (25, 50, 100)
# Of one page with filters.
MAX_EXAMINED: Final = 1000

FilterOperator = Literal["=", "<>", "<", "<=", ">", ">=", "begins_with", "contains", "exists", "not_exists"]
SORT_OPERATORS: Final = {
    "=": "is", "begins_with": "begins with", "<": "is before", "<=": "is at most", ">": "is after",
    ">=": "is at least", "between": "is between",
}  # fmt: skip
FILTER_OPERATORS: Final[dict[str, str]] = {
    "=": "is", "<>": "is not", "<": "is less than", "<=": "is at most", ">": "is greater than",
    ">=": "is at least", "begins_with": "begins with", "contains": "contains", "exists": "exists",
    "not_exists": "does not exist",
}  # fmt: skip
# They say of a value only what the user knew already.
OPEN_OPERATORS: Final = frozenset({"=", "exists", "not_exists"})


@dataclass(frozen=True)
class Filter:
    """A test of an attribute, by its Python or stored name."""

    attribute: str
    operator: str
    value: str = ""


@dataclass(frozen=True)
class ItemQuery:
    """The fields of the form, as texts."""

    index: str = ""
    partition: str = ""
    operator: str = "="
    sort: str = ""
    sort_to: str = ""
    descending: bool = False
    filters: Sequence[Filter] = ()
    size: int = PAGE_SIZES[0]
    cursor: str = ""

    @property
    def is_scan(self) -> bool:
        return not self.partition


@dataclass(frozen=True)
class ItemPage:
    """The items of a page, and the cursor of the next; `examined` counts the items read."""

    items: Sequence[Item]
    next: str = ""
    examined: int = 0
    units: float = 0.0
    problems: dict[str, str] = field(default_factory=dict)


async def load_items(stores: Stores, table: Table, query: ItemQuery, masker: Masker) -> ItemPage:
    """Return one page. A field of the form that is invalid is a problem under its name, and reads nothing."""
    problems: dict[str, str] = {}
    index = _find_index(table, query.index, problems)
    condition = _build_key_condition(table, index, query, problems)
    test = _build_filter(table, query.filters, problems)
    if problems:
        return ItemPage((), problems=problems)
    scope = ("items", table.name, query.index, condition, query.descending, test)
    key = decode_cursor(query.cursor, scope) if query.cursor else None
    start = None if key is None else await _load_start(stores, table, index, key)
    page = await _read(stores, table, _Read(index, condition, test, query, start))
    kept = [each for each in page.items if _may_match(table, index, each, query, masker)]
    last = None if page.last_key is None else _strip_masked(table, page.last_key, masker)
    return ItemPage(kept, "" if last is None else encode_cursor(last, scope), page.examined, page.units)


def _strip_masked(table: Table, last_key: Item, masker: Masker) -> Item:
    """Return the last key of a page for its cursor, which anybody can decode: only the table's key, if the
    key in the index has a masked value.
    """
    shown = ItemMasker(masker, table, find_declaration(table, last_key)).mask_all(last_key)
    return last_key if shown == last_key else extract_key(table, last_key)


async def _load_start(stores: Stores, table: Table, index: Index | None, key: Item) -> Item:
    """Return the key at which a page starts. What the cursor lacks of it is read from the item."""
    names = [] if index is None else [index.partition, index.sort]
    missing = [name for name in names if name is not None and name not in key]
    if not missing:
        return key
    found = await stores.tables.run(GetItem(stores.physical_name(table), extract_key(table, key)))
    item = found.item or {}
    if not all(name in item for name in missing):
        raise InvalidRequest(
            "The last item of the page before is not in the index any more. Begin at the first page."
        )
    return {**key, **{name: item[name] for name in missing}}


# --- reading ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Read:
    index: Index | None
    condition: KeyCondition | None
    test: nodes.Condition | None
    query: ItemQuery
    start: Item | None


@dataclass(frozen=True)
class _Found:
    items: list[Item]
    last_key: Item | None
    examined: int
    units: float


async def _read(stores: Stores, table: Table, read: _Read) -> _Found:
    """Read until the page is full, the items end, or enough were examined."""
    found = _Found([], read.start, 0, 0.0)
    while True:
        page = await stores.tables.run(_build_request(stores.physical_name(table), read, found.last_key))
        units = 0.0 if page.capacity is None else page.capacity.total.read
        found = _Found(
            [*found.items, *(page.items or ())],
            page.last_key,
            found.examined + page.scanned_count,
            found.units + units,
        )
        is_full = len(found.items) >= read.query.size or found.examined >= MAX_EXAMINED
        if page.last_key is None or is_full or read.test is None:
            return found


def _build_request(physical: str, read: _Read, start: Item | None) -> Any:
    shared: dict[str, Any] = {
        "index": None if read.index is None else read.index.name,
        "filter": read.test,
        "limit": read.query.size,
        "start_key": start,
        "capacity": "TOTAL",
    }
    if read.condition is None:
        return Scan(physical, **shared)
    return Query(physical, read.condition, forward=not read.query.descending, **shared)


def _may_match(table: Table, index: Index | None, item: Item, query: ItemQuery, masker: Masker) -> bool:
    """Return whether the query may select an item: a test that compares a masked value would reveal it."""
    if masker.is_revealed:
        return True
    compared = [
        name
        for each in query.filters
        if each.operator not in OPEN_OPERATORS
        for name in _list_stored_names(table, each.attribute)
    ]
    if index is not None and index.sort is not None and query.sort and query.operator != "=":
        compared.append(index.sort)
    if not compared:
        return True
    own = ItemMasker(masker, table, find_declaration(table, item))
    return not any(name in item and own.is_masked(name, item[name]) for name in compared)


# --- the key ------------------------------------------------------------------------------------------------


def _find_index(table: Table, name: str, problems: dict[str, str]) -> Index | None:
    found = next((each for each in table.indexes if each.name == name), None)
    if name and found is None:
        problems["index"] = f"{table.name} has no index {name}. Choose one of the list."
    return found


def _build_key_condition(
    table: Table, index: Index | None, query: ItemQuery, problems: dict[str, str]
) -> KeyCondition | None:
    """Return the tests of the key; None for a scan."""
    keys = table if index is None else index
    if query.is_scan:
        if query.sort:
            problems["sort"] = (
                f"A condition on {keys.sort or 'a sort key'} needs a value of {keys.partition}."
            )
        return None
    read = _KeyReader(table, index, problems)
    tests = [KeyTest(keys.partition, "=", (read.parse(keys.partition, query.partition, "partition"),))]
    if keys.sort is not None and query.sort:
        if query.operator not in SORT_OPERATORS:
            problems["operator"] = f"Invalid condition {query.operator!r}. Choose one of the list."
            return tuple(tests)
        is_prefix = query.operator == "begins_with"
        values = [read.parse(keys.sort, query.sort, "sort", is_prefix=is_prefix)]
        if query.operator == "between":
            values.append(read.parse(keys.sort, query.sort_to, "sort_to"))
        tests.append(KeyTest(keys.sort, cast(KeyOperator, query.operator), tuple(values)))
    return tuple(tests)


@dataclass(frozen=True)
class _KeyReader:
    """Reads the values of key attributes from texts; what is invalid becomes a problem of its field."""

    table: Table
    index: Index | None
    problems: dict[str, str]

    def parse(self, name: str, text: str, field: str, *, is_prefix: bool = False) -> Value:
        """Return the value of a key attribute: as its entities store it if they agree, else by its type."""
        keys = self.table if self.index is None else self.index
        tag = keys.partition_type if name == keys.partition else keys.sort_type
        try:
            if tag == "N":
                return numbers.parse(text.strip())
            if tag == "B":
                return b64decode(text, validate=True)
        except (HoldfastError, binascii.Error, ValueError):
            expected = "a number" if tag == "N" else "bytes as base64"
            self.problems[field] = f"Invalid value {text!r}: expected {expected}."
            return text
        return text if is_prefix else self._encode(name, text)

    def _encode(self, name: str, text: str) -> Value:
        """Return a text as the attributes that are this key alone store it, such as a time."""
        found: list[Value] = []
        for template in self._list_templates(name):
            if template.sole_attribute is None:
                return text
            found += _encode(template.sole_attribute, text)
        distinct = _keep_distinct(found)
        return distinct[0] if len(distinct) == 1 and isinstance(distinct[0], str) else text

    def _list_templates(self, name: str) -> list[Template]:
        """Return how the entities of the table build this key attribute."""
        declarations = map(get_declaration, self.table.entities)
        keys = [
            key for each in declarations for key in (each.primary, *each.indexes) if key.index is self.index
        ]
        return [template for key in keys for part, template in key.templates if part == name]


# --- filters ------------------------------------------------------------------------------------------------


def _build_filter(
    table: Table, filters: Sequence[Filter], problems: dict[str, str]
) -> nodes.Condition | None:
    """Return the condition that every filter holds; None without filters."""
    tests: list[nodes.Condition] = []
    for place, each in enumerate(filters):
        if each.operator not in get_args(FilterOperator):
            problems[f"filter{place}"] = f"Invalid operator {each.operator!r}. Choose one of the list."
            continue
        tests.append(_build_test(table, each))
    return nodes.And(tuple(tests)) if len(tests) > 1 else next(iter(tests), None)


def _build_test(table: Table, wanted: Filter) -> nodes.Condition:
    """Return one test: of any attribute of that name, and of any type that the text may be."""
    paths = [nodes.Path(name) for name in _list_stored_names(table, wanted.attribute)]
    if wanted.operator == "exists":
        return _any([nodes.AttributeExists(each) for each in paths])
    if wanted.operator == "not_exists":
        return _all([nodes.AttributeNotExists(each) for each in paths])
    if wanted.operator == "<>":
        same = replace(wanted, operator="=")
        return nodes.Not(_build_test(table, same))
    return _any([_compare(path, wanted, value) for path in paths for value in _list_values(table, wanted)])


def _compare(path: nodes.Path, wanted: Filter, value: Value) -> nodes.Condition:
    literal = nodes.Literal(value)
    if wanted.operator == "begins_with":
        return nodes.BeginsWith(path, literal)
    if wanted.operator == "contains":
        return nodes.Contains(path, literal)
    return nodes.Compare(cast(nodes.Comparator, wanted.operator), path, literal)


def _list_stored_names(table: Table, name: str) -> list[str]:
    """Return the stored names of an attribute: those that entities declare for it, or the name itself."""
    found = [
        declaration.attributes[name].stored_name
        for declaration in map(get_declaration, table.entities)
        if name in declaration.attributes
    ]
    return list(dict.fromkeys(found)) or [name]


def _list_values(table: Table, wanted: Filter) -> list[Value]:
    """Return what a text may mean: as the declared types store it, else as text, number or bool."""
    if wanted.operator == "begins_with":
        return [wanted.value]
    attributes = [
        each
        for declaration in map(get_declaration, table.entities)
        for each in declaration.attributes.values()
        if wanted.attribute in (each.name, each.stored_name)
    ]
    values = [value for each in attributes for value in _encode(each, wanted.value)]
    if wanted.operator == "contains":
        values = [value for each in attributes for value in _encode(each.element, wanted.value)]
    return _keep_distinct(values) or _keep_distinct([wanted.value, *_guess(wanted.value)])


def _encode(attribute: Attribute, text: str) -> list[Value]:
    """Return what the attribute stores for a text; nothing if its type does not read the text."""
    try:
        return [attribute.encode(text)]
    except (InvalidRequest, TypeError, ValueError):
        return []


def _guess(text: str) -> list[Value]:
    """Return the number or the bool that a text may mean."""
    if text in ("true", "false"):
        return [text == "true"]
    try:
        return [numbers.parse(text.strip())]
    except InvalidRequest:
        return []


def _keep_distinct(values: list[Value]) -> list[Value]:
    """Return the scalar values, each once."""
    distinct: list[Value] = []
    for each in values:
        is_scalar = isinstance(each, str | int | bytes | Decimal)
        if is_scalar and not any(type(each) is type(other) and each == other for other in distinct):
            distinct.append(each)
    return distinct


def _any(conditions: list[Any]) -> nodes.Condition:
    return nodes.Or(tuple(conditions)) if len(conditions) > 1 else cast(nodes.Condition, conditions[0])


def _all(conditions: list[Any]) -> nodes.Condition:
    return nodes.And(tuple(conditions)) if len(conditions) > 1 else cast(nodes.Condition, conditions[0])
