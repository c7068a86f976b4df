"""Render nodes as text: the inverse of `parser.py`, for an engine that sends expressions to a service.

All expressions of a request share one `Renderer`, because they share their names and values. Every attribute
name and every value becomes a placeholder, so that no name can be a reserved word and no value needs quoting:

    renderer = Renderer()
    text = renderer.condition(node)            "#n0 = :v0 AND attribute_exists(#n1)"
    renderer.names, renderer.values            {"#n0": "status", …}, {":v0": "open"}

Parsing the text with these names and values returns the same node, with nested ANDs and nested ORs flattened.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from holdfast.core.errors import InvalidRequest
from holdfast.operations.expressions import nodes
from holdfast.operations.expressions.key_conditions import KeyCondition, KeyTest
from holdfast.operations.expressions.nodes import Condition, Path, Projection, Update
from holdfast.operations.values import Value

_CALLS: Final[dict[type, tuple[str, tuple[str, ...]]]] = {
    nodes.Size: ("size", ("operand",)),
    nodes.AttributeExists: ("attribute_exists", ("path",)),
    nodes.AttributeNotExists: ("attribute_not_exists", ("path",)),
    nodes.BeginsWith: ("begins_with", ("operand", "prefix")),
    nodes.Contains: ("contains", ("operand", "element")),
    nodes.IfNotExists: ("if_not_exists", ("path", "operand")),
    nodes.ListAppend: ("list_append", ("left", "right")),
}
_JOINTS: Final[dict[type, str]] = {nodes.And: " AND ", nodes.Or: " OR "}
_SUMS: Final[dict[type, str]] = {nodes.Plus: "+", nodes.Minus: "-"}


class Renderer:
    """Renders the expressions of one request. Each expression adds to `names` and `values`."""

    __slots__ = ("_keys", "names", "values")

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, Value] = {}
        self._keys: dict[str, str] = {}

    def condition(self, node: Condition) -> str:
        match node:
            case nodes.And() | nodes.Or():
                return self._joined(node)
            case nodes.Not():
                return f"NOT {self._grouped(node.condition, (nodes.And, nodes.Or))}"
            case nodes.Compare():
                return f"{self._operand(node.left)} {node.operator} {self._operand(node.right)}"
            case nodes.Between():
                low, high = self._operand(node.low), self._operand(node.high)
                return f"{self._operand(node.operand)} BETWEEN {low} AND {high}"
            case nodes.In():
                choices = ", ".join(map(self._operand, node.choices))
                return f"{self._operand(node.operand)} IN ({choices})"
            case nodes.AttributeType():
                return f"attribute_type({self._operand(node.operand)}, {self._value(node.tag)})"
            case _:
                return self._operand(node)

    def update(self, update: Update) -> str:
        """Render an update. One without actions is an empty text: leave it out of the request."""
        sections = (
            ("SET", [f"{self.path(each.path)} = {self._operand(each.operand)}" for each in update.sets]),
            ("REMOVE", [self.path(each.path) for each in update.removes]),
            ("ADD", [f"{self.path(each.path)} {self._value(each.value)}" for each in update.adds]),
            ("DELETE", [f"{self.path(each.path)} {self._value(each.value)}" for each in update.deletes]),
        )
        return " ".join(f"{section} {', '.join(actions)}" for section, actions in sections if actions)

    def projection(self, paths: Projection) -> str:
        return ", ".join(map(self.path, paths))

    def key_condition(self, tests: KeyCondition) -> str:
        return " AND ".join(map(self._key_test, tests))

    def path(self, path: Path) -> str:
        text = self._name(path.root)
        for step in path.steps:
            text += f"[{step}]" if isinstance(step, int) else f".{self._name(step)}"
        return text

    def _joined(self, node: nodes.And | nodes.Or) -> str:
        """Join conditions. AND binds more strongly than OR, so only an OR inside an AND needs parentheses."""
        if not node.conditions:
            raise InvalidRequest(f"{type(node).__name__} needs at least one condition")
        group = nodes.Or if isinstance(node, nodes.And) else ()
        return _JOINTS[type(node)].join(self._grouped(each, group) for each in node.conditions)

    def _grouped(self, node: Condition, kinds: Any) -> str:
        """Add parentheses only where they are needed: DynamoDB rejects redundant ones."""
        while isinstance(node, nodes.And | nodes.Or) and len(node.conditions) == 1:
            node = node.conditions[0]
        text = self.condition(node)
        return f"({text})" if isinstance(node, kinds) else text

    def _operand(self, node: Any) -> str:
        if isinstance(node, Path):
            return self.path(node)
        if isinstance(node, nodes.Literal):
            return self._value(node.value)
        if type(node) in _SUMS:
            return f"{self._operand(node.left)} {_SUMS[type(node)]} {self._operand(node.right)}"
        if type(node) not in _CALLS:
            raise InvalidRequest(f"{type(node).__name__} is not part of an expression")
        function, parts = _CALLS[type(node)]
        return f"{function}({', '.join(self._operand(getattr(node, part)) for part in parts)})"

    def _key_test(self, test: KeyTest) -> str:
        name, values = self._name(test.attribute), self._values(test.values)
        if test.operator == "between":
            return f"{name} BETWEEN {' AND '.join(values)}"
        if test.operator == "begins_with":
            return f"begins_with({name}, {', '.join(values)})"
        return f"{name} {test.operator} {', '.join(values)}"

    def _name(self, name: str) -> str:
        key = self._keys.get(name)
        if key is None:
            key = self._keys[name] = f"#n{len(self.names)}"
            self.names[key] = name
        return key

    def _values(self, values: Iterable[Value]) -> list[str]:
        return [self._value(value) for value in values]

    def _value(self, value: Value) -> str:
        key = f":v{len(self.values)}"
        self.values[key] = value
        return key
