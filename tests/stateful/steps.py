"""Random steps as data: requests and other actions, independent of each other, so that any can be left out.

Keys and values come from small pools, so that steps collide. `render` turns the request of a step, with its
conditions and updates as data, into the request of the protocol.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from .expressions import Condition, Path, Placeholders, Update, render_condition, render_update
from .model import IndexModel, TableModel
from .values import Item, Tagged, make_sort_key

ORDERS, SINGLES = "orders", "singles"
ONLINE = "by_o"
START = 1_000_000_000
CAPACITY = ["NONE", "TOTAL", "INDEXES"]


@dataclass(frozen=True)
class Step:
    """One step: an operation of the protocol or an action of the comparison, and its request."""

    kind: str
    request: dict[str, Any]


def make_models() -> list[TableModel]:
    """Return the tables of every run: with one and with two keys, local and global indexes of every
    projection.
    """
    return [
        TableModel(
            ORDERS,
            {"pk": "S", "sk": "N"},
            {
                "by_g": IndexModel("by_g", {"g": "S", "h": "N"}, None),
                "by_k": IndexModel("by_k", {"k": "N"}, []),
                "by_l": IndexModel("by_l", {"pk": "S", "l": "S"}, ["a", "m"], is_global=False),
            },
        ),
        TableModel(SINGLES, {"pk": "B"}, {"by_g": IndexModel("by_g", {"g": "S"}, ["a"])}),
    ]


def make_online_index() -> IndexModel:
    """Build the index that is added and dropped while the table lives."""
    return IndexModel(ONLINE, {"o": "S", "l": "S"}, ["b"])


def make_create_requests() -> list[dict[str, Any]]:
    return [_make_create_request(table) for table in make_models()]


def _make_create_request(table: TableModel) -> dict[str, Any]:
    request: dict[str, Any] = {
        "TableName": table.name,
        "KeySchema": _make_key_schema(table.keys),
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": make_attribute_definitions(
            table.keys, *(index.keys for index in table.indexes.values())
        ),
    }
    for index in table.indexes.values():
        member = "GlobalSecondaryIndexes" if index.is_global else "LocalSecondaryIndexes"
        request.setdefault(member, []).append(make_index_request(index))
    return request


def make_index_request(index: IndexModel) -> dict[str, Any]:
    """Return the index as the protocol declares it."""
    projection: dict[str, Any] = {"ProjectionType": "ALL"}
    if index.projection == []:
        projection = {"ProjectionType": "KEYS_ONLY"}
    elif index.projection is not None:
        projection = {"ProjectionType": "INCLUDE", "NonKeyAttributes": index.projection}
    return {"IndexName": index.name, "KeySchema": _make_key_schema(index.keys), "Projection": projection}


def make_attribute_definitions(*keys: dict[str, str]) -> list[dict[str, str]]:
    known = {name: tag for each in keys for name, tag in each.items()}
    return [{"AttributeName": name, "AttributeType": tag} for name, tag in known.items()]


def _make_key_schema(keys: dict[str, str]) -> list[dict[str, str]]:
    return [
        {"AttributeName": name, "KeyType": kind} for name, kind in zip(keys, ("HASH", "RANGE"), strict=False)
    ]


# --- the generator ------------------------------------------------------------------------------------------


def make_random_steps(random: Random, count: int) -> list[Step]:
    maker = _Maker(random)
    return [maker.step() for _ in range(count)]


class _Maker:
    """Makes random steps. Each method draws one random part, such as a table name, a key, an item or a
    request.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self._transactions: list[dict[str, Any]] = []
        self._elapsed = 0
        self._kinds: list[tuple[int, str, Callable[[], dict[str, Any]]]] = [
            (14, "PutItem", self._put_item),
            (14, "UpdateItem", self._update_item),
            (6, "DeleteItem", self._delete_item),
            (6, "GetItem", self._get_item),
            (5, "BatchWriteItem", self._batch_write),
            (3, "BatchGetItem", self._batch_get),
            (8, "TransactWriteItems", self._transact_write),
            (3, "TransactGetItems", self._transact_get),
            (10, "Query", self._query),
            (5, "Scan", self._scan),
            (2, "DescribeTable", lambda: {"TableName": self._table()}),
            (2, "AddIndex", dict),
            (2, "DropIndex", dict),
            (2, "Lifetimes", lambda: {"TableName": self._table(), "Enabled": self._maybe(0.6)}),
            (2, "Advance", self._advance),
            (1, "Recreate", lambda: {"TableName": self._table()}),
        ]

    def step(self) -> Step:
        """Draw a step by the weights of the kinds."""
        weights = [weight for weight, _, _ in self._kinds]
        _, kind, make = self.random.choices(self._kinds, weights)[0]
        return Step(kind, make())

    def _maybe(self, chance: float) -> bool:
        """Return True with this probability."""
        return self.random.random() < chance

    def _advance(self) -> dict[str, Any]:
        seconds = self.random.choice([1, 30, 400, 700])
        self._elapsed += seconds
        return {"Seconds": seconds}

    def _table(self) -> str:
        return ORDERS if self._maybe(0.75) else SINGLES

    def _draw_capacity(self) -> dict[str, Any]:
        return {"ReturnConsumedCapacity": self.random.choice(CAPACITY)}

    # --- keys and items -------------------------------------------------------------------------------------

    def _key(self, table: str) -> Item:
        if table == SINGLES:
            return {"pk": {"B": self.random.choice([b"\x00", b"\xff", b"b", b"bb"])}}
        numbers = ["-1.0005", "-1", "0", "1", "2", "10", "1.5"]
        return {
            "pk": {"S": self.random.choice(["p", "q", "ö"])},
            "sk": {"N": self.random.choice(numbers)},
        }

    def _request_key(self, table: str) -> Item:
        """Return a key, nearly always a valid key of the table."""
        key = self._key(table)
        if self._maybe(0.02):
            key[self.random.choice(list(key))] = {"BOOL": True}
        if self._maybe(0.01):
            key["beside"] = {"S": "x"}
        return key

    def _item(self, table: str, *, valid: bool = False) -> Item:
        """Draw an item; unless `valid`, it may lack a key or have an index key of a wrong type."""
        item = self._key(table)
        for name in ("a", "b", "m", "g", "h", "k", "l", "o", "e"):
            if self._maybe(0.55):
                item[name] = self._value_of(name, valid=valid)
        if not valid and self._maybe(0.02):
            del item[self.random.choice(list(item))]
        return item

    def _value_of(self, name: str, *, valid: bool = False) -> Tagged:
        """Draw a value for the attribute of this name; unless `valid`, it may have a type that an index
        rejects.
        """
        choice = self.random.choice
        if not valid and name in ("g", "h", "k", "l") and self._maybe(0.03):
            return choice([{"S": ""}, {"N": "7"}, {"BOOL": True}, {"S": "text"}])
        match name:
            case "g":
                return {"S": choice(["x", "y", "xy"])}
            case "h" | "k":
                return {"N": choice(["-2", "-2.25", "0", "5", "100"])}
            case "l":
                return {"S": choice(["l", "la", "lb", "\u00e9", "\U0001f600"])}
            case "o":
                # It must be a string only while it has an index.
                return {"S": choice(["o", "oo"])} if valid or self._maybe(0.97) else {"N": "3"}
            case "e":
                # Never in the past, where it would expire at any moment, except so far back that it never
                # does.
                return {"N": choice(["50", *(str(START + self._elapsed + wait) for wait in (20, 350, 9999))])}
            case "m":
                return {"M": {key: self._plain() for key in ("k", "n") if self._maybe(0.7)}}
        return self._plain()

    def _plain(self) -> Tagged:
        """Draw a value of any type."""
        choice = self.random.choice
        return choice(
            [
                {"S": ""},
                {"S": "x"},
                {"S": "x" * choice([100, 1000, 1100, 4100])},
                {"S": "é\U0001f600"},
                {"N": choice(["0", "1", "-1", "3.25", "1200", "-0.001", "9" * 20])},
                {"B": choice([b"", b"b", b"\xff\x00"])},
                {"BOOL": self._maybe(0.5)},
                {"NULL": True},
                {"SS": choice([["x"], ["x", "y"], ["y", "z"]])},
                {"NS": choice([["1"], ["1", "2.5"], ["2.5", "-3"]])},
                {"BS": [b"b"]},
                {"L": choice([[], [{"N": "1"}], [{"N": "1"}, {"S": "x"}, {"BOOL": True}]])},
                {"M": choice([{}, {"k": {"N": "1"}}, {"k": {"S": "x"}, "n": {"L": []}}])},
            ]
        )

    # --- single items ---------------------------------------------------------------------------------------

    def _put_item(self) -> dict[str, Any]:
        table = self._table()
        request = (
            {"TableName": table, "Item": self._item(table)} | self._draw_capacity() | self._conditional()
        )
        return request | ({"ReturnValues": "ALL_OLD"} if self._maybe(0.5) else {})

    def _delete_item(self) -> dict[str, Any]:
        table = self._table()
        request = (
            {"TableName": table, "Key": self._request_key(table)}
            | self._draw_capacity()
            | self._conditional()
        )
        return request | ({"ReturnValues": "ALL_OLD"} if self._maybe(0.5) else {})

    def _update_item(self) -> dict[str, Any]:
        table = self._table()
        request = (
            {"TableName": table, "Key": self._request_key(table)}
            | self._draw_capacity()
            | self._conditional()
        )
        if self._maybe(0.95):
            request["Update"] = self._update()
        returns = ["NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"]
        return request | {"ReturnValues": self.random.choice(returns)}

    def _get_item(self) -> dict[str, Any]:
        table = self._table()
        request = (
            {"TableName": table, "Key": self._request_key(table)} | self._draw_capacity() | self._projection()
        )
        return request | ({"ConsistentRead": True} if self._maybe(0.3) else {})

    def _projection(self, names: tuple[str, ...] = ("pk", "a", "b", "m", "g", "e")) -> dict[str, Any]:
        """Draw a projection over these attributes, or none."""
        if self._maybe(0.6):
            return {}
        paths: list[Path] = [(name,) for name in self.random.sample(names, self.random.randint(1, 2))]
        if ("m",) in paths and self._maybe(0.5):
            paths[paths.index(("m",))] = ("m", "k")
        return {"Projection": paths}

    # --- conditions and updates -----------------------------------------------------------------------------

    def _conditional(self) -> dict[str, Any]:
        """Draw the condition members of a write, often none."""
        if self._maybe(0.6):
            return {}
        on_failure = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"} if self._maybe(0.4) else {}
        return {"Condition": self._condition(("pk", "a", "b", "m", "g", "h", "e"))} | on_failure

    def _condition(self, names: tuple[str, ...], depth: int = 2) -> Condition:
        """Draw a condition on these attributes, nested at most `depth` deep."""
        choice = self.random.choice
        if depth and self._maybe(0.3):
            kind = choice(["and", "or", "not"])
            parts = [self._condition(names, depth - 1) for _ in range(1 if kind == "not" else 2)]
            return (kind, *parts)
        path: Path = (choice(names),)
        if path == ("m",) and self._maybe(0.7):
            path = ("m", "k")
        ordered = choice([{"S": "x"}, {"N": "1"}, {"N": "-1.5"}, {"B": b"b"}])
        return choice(
            [
                ("attribute_exists", path),
                ("attribute_not_exists", path),
                ("=", path, self._plain()),
                ("<>", path, self._plain()),
                ("<", path, ordered),
                (">=", path, ordered),
                ("between", path, {"N": "-2"}, {"N": "100"}),
                ("in", path, self._plain(), self._plain()),
                ("begins_with", path, {"S": choice(["", "x"])}),
                ("contains", path, choice([{"S": "x"}, {"N": "1"}, {"BOOL": True}])),
                ("attribute_type", path, {"S": choice(["S", "N", "M", "SS", "L", "BOOL"])}),
                ("size", path, {"N": choice(["0", "1", "1000"])}),
            ]
        )

    def _update(self, *, safe: bool = False) -> Update:
        """Make an update; a safe one cannot fail, whatever the item holds."""
        known = ["a", "b", "m", "g", "h", "k", "l", "o"] + ([] if safe else ["e"])
        names = self.random.sample(known, self.random.randint(1, 3))
        update = [self._safe_action(name) if safe else self._action(name) for name in names]
        if not safe and self._maybe(0.01):
            update.append(("set", ("pk",), {"S": "p"}))
        return update

    def _safe_action(self, name: str) -> tuple[Any, ...]:
        """Draw an update action on the attribute that cannot fail."""
        kind = self.random.choice(["set", "set", "remove", "if_not_exists"])
        path: Path = (name,)
        if kind == "if_not_exists" and name == "o":
            kind = "set"  # the current value may have a type that the index rejects
        return ("remove", path) if kind == "remove" else (kind, path, self._value_of(name, valid=True))

    def _action(self, name: str) -> tuple[Any, ...]:
        """Draw an update action on the attribute; it may fail on some items."""
        path: Path = (name,)
        if name in ("h", "k", "a") and self._maybe(0.5):
            kind = self.random.choice(["plus", "add"])
            return (kind, path, {"N": self.random.choice(["1", "-2.5", "10"])})
        if name == "b" and self._maybe(0.5):
            kind, value = self.random.choice(
                [
                    ("add", {"SS": ["x", "w"]}),
                    ("delete", {"SS": ["x"]}),
                    ("delete", {"NS": ["1"]}),
                    ("append", {"L": [{"N": "2"}]}),
                ]
            )
            return (kind, path, value)
        if name == "m" and self._maybe(0.7):
            nested: Path = ("m", self.random.choice(["k", "n"]))
            kind = self.random.choice(["set", "remove", "if_not_exists"])
            return ("remove", nested) if kind == "remove" else (kind, nested, self._plain())
        if name == "b" and self._maybe(0.3):
            return ("set", ("b", 0), self._plain())
        kind = self.random.choice(["set", "set", "remove", "if_not_exists"])
        return ("remove", path) if kind == "remove" else (kind, path, self._value_of(name))

    # --- many items -----------------------------------------------------------------------------------------

    def _batch_write(self) -> dict[str, Any]:
        writes: dict[str, Any] = {}
        for table, key in self._distinct_keys(5, twice=0.03):
            if self._maybe(0.4):
                write = {"DeleteRequest": {"Key": key}}
            else:
                write = {"PutRequest": {"Item": self._item(table, valid=True) | key}}
            writes.setdefault(table, []).append(write)
        return {"RequestItems": writes} | self._draw_capacity()

    def _batch_get(self) -> dict[str, Any]:
        wanted: dict[str, Any] = {}
        for table, key in self._distinct_keys(6, twice=0.03):
            if table not in wanted:
                wanted[table] = {"Keys": []} | self._projection()
                wanted[table] |= {"ConsistentRead": True} if self._maybe(0.3) else {}
            wanted[table]["Keys"].append(key)
        return {"RequestItems": wanted} | self._draw_capacity()

    def _transact_get(self) -> dict[str, Any]:
        gets = [
            {"Get": {"TableName": table, "Key": key} | self._projection()}
            for table, key in self._distinct_keys(4, twice=0.03)
        ]
        return {"TransactItems": gets} | self._draw_capacity()

    def _transact_write(self) -> dict[str, Any]:
        """Make a transaction; sometimes repeat an earlier token, with the same request or another."""
        if self._transactions and self._maybe(0.3):
            return copy.deepcopy(self.random.choice(self._transactions))
        actions = [self._transact_action(table, key) for table, key in self._distinct_keys(4, twice=0.03)]
        request = {"TransactItems": actions} | self._draw_capacity()
        if self._maybe(0.5):
            request["ClientRequestToken"] = self.random.choice(["token-1", "token-2", "token-3"])
            self._transactions.append(copy.deepcopy(request))
        return request

    def _transact_action(self, table: str, key: Item) -> dict[str, Any]:
        kind = self.random.choice(["Put", "Update", "Delete", "ConditionCheck"])
        action: dict[str, Any] = {"TableName": table} | (self._conditional() if self._maybe(0.5) else {})
        if kind == "Put":
            item = self._item(table, valid=True) | key
            item.pop("e", None)  # the same transaction may be repeated after the token expires
            return {kind: action | {"Item": item}}
        if kind == "Update":
            action["Update"] = self._update(safe=True)
        if kind == "ConditionCheck":
            action.setdefault("Condition", self._condition(("pk", "a")))
        return {kind: action | {"Key": key}}

    def _distinct_keys(self, most: int, *, twice: float) -> list[tuple[str, Item]]:
        """Draw keys of different items, with a few duplicates on purpose."""
        chosen: dict[str, tuple[str, Item]] = {}
        for _ in range(self.random.randint(1, most)):
            table = self._table()
            key = self._key(table)
            chosen[repr((table, key))] = (table, key)
        keys = list(chosen.values())
        return [*keys, keys[0]] if self._maybe(twice) else keys

    # --- pages ----------------------------------------------------------------------------------------------

    def _query(self) -> dict[str, Any]:
        table = self._table()
        request: dict[str, Any] = {"TableName": table}
        choice = self.random.choice
        if table == SINGLES:
            if self._maybe(0.5):
                tests = [("=", "pk", self._key(table)["pk"])]
            else:
                request["IndexName"], tests = "by_g", [("=", "g", self._value_of("g", valid=True))]
        else:
            index, partition, sort = choice(
                [
                    (None, "pk", "sk"),
                    (None, "pk", "sk"),
                    ("by_g", "g", "h"),
                    ("by_k", "k", None),
                    ("by_l", "pk", "l"),
                    (ONLINE, "o", "l"),
                ]
            )
            request |= {"IndexName": index} if index else {}
            tests = [("=", partition, self._draw_value(partition))]
            if sort and self._maybe(0.5):
                tests.append(self._sort_test(sort))
        request |= {"KeyCondition": tests, "ScanIndexForward": self._maybe(0.5)} | self._draw_capacity()
        return request | self._draw_paging(request)

    def _draw_value(self, name: str) -> Tagged:
        return self._key(ORDERS)[name] if name in ("pk", "sk") else self._value_of(name, valid=True)

    def _sort_test(self, name: str) -> tuple[Any, ...]:
        """Draw a test of a sort key."""
        kind = self.random.choice(["=", "<", "<=", ">", ">=", "between", "begins_with"])
        if kind == "begins_with" and name in ("sk", "h"):
            kind = ">="
        if kind != "between":
            return (kind, name, self._draw_value(name))
        low, high = sorted([self._draw_value(name), self._draw_value(name)], key=make_sort_key)
        return (kind, name, low, high)

    def _scan(self) -> dict[str, Any]:
        table = self._table()
        request: dict[str, Any] = {"TableName": table} | self._draw_capacity()
        if self._maybe(0.4):
            names = ["by_g"] if table == SINGLES else ["by_g", "by_k", "by_l", ONLINE]
            request["IndexName"] = self.random.choice(names)
        if self._maybe(0.4):
            request["TotalSegments"] = self.random.choice([1, 2, 5])
        return request | self._draw_paging(request)

    def _draw_paging(self, request: dict[str, Any]) -> dict[str, Any]:
        """Draw a limit, consistency, a filter, and a count or a projection that the index can serve."""
        more: dict[str, Any] = {}
        index = request.get("IndexName")
        if self._maybe(0.6):
            more["Limit"] = self.random.choice([1, 2, 3, 7])
        if index in (None, "by_l") and self._maybe(0.3):
            more["ConsistentRead"] = True
        held = _list_held_attributes(request["TableName"], index)
        if held and self._maybe(0.4):
            more["Filter"] = self._condition(held)
        if self._maybe(0.15):
            more["Select"] = "COUNT"
        elif held and self._maybe(0.2):
            more["Projection"] = [(self.random.choice(held),)]
        return more


