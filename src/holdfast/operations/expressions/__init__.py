"""DynamoDB's expression language: text or typed Python → frozen nodes → evaluation.

parser.py          parses text and its placeholders into nodes
render.py          renders nodes as text, with names and values as placeholders
nodes.py           the syntax tree
evaluate.py        evaluates a condition on an item
update.py          applies an update to an item
project.py         projects an item to a set of paths
key_conditions.py  splits a key condition into tests of the key attributes
"""

from __future__ import annotations

from holdfast.operations.expressions.describe import describe
from holdfast.operations.expressions.evaluate import holds, predicate
from holdfast.operations.expressions.parser import parse_condition, parse_projection, parse_update
from holdfast.operations.expressions.paths import check_apart
from holdfast.operations.expressions.placeholders import Placeholders
from holdfast.operations.expressions.project import project, projector
from holdfast.operations.expressions.update import apply, touched, updated_values

__all__ = [
    "Placeholders",
    "apply",
    "check_apart",
    "describe",
    "holds",
    "parse_condition",
    "parse_projection",
    "parse_update",
    "predicate",
    "project",
    "projector",
    "touched",
    "updated_values",
]
