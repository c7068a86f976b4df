"""DynamoDB's expression language: text or typed Python → frozen nodes → evaluation.

parser.py    text, and the placeholders given beside it, into nodes
render.py    nodes into text, with names and values as placeholders
nodes.py     what an expression means
evaluate.py  whether a condition holds for an item
update.py    an item after an update
project.py   the part of an item some paths lead to
keys.py      what a key condition says of the key
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
