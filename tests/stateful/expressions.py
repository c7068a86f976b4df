"""Conditions and updates as data: rendered as DynamoDB expressions, and evaluated for the model.

`render_condition` and `render_update` write them in DynamoDB's language for the engine; `holds` and
`apply_update` evaluate them for the model. A path is a tuple: an attribute, then names into maps or positions
in lists.
"""

from __future__ import annotations

import copy
from typing import Any, TypeAlias

from .values import Item, Tagged, add, are_equal, get_tag, make_sort_key

Path: TypeAlias = tuple[Any, ...]
Condition: TypeAlias = tuple[Any, ...]
Update: TypeAlias = list[tuple[Any, ...]]

NO_SUCH_ATTRIBUTE = "The provided expression refers to an attribute that does not exist in the item"
WRONG_TYPE = "An operand in the update expression has an incorrect data type"
WRONG_PATH = "The document path provided in the update expression is invalid for update"

_ORDERED = {"S", "N", "B"}


class Invalid(Exception):
    """A request that the service refuses with a ValidationException; of several reasons it may name any."""

    def __init__(self, *messages: str) -> None:
        super().__init__(*messages)
        self.messages = frozenset(messages)


class Placeholders:
    """Names and values collected while a request is rendered, under `#n0`, `:v0` and so on."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, Tagged] = {}

    def add_path(self, path: Path) -> str:
        """Return the path as expression text, and collect its names."""
        text = ""
        for element in path:
            if isinstance(element, int):
                text += f"[{element}]"
                continue
            known = next((key for key, name in self.names.items() if name == element), None)
            key = known or f"#n{len(self.names)}"
            self.names[key] = element
            text += ("." if text else "") + key
        return text

    def add_value(self, value: Tagged) -> str:
        """Collect the value and return its placeholder."""
        key = f":v{len(self.values)}"
        self.values[key] = value
        return key

    def to_members(self) -> dict[str, Any]:
        """Return the request members with the collected names and values."""
        return ({"ExpressionAttributeNames": self.names} if self.names else {}) | (
            {"ExpressionAttributeValues": self.values} if self.values else {}
        )


# --- conditions ---------------------------------------------------------------------------------------------


def render_condition(condition: Condition, given: Placeholders) -> str:
    """Return the condition as expression text, with its names and values collected in `given`."""
    kind, *rest = condition
    if kind in ("and", "or"):
        return f"({render_condition(rest[0], given)} {kind.upper()} {render_condition(rest[1], given)})"
    if kind == "not":
        return f"(NOT {render_condition(rest[0], given)})"
    path = given.add_path(rest[0])
    values = [given.add_value(value) for value in rest[1:]]
    if kind in ("attribute_exists", "attribute_not_exists"):
        return f"{kind}({path})"
    if kind == "between":
        return f"{path} BETWEEN {values[0]} AND {values[1]}"
    if kind == "in":
        return f"{path} IN ({', '.join(values)})"
    if kind == "size":
        return f"size({path}) > {values[0]}"
    if kind in ("begins_with", "contains", "attribute_type"):
        return f"{kind}({path}, {values[0]})"
    return f"{path} {kind} {values[0]}"


def holds(condition: Condition, item: Item) -> bool:
    """Return True if the item meets the condition, by DynamoDB's rules for missing attributes and other
    types.
    """
    kind, *rest = condition
    if kind == "and":
        return holds(rest[0], item) and holds(rest[1], item)
    if kind == "or":
        return holds(rest[0], item) or holds(rest[1], item)
    if kind == "not":
        return not holds(rest[0], item)
    value = get_value(item, rest[0])
    if kind == "attribute_exists":
        return value is not None
    if kind == "attribute_not_exists":
        return value is None
    if value is None:
        return bool(kind == "<>")
    return _compare(kind, value, rest[1:])


def _compare(kind: str, value: Tagged, others: list[Tagged]) -> bool:
    """Evaluate one comparison or function of a condition on an existing value."""
    match kind:
        case "=":
            return are_equal(value, others[0])
        case "<>":
            return not are_equal(value, others[0])
        case "<":
            return _is_ordered(value, others[0]) and not are_equal(value, others[0])
        case ">=":
            return _is_ordered(others[0], value)
        case "between":
            return _is_ordered(others[0], value) and _is_ordered(value, others[1])
        case "in":
            return any(are_equal(value, other) for other in others)
        case "begins_with":
            return "S" in value and bool(value["S"].startswith(others[0]["S"]))
        case "attribute_type":
            return bool(get_tag(value) == others[0]["S"])
        case "contains":
            return _contains(value, others[0])
        case "size":
            size = _get_size(value)
            return size is not None and size > int(others[0]["N"])
    raise AssertionError(kind)


def _is_ordered(low: Tagged, high: Tagged) -> bool:
    """Return True if both values have one type with an order and `low` is at most `high`."""
    same_type = get_tag(low) == get_tag(high) and get_tag(low) in _ORDERED
    return same_type and bool(make_sort_key(low) <= make_sort_key(high))


def _contains(value: Tagged, wanted: Tagged) -> bool:
    """Return True if a text, binary, set or list contains the wanted value, by DynamoDB's rules."""
    tag, plain = next(iter(value.items()))
    if tag in ("S", "B"):
        return get_tag(wanted) == tag and wanted[tag] in plain
    if tag in ("SS", "NS", "BS"):
        return get_tag(wanted) == tag[0] and wanted[tag[0]] in plain
    return tag == "L" and any(are_equal(each, wanted) for each in plain)


