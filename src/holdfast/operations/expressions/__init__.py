"""DynamoDB's expression language: text or typed Python → frozen nodes → evaluation.

parser.py           the entry points: parse text and its placeholders into nodes
lexer.py            splits text into tokens
token_reader.py     reads paths, values and function calls from the tokens
grammar.py          parses conditions, updates and projections into cached templates
binder.py           puts one request's names and values into a template, and checks types
placeholders.py     the expression attribute names and values of one request
reserved_words.py   the words that DynamoDB rejects as attribute names
errors.py           the parser's internal error
renderer.py         renders nodes as text, with names and values as placeholders
nodes.py            the syntax tree
evaluation.py       evaluates a condition on an item
updates.py          applies an update to an item
projections.py      projects an item to a set of paths
key_conditions.py   splits a key condition into tests of the key attributes
condition_paths.py  finds the paths that a condition contains
path_tree.py        checks that paths do not overlap
value_format.py     formats a value for an error
"""

from __future__ import annotations

from holdfast.operations.expressions.evaluation import compile_condition, evaluate_condition
from holdfast.operations.expressions.parser import parse_condition, parse_projection, parse_update
from holdfast.operations.expressions.path_tree import check_no_overlap
from holdfast.operations.expressions.placeholders import Placeholders
from holdfast.operations.expressions.projections import compile_projection, project
from holdfast.operations.expressions.updates import apply_update, get_written_paths, select_written_values
from holdfast.operations.expressions.value_format import format_value

__all__ = [
    "Placeholders",
    "apply_update",
    "check_no_overlap",
    "compile_condition",
    "compile_projection",
    "evaluate_condition",
    "format_value",
    "get_written_paths",
    "parse_condition",
    "parse_projection",
    "parse_update",
    "project",
    "select_written_values",
]
