"""Find the paths and the top-level attributes that a condition contains."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.operations.expressions.nodes import (
    And,
    AttributeExists,
    AttributeNotExists,
    AttributeType,
    BeginsWith,
    Between,
    Compare,
    Condition,
    Contains,
    In,
    Literal,
    Not,
    Operand,
    Or,
    Path,
    Size,
)


def find_paths(condition: Condition) -> Iterator[Path]:
    """Yield every path in the condition, in the order of the text."""
    pending: list[Condition | Operand] = [condition]
    while pending:
        node = pending.pop()
        if isinstance(node, Path):
            yield node
        elif not isinstance(node, Literal):
            pending += reversed(_get_children(node))


def find_root_attributes(condition: Condition) -> dict[str, None]:
    """Return the top-level attributes of the paths, each once, in the order of the text."""
    return dict.fromkeys(path.root for path in find_paths(condition))


def _get_children(node: Condition | Size) -> tuple[Condition | Operand, ...]:
    """Return the operands or conditions directly inside a node, in the order of the text."""
    match node:
        case And() | Or():
            return node.conditions
        case Not():
            return (node.condition,)
        case Compare():
            return (node.left, node.right)
        case Between():
            return (node.operand, node.low, node.high)
        case In():
            return (node.operand, *node.choices)
        case AttributeExists() | AttributeNotExists():
            return (node.path,)
        case AttributeType() | Size():
            return (node.operand,)
        case BeginsWith():
            return (node.operand, node.prefix)
        case Contains():
            return (node.operand, node.element)