def _get_size(value: Tagged) -> int | None:
    """Return DynamoDB's `size` of a value; None for a number, a boolean or null, which have none."""
    tag, plain = next(iter(value.items()))
    return None if tag in ("N", "BOOL", "NULL") else len(plain)


def get_value(item: Item, path: Path) -> Tagged | None:
    """Return the value at the path, or None if there is none."""
    value: Any = item.get(path[0])
    for element in path[1:]:
        if value is None:
            return None
        if isinstance(element, int):
            elements = value.get("L", [])
            value = elements[element] if element < len(elements) else None
        else:
            value = value.get("M", {}).get(element)
    return value  # type: ignore[no-any-return]


# --- updates ------------------------------------------------------------------------------------------------


def render_update(update: Update, given: Placeholders) -> str:
    """Return the update as expression text, with its names and values collected in `given`."""
    clauses: dict[str, list[str]] = {}
    for kind, path, *values in update:
        target = given.add_path(path)
        operands = [given.add_value(value) for value in values]
        clause, text = _render_action(kind, target, operands)
        clauses.setdefault(clause, []).append(text)
    return " ".join(f"{clause} {', '.join(texts)}" for clause, texts in clauses.items())


def _render_action(kind: str, target: str, operands: list[str]) -> tuple[str, str]:
    """Return the clause of an action, such as SET, and its text."""
    match kind:
        case "set":
            return "SET", f"{target} = {operands[0]}"
        case "plus":
            return "SET", f"{target} = {target} + {operands[0]}"
        case "if_not_exists":
            return "SET", f"{target} = if_not_exists({target}, {operands[0]})"
        case "append":
            return "SET", f"{target} = list_append({target}, {operands[0]})"
        case "remove":
            return "REMOVE", target
    return kind.upper(), f"{target} {operands[0]}"


def apply_update(update: Update, item: Item) -> Item:
    """Return the item after the update; every operand is read from the original item.

    Raise `Invalid` with every reason why the service may refuse it.
    """
    after: Item = copy.deepcopy(item)
    refusals: set[str] = set()
    for kind, path, *values in update:
        try:
            _set_at_path(after, path, _compute_result(kind, get_value(item, path), values))
        except Invalid as refused:
            refusals |= refused.messages
    if refusals:
        raise Invalid(*refusals)
    return after


def _compute_result(kind: str, value: Tagged | None, operands: list[Tagged]) -> Tagged | None:
    """Return the value that one action gives its attribute; None removes it. Raise `Invalid`."""
    match kind:
        case "set":
            return operands[0]
        case "remove":
            return None
        case "if_not_exists":
            return operands[0] if value is None else value
        case "plus":
            if value is None:
                raise Invalid(NO_SUCH_ATTRIBUTE)
            return _sum(value, operands[0])
        case "append":
            if value is None:
                raise Invalid(NO_SUCH_ATTRIBUTE)
            if "L" not in value:
                raise Invalid(WRONG_TYPE)
            return {"L": value["L"] + operands[0]["L"]}
        case "add":
            return operands[0] if value is None else _add_to_set(value, operands[0])
        case "delete":
            return None if value is None else _remove_from_set(value, operands[0])
    raise AssertionError(kind)


def _sum(value: Tagged, other: Tagged) -> Tagged:
    """Return the sum of two numbers. Raise `Invalid` for any other type."""
    if "N" not in value or "N" not in other:
        raise Invalid(WRONG_TYPE)
    return {"N": add(value["N"], other["N"])}


def _add_to_set(value: Tagged, other: Tagged) -> Tagged:
    """Return the value of ADD: the sum of two numbers, or the union of two sets."""
    if get_tag(value) != get_tag(other):
        raise Invalid(WRONG_TYPE)
    tag = get_tag(value)
    return _sum(value, other) if tag == "N" else {tag: sorted({*value[tag], *other[tag]})}


def _remove_from_set(value: Tagged, other: Tagged) -> Tagged | None:
    """Return the set without the other's elements; None if it becomes empty. Raise `Invalid` for another
    type.
    """
    if get_tag(value) != get_tag(other):
        raise Invalid(WRONG_TYPE)
    tag = get_tag(value)
    left = sorted({*value[tag]} - {*other[tag]})
    return {tag: left} if left else None


def _set_at_path(item: Item, path: Path, result: Tagged | None) -> None:
    """Set the value at the path, or remove it if `result` is None. Raise `Invalid` for an invalid path."""
    holder: Any = item
    for at, element in enumerate(path[:-1]):
        inner = holder.get(element) if isinstance(holder, dict) else None
        wanted = "L" if isinstance(path[at + 1], int) else "M"
        if inner is None or wanted not in inner:
            raise Invalid(WRONG_PATH)
        holder = inner[wanted]
    last = path[-1]
    if isinstance(holder, list):
        holder[last : last + 1] = [] if result is None else [result]
    elif result is None:
        holder.pop(last, None)
    else:
        holder[last] = result


def project(paths: list[Path], item: Item) -> Item:
    """Return the part of an item that paths of at most two elements select."""
    part: Any = {}
    for path in paths:
        value = get_value(item, path)
        if value is None:
            continue
        if len(path) == 1:
            part[path[0]] = value
        elif isinstance(path[1], int):
            part.setdefault(path[0], {"L": []})["L"].append(value)
        else:
            part.setdefault(path[0], {"M": {}})["M"][path[1]] = value
    return part  # type: ignore[no-any-return]
