"""Evaluate FHIR's invariants: FHIRPath trees of the tables, compiled to functions.

A collection is a list of JSON values. JSON has no types, so `is` and `as` look at the name of a choice
element (`valueQuantity`), at `resourceType`, or else at the kind of the JSON value. Functions that need more
than the resource (`memberOf`, `conformsTo`) return the empty collection, and an invariant fails only if it
is certainly false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from pagw.domain.profiles import fhirpath_functions as functions
from pagw.domain.profiles.fhirpath_functions import Items, compare, get_truth, is_equal

Tree = list[Any]
Function = Callable[[Items, "Scope"], Items]

_NOTHING: Final[Items] = []
_YES: Final[Items] = [True]
_NO: Final[Items] = [False]
_CONSTANTS: Final = {
    "ucum": "http://unitsofmeasure.org",
    "sct": "http://snomed.info/sct",
    "loinc": "http://loinc.org",
}


@dataclass(frozen=True, slots=True)
class Scope:
    """The resource that `%resource` names, and the function that finds the target of a Reference."""

    resource: Any
    resolve: Callable[[Any], Any]


def is_violated(function: Function, focus: Any, scope: Scope) -> bool:
    """Return whether an invariant is false for an element. A value of an unexpected type violates nothing."""
    try:
        result = function([focus], scope)
    except (TypeError, ValueError, AttributeError, KeyError, IndexError, OverflowError, RecursionError):
        return False
    return len(result) == 1 and result[0] is False


def find_first(function: Function, focus: Any, scope: Scope) -> Items:
    """Return the collection at a path; empty if the value has another shape."""
    try:
        return function([focus], scope)
    except (TypeError, ValueError, AttributeError, KeyError, IndexError):
        return []


def compile_tree(tree: Tree) -> Function:
    """Compile a syntax tree to a function of the focus."""
    kind = tree[0]
    if kind in _OPERATORS:
        return _compile_operator(kind, compile_tree(tree[1]), compile_tree(tree[2]))
    if kind in {"is", "as"}:
        return _compile_type(kind, tree[1], tree[2])
    return _COMPILERS[kind](tree)


# --- nodes --------------------------------------------------------------------------------------------------


def _compile_literal(tree: Tree) -> Function:
    value = [tree[1]]
    return lambda focus, scope: value


def _compile_get(tree: Tree) -> Function:
    name = tree[2]
    find = get_choices if tree[0] == "choice" else get_members
    if tree[1] == ["this"]:
        return lambda focus, scope: find(focus, name)
    base = compile_tree(tree[1])
    return lambda focus, scope: find(base(focus, scope), name)


def _compile_root(tree: Tree) -> Function:
    """Compile a first name with a capital: the focus if it is of this type, else a member."""
    name = tree[2]

    def evaluate(focus: Items, scope: Scope) -> Items:
        own = [each for each in focus if isinstance(each, dict) and each.get("resourceType") == name]
        return own or get_members(focus, name)

    return evaluate


def _compile_variable(tree: Tree) -> Function:
    name = tree[1]
    if name in {"resource", "rootResource", "context"}:
        return lambda focus, scope: [scope.resource]
    value = [_CONSTANTS[name]] if name in _CONSTANTS else []
    return lambda focus, scope: value


def _compile_index(tree: Tree) -> Function:
    base, index = compile_tree(tree[1]), compile_tree(tree[2])

    def evaluate(focus: Items, scope: Scope) -> Items:
        items, at = base(focus, scope), index(focus, scope)
        return [items[at[0]]] if at and 0 <= at[0] < len(items) else []

    return evaluate


def get_members(items: Items, name: str) -> Items:
    """Return the elements of this name."""
    found: Items = []
    for item in items:
        value = item.get(name) if isinstance(item, dict) else None
        if isinstance(value, list):
            found += [each for each in value if each is not None]
        elif value is not None:
            found.append(value)
    return found


def get_choices(items: Items, name: str) -> Items:
    """Return the elements of this name, and those of a choice with this name, such as `valueString`."""
    length = len(name)
    found = get_members(items, name)
    for item in items:
        for key in item if isinstance(item, dict) else ():
            if key.startswith(name) and key[length : length + 1].isupper():
                found += get_members([item], key)
    return found


# --- types --------------------------------------------------------------------------------------------------


def _compile_type(kind: str, base: Tree, type: str) -> Function:
    type = type[0].lower() + type[1:] if type in {"Boolean", "String", "Integer", "Decimal"} else type
    if base[0] in {"get", "choice"}:
        find = _compile_choice(base, type)
    else:
        inner = compile_tree(base)

        def find(focus: Items, scope: Scope) -> Items:
            return [each for each in inner(focus, scope) if _is_of_type(each, type)]

    if kind == "as":
        return find
    every = compile_tree(base)

    def test(focus: Items, scope: Scope) -> Items:
        return [bool(find(focus, scope))] if every(focus, scope) else []

    return test


def _compile_choice(base: Tree, type: str) -> Function:
    """Compile `base.name as Type`: the element `nameType`, or members of this type."""
    owner, name = compile_tree(base[1]), base[2]
    key = name + type[0].upper() + type[1:]

    def find(focus: Items, scope: Scope) -> Items:
        owners = owner(focus, scope)
        chosen = [each[key] for each in owners if isinstance(each, dict) and key in each]
        if chosen:
            return chosen
        plain = [each[name] for each in owners if isinstance(each, dict) and name in each]
        flat = [one for each in plain for one in (each if isinstance(each, list) else [each])]
        return [each for each in flat if _is_of_type(each, type)]

    return find


def _is_of_type(value: Any, type: str) -> bool:
    if isinstance(value, dict):
        return bool(value.get("resourceType", type) == type) and type[0].isupper()
    if isinstance(value, bool):
        return type == "boolean"
    if isinstance(value, int | float):
        return type in {"integer", "decimal", "positiveInt", "unsignedInt"}
    return type[0].islower() and type not in {"boolean", "integer", "decimal", "positiveInt", "unsignedInt"}


# --- calls --------------------------------------------------------------------------------------------------


def _compile_call(tree: Tree) -> Function:
    base, name = compile_tree(tree[1]), tree[2]
    arguments = [compile_tree(each) for each in tree[3:]]
    if name in _WITH_CRITERIA:
        return _WITH_CRITERIA[name](base, arguments)
    if name == "resolve":
        return lambda focus, scope: [
            found for each in base(focus, scope) if (found := scope.resolve(each)) is not None
        ]
    if name in {"memberOf", "conformsTo"}:
        return lambda focus, scope: _NOTHING
    if name == "empty":
        return lambda focus, scope: _NO if base(focus, scope) else _YES
    plain = functions.FUNCTIONS[name]
    if not arguments:
        return lambda focus, scope: plain(base(focus, scope))

    def call(focus: Items, scope: Scope) -> Items:
        return plain(base(focus, scope), *(each(focus, scope) for each in arguments))

    return call


def _select_where(base: Function, criteria: Function, focus: Items, scope: Scope) -> Iterator[Any]:
    for each in base(focus, scope):
        if get_truth(criteria([each], scope)):
            yield each


def _compile_where(base: Function, arguments: list[Function]) -> Function:
    return lambda focus, scope: list(_select_where(base, arguments[0], focus, scope))


def _compile_exists(base: Function, arguments: list[Function]) -> Function:
    if not arguments:
        return lambda focus, scope: _YES if base(focus, scope) else _NO
    return lambda focus, scope: [any(True for _ in _select_where(base, arguments[0], focus, scope))]


def _compile_all(base: Function, arguments: list[Function]) -> Function:
    # An empty result is not certainly false.
    return lambda focus, scope: [
        all(get_truth(arguments[0]([each], scope)) is not False for each in base(focus, scope))
    ]


def _compile_select(base: Function, arguments: list[Function]) -> Function:
    return lambda focus, scope: [one for each in base(focus, scope) for one in arguments[0]([each], scope)]


def _compile_iif(base: Function, arguments: list[Function]) -> Function:
    condition, then, *otherwise = arguments

    def evaluate(focus: Items, scope: Scope) -> Items:
        items = base(focus, scope)
        if get_truth(condition(items, scope)):
            return then(items, scope)
        return otherwise[0](items, scope) if otherwise else []

    return evaluate


# --- operators ----------------------------------------------------------------------------------------------


def _compile_operator(kind: str, left: Function, right: Function) -> Function:
    operate = _OPERATORS[kind]
    return lambda focus, scope: operate(left(focus, scope), right(focus, scope))


def _or(left: Items, right: Items) -> Items:
    one, other = get_truth(left), get_truth(right)
    return _YES if one or other else (_NOTHING if one is None or other is None else _NO)


def _and(left: Items, right: Items) -> Items:
    one, other = get_truth(left), get_truth(right)
    if one is False or other is False:
        return [False]
    return [] if one is None or other is None else [True]


def _xor(left: Items, right: Items) -> Items:
    one, other = get_truth(left), get_truth(right)
    return [] if one is None or other is None else [one != other]


def _implies(left: Items, right: Items) -> Items:
    one = get_truth(left)
    if one is False:
        return [True]
    other = get_truth(right)
    return [True] if other else ([] if one is None or other is None else [False])


def _equals(left: Items, right: Items) -> Items:
    if not left or not right:
        return []
    return [len(left) == len(right) and all(map(is_equal, left, right))]


def _differs(left: Items, right: Items) -> Items:
    equal = _equals(left, right)
    return [not equal[0]] if equal else []


def _compare(left: Items, right: Items, test: Callable[[int], bool]) -> Items:
    if len(left) != 1 or len(right) != 1:
        return []
    order = compare(left[0], right[0])
    return [] if order is None else [test(order)]


def _contains(left: Items, right: Items) -> Items:
    return [any(is_equal(each, right[0]) for each in left)] if right else []


def _add(left: Items, right: Items) -> Items:
    return [left[0] + right[0]] if left and right else []


def _join(left: Items, right: Items) -> Items:
    return [f"{left[0] if left else ''}{right[0] if right else ''}"]


_OPERATORS: Final[dict[str, Callable[[Items, Items], Items]]] = {
    "or": _or,
    "and": _and,
    "xor": _xor,
    "implies": _implies,
    "=": _equals,
    "~": _equals,
    "!=": _differs,
    "!~": _differs,
    "<": lambda left, right: _compare(left, right, lambda order: order < 0),
    ">": lambda left, right: _compare(left, right, lambda order: order > 0),
    "<=": lambda left, right: _compare(left, right, lambda order: order <= 0),
    ">=": lambda left, right: _compare(left, right, lambda order: order >= 0),
    "in": lambda left, right: _contains(right, left),
    "contains": _contains,
    "|": lambda left, right: functions.get_distinct([*left, *right]),
    "+": _add,
    "-": lambda left, right: [left[0] - right[0]] if left and right else [],
    "*": lambda left, right: [left[0] * right[0]] if left and right else [],
    "mod": lambda left, right: [left[0] % right[0]] if left and right else [],
    "div": lambda left, right: [left[0] // right[0]] if left and right else [],
    "&": _join,
}
_COMPILERS: Final[dict[str, Callable[[Tree], Function]]] = {
    "this": lambda tree: lambda focus, scope: focus,
    "empty": lambda tree: lambda focus, scope: _NOTHING,
    "lit": _compile_literal,
    "get": _compile_get,
    "choice": _compile_get,
    "root": _compile_root,
    "var": _compile_variable,
    "index": _compile_index,
    "call": _compile_call,
}
_WITH_CRITERIA: Final[dict[str, Callable[[Function, list[Function]], Function]]] = {
    "where": _compile_where,
    "exists": _compile_exists,
    "all": _compile_all,
    "select": _compile_select,
    "iif": _compile_iif,
}
