"""A small family of conditions and updates, as data.

`condition_text` and `update_text` write them in DynamoDB's language for the engine; `holds` and `updated` say
what they mean, for the model. A path is a tuple: an attribute, then names into maps or positions in lists.
"""

from __future__ import annotations

import copy
from typing import Any, TypeAlias

from .values import Item, Tagged, added, are_equal, sort_key, tag_of

Path: TypeAlias = tuple[Any, ...]
Condition: TypeAlias = tuple[Any, ...]
Update: TypeAlias = list[tuple[Any, ...]]

NO_SUCH_ATTRIBUTE = "The provided expression refers to an attribute that does not exist in the item"
WRONG_TYPE = "An operand in the update expression has an incorrect data type"
WRONG_PATH = "The document path provided in the update expression is invalid for update"

_ORDERED = {"S", "N", "B"}


class Invalid(Exception):
    """What the service refuses with a ValidationException; of several reasons it may name any."""

    def __init__(self, *messages: str) -> None:
        super().__init__(*messages)
        self.messages = frozenset(messages)


class Placeholders:
    """Names and values met while a request is written, under `#n0`, `:v0` and so on."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, Tagged] = {}

    def path(self, path: Path) -> str:
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

    def value(self, value: Tagged) -> str:
        key = f":v{len(self.values)}"
        self.values[key] = value
        return key

    def members(self) -> dict[str, Any]:
        return ({"ExpressionAttributeNames": self.names} if self.names else {}) | (
            {"ExpressionAttributeValues": self.values} if self.values else {}
        )


# --- conditions ---------------------------------------------------------------------------------------------


def condition_text(condition: Condition, given: Placeholders) -> str:
    kind, *rest = condition
    if kind in ("and", "or"):
        return f"({condition_text(rest[0], given)} {kind.upper()} {condition_text(rest[1], given)})"
    if kind == "not":
        return f"(NOT {condition_text(rest[0], given)})"
    path = given.path(rest[0])
    values = [given.value(value) for value in rest[1:]]
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
    kind, *rest = condition
    if kind == "and":
        return holds(rest[0], item) and holds(rest[1], item)
    if kind == "or":
        return holds(rest[0], item) or holds(rest[1], item)
    if kind == "not":
        return not holds(rest[0], item)
    value = found(item, rest[0])
    if kind == "attribute_exists":
        return value is not None
    if kind == "attribute_not_exists":
        return value is None
    if value is None:
        return bool(kind == "<>")
    return _compared(kind, value, rest[1:])


def _compared(kind: str, value: Tagged, others: list[Tagged]) -> bool:
    match kind:
        case "=":
            return are_equal(value, others[0])
        case "<>":
            return not are_equal(value, others[0])
        case "<":
            return _in_order(value, others[0]) and not are_equal(value, others[0])
        case ">=":
            return _in_order(others[0], value)
        case "between":
            return _in_order(others[0], value) and _in_order(value, others[1])
        case "in":
            return any(are_equal(value, other) for other in others)
        case "begins_with":
            return "S" in value and bool(value["S"].startswith(others[0]["S"]))
        case "attribute_type":
            return bool(tag_of(value) == others[0]["S"])
        case "contains":
            return _contains(value, others[0])
        case "size":
            size = _size(value)
            return size is not None and size > int(others[0]["N"])
    raise AssertionError(kind)


def _in_order(low: Tagged, high: Tagged) -> bool:
    same_type = tag_of(low) == tag_of(high) and tag_of(low) in _ORDERED
    return same_type and bool(sort_key(low) <= sort_key(high))


def _contains(value: Tagged, wanted: Tagged) -> bool:
    tag, plain = next(iter(value.items()))
    if tag in ("S", "B"):
        return tag_of(wanted) == tag and wanted[tag] in plain
    if tag in ("SS", "NS", "BS"):
        return tag_of(wanted) == tag[0] and wanted[tag[0]] in plain
    return tag == "L" and any(are_equal(each, wanted) for each in plain)


def _size(value: Tagged) -> int | None:
    tag, plain = next(iter(value.items()))
    return None if tag in ("N", "BOOL", "NULL") else len(plain)


def found(item: Item, path: Path) -> Tagged | None:
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


def update_text(update: Update, given: Placeholders) -> str:
    clauses: dict[str, list[str]] = {}
    for kind, path, *values in update:
        target = given.path(path)
        operands = [given.value(value) for value in values]
        clause, text = _action_text(kind, target, operands)
        clauses.setdefault(clause, []).append(text)
    return " ".join(f"{clause} {', '.join(texts)}" for clause, texts in clauses.items())


def _action_text(kind: str, target: str, operands: list[str]) -> tuple[str, str]:
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


def updated(update: Update, item: Item) -> Item:
    """The item after the update. Everything is read from the item as it was."""
    after: Item = copy.deepcopy(item)
    refusals: set[str] = set()
    for kind, path, *values in update:
        try:
            _place(after, path, _result(kind, found(item, path), values))
        except Invalid as refused:
            refusals |= refused.messages
    if refusals:
        raise Invalid(*refusals)
    return after


def _result(kind: str, value: Tagged | None, operands: list[Tagged]) -> Tagged | None:
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
            return operands[0] if value is None else _added(value, operands[0])
        case "delete":
            return None if value is None else _taken_away(value, operands[0])
    raise AssertionError(kind)


def _sum(value: Tagged, other: Tagged) -> Tagged:
    if "N" not in value or "N" not in other:
        raise Invalid(WRONG_TYPE)
    return {"N": added(value["N"], other["N"])}


def _added(value: Tagged, other: Tagged) -> Tagged:
    if tag_of(value) != tag_of(other):
        raise Invalid(WRONG_TYPE)
    tag = tag_of(value)
    return _sum(value, other) if tag == "N" else {tag: sorted({*value[tag], *other[tag]})}


def _taken_away(value: Tagged, other: Tagged) -> Tagged | None:
    if tag_of(value) != tag_of(other):
        raise Invalid(WRONG_TYPE)
    tag = tag_of(value)
    left = sorted({*value[tag]} - {*other[tag]})
    return {tag: left} if left else None


def _place(item: Item, path: Path, result: Tagged | None) -> None:
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


def projected(paths: list[Path], item: Item) -> Item:
    """The part of an item that paths of at most two elements lead to."""
    part: Any = {}
    for path in paths:
        value = found(item, path)
        if value is None:
            continue
        if len(path) == 1:
            part[path[0]] = value
        elif isinstance(path[1], int):
            part.setdefault(path[0], {"L": []})["L"].append(value)
        else:
            part.setdefault(path[0], {"M": {}})["M"][path[1]] = value
    return part  # type: ignore[no-any-return]