def _list_held_attributes(table: str, index: str | None) -> tuple[str, ...]:
    """List the attributes that are not keys and that the index, if given, holds."""
    if index is None:
        return ("a", "b", "m", "e")
    if table == SINGLES:
        return ("a",)
    return {"by_g": ("a", "b", "m", "e"), "by_k": (), "by_l": ("a", "m"), ONLINE: ("b",)}[index]


# --- rendering ----------------------------------------------------------------------------------------------


def render(operation: str, request: dict[str, Any]) -> dict[str, Any]:
    """Render the request with its conditions, updates and projections as expressions."""
    if operation.startswith("Transact"):
        entries = [
            {kind: _render_expressions(action) for kind, action in entry.items()}
            for entry in request["TransactItems"]
        ]
        return request | {"TransactItems": entries}
    if operation == "BatchGetItem":
        wanted = {table: _render_expressions(keys) for table, keys in request["RequestItems"].items()}
        return request | {"RequestItems": wanted}
    return _render_expressions(request)


def _render_expressions(request: dict[str, Any]) -> dict[str, Any]:
    """Replace the members that are data by their expressions and the placeholders."""
    given = Placeholders()
    plain = {name: value for name, value in request.items() if name not in _EXPRESSIONS}
    for member, (parameter, write) in _EXPRESSIONS.items():
        if member in request:
            plain[parameter] = write(request[member], given)
    return plain | given.to_members()


def _render_key_condition(tests: list[tuple[Any, ...]], given: Placeholders) -> str:
    return " AND ".join(render_condition((kind, (name,), *values), given) for kind, name, *values in tests)


def _render_projection(paths: list[Path], given: Placeholders) -> str:
    return ", ".join(map(given.add_path, paths))


_EXPRESSIONS: dict[str, tuple[str, Callable[[Any, Placeholders], str]]] = {
    "Condition": ("ConditionExpression", render_condition),
    "Update": ("UpdateExpression", render_update),
    "Filter": ("FilterExpression", render_condition),
    "Projection": ("ProjectionExpression", _render_projection),
    "KeyCondition": ("KeyConditionExpression", _render_key_condition),
}
