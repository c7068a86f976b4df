"""Render nodes as text: the inverse of `parser.py`, for an engine that sends expressions to a service.

All expressions of a request share one `Renderer`, because they share their names and values. Every attribute
name and every value becomes a placeholder, so that no name can be a reserved word and no value needs quoting:

    renderer = Renderer()
    text = renderer.render_condition(node)     "#n0 = :v0 AND attribute_exists(#n1)"
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

_FUNCTIONS: Final[dict[type, tuple[str, tuple[str, ...]]]] = {
    nodes.Size: ("size", ("operand",)),
    nodes.AttributeExists: ("attribute_exists", ("path",)),
    nodes.AttributeNotExists: ("attribute_not_exists", ("path",)),
    nodes.BeginsWith: ("begins_with", ("operand", "prefix")),
    nodes.Contains: ("contains", ("operand", "element")),
    nodes.IfNotExists: ("if_not_exists", ("path", "operand")),
    nodes.ListAppend: ("list_append", ("left", "right")),
}
_CONJUNCTIONS: Final[dict[type, str]] = {nodes.And: " AND ", nodes.Or: " OR "}
_ARITHMETIC_OPERATORS: Final[dict[type, str]] = {nodes.Plus: "+", nodes.Minus: "-"}


class Renderer:
    """Renders the expressions of one request. Each expression adds to `names` and `values`."""

    __slots__ = ("_keys", "names", "values")

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, Value] = {}
        self._keys: dict[str, str] = {}

    def render_condition(self, node: Condition) -> str:
        """Render a condition. Raise `InvalidRequest` for an And or Or without conditions."""
        match node:
            case nodes.And() | nodes.Or():
                return self._join(node)
            case nodes.Not():
                return f"NOT {self._group(node.condition, (nodes.And, nodes.Or))}"
            case nodes.Compare():
                return f"{self._render_operand(node.left)} {node.operator} {self._render_operand(node.right)}"
            case nodes.Between():
                low, high = self._render_operand(node.low), self._render_operand(node.high)
                return f"{self._render_operand(node.operand)} BETWEEN {low} AND {high}"
            case nodes.In():
                choices = ", ".join(map(self._render_operand, node.choices))
                return f"{self._render_operand(node.operand)} IN ({choices})"
            case nodes.AttributeType():
                return f"attribute_type({self._render_operand(node.operand)}, {self._add_value(node.tag)})"
            case _:
                return self._render_operand(node)

    def render_update(self, update: Update) -> str:
        """Render an update. One without actions is an empty text: leave it out of the request."""
        sections = (
            (
                "SET",
                [
                    f"{self.render_path(each.path)} = {self._render_operand(each.operand)}"
                    for each in update.sets
                ],
            ),
            ("REMOVE", [self.render_path(each.path) for each in update.removes]),
            ("ADD", [f"{self.render_path(each.path)} {self._add_value(each.value)}" for each in update.adds]),
            (
                "DELETE",
                [f"{self.render_path(each.path)} {self._add_value(each.value)}" for each in update.deletes],
            ),
        )
        return " ".join(f"{section} {', '.join(actions)}" for section, actions in sections if actions)

    def render_projection(self, paths: Projection) -> str:
        return ", ".join(map(self.render_path, paths))

    def render_key_condition(self, tests: KeyCondition) -> str:
        """Render the tests of a key condition, joined by AND."""
        return " AND ".join(map(self._render_key_test, tests))

    def render_path(self, path: Path) -> str:
        """Render a path with a placeholder for each name: `#n0[2].#n1`."""
        text = self._add_name(path.root)
        for step in path.steps:
            text += f"[{step}]" if isinstance(step, int) else f".{self._add_name(step)}"
        return text

    def _join(self, node: nodes.And | nodes.Or) -> str:
        """Join conditions with AND or OR. AND binds more strongly than OR, so only an OR inside an AND needs
        parentheses.
        """
        if not node.conditions:
            raise InvalidRequest(f"{type(node).__name__} needs at least one condition")
        group = nodes.Or if isinstance(node, nodes.And) else ()
        return _CONJUNCTIONS[type(node)].join(self._group(each, group) for each in node.conditions)

    def _group(self, node: Condition, kinds: Any) -> str:
        """Render a condition, in parentheses if it is one of `kinds`: DynamoDB rejects redundant
        parentheses.
        """
        while isinstance(node, nodes.And | nodes.Or) and len(node.conditions) == 1:
            node = node.conditions[0]
        text = self.render_condition(node)
        return f"({text})" if isinstance(node, kinds) else text

    def _render_operand(self, node: Any) -> str:
        """Render a path, literal, function or sum. Raise `InvalidRequest` for any other node."""
        if isinstance(node, Path):
            return self.render_path(node)
        if isinstance(node, nodes.Literal):
            return self._add_value(node.value)
        if type(node) in _ARITHMETIC_OPERATORS:
            return (
                f"{self._render_operand(node.left)} {_ARITHMETIC_OPERATORS[type(node)]} "
                f"{self._render_operand(node.right)}"
            )
        if type(node) not in _FUNCTIONS:
            raise InvalidRequest(f"{type(node).__name__} is not part of an expression")
        function, parts = _FUNCTIONS[type(node)]
        return f"{function}({', '.join(self._render_operand(getattr(node, part)) for part in parts)})"

    def _render_key_test(self, test: KeyTest) -> str:
        name, values = self._add_name(test.attribute), self._add_values(test.values)
        if test.operator == "between":
            return f"{name} BETWEEN {' AND '.join(values)}"
        if test.operator == "begins_with":
            return f"begins_with({name}, {', '.join(values)})"
        return f"{name} {test.operator} {', '.join(values)}"

    def _add_name(self, name: str) -> str:
        """Return the placeholder of a name, the same one for each use of the name."""
        key = self._keys.get(name)
        if key is None:
            key = self._keys[name] = f"#n{len(self.names)}"
            self.names[key] = name
        return key

    def _add_values(self, values: Iterable[Value]) -> list[str]:
        return [self._add_value(value) for value in values]

    def _add_value(self, value: Value) -> str:
        """Add a value under a new placeholder and return the placeholder."""
        key = f":v{len(self.values)}"
        self.values[key] = value
        return key
