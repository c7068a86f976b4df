"""The parser: valid expressions parsed into nodes, invalid ones refused with DynamoDB's messages."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import InvalidRequest
from holdfast.operations.expressions import Placeholders, parse_condition, parse_projection, parse_update
from holdfast.operations.expressions.nodes import (
    AddAction,
    And,
    AttributeExists,
    AttributeNotExists,
    AttributeType,
    BeginsWith,
    Between,
    Compare,
    Condition,
    Contains,
    DeleteAction,
    IfNotExists,
    In,
    ListAppend,
    Literal,
    Minus,
    Not,
    Or,
    Path,
    Plus,
    Projection,
    RemoveAction,
    SetAction,
    Size,
    Update,
)
from holdfast.operations.expressions.reserved_words import RESERVED_WORDS
from tests.cases import all_cases

NAMES = {"#x": "x", "#s": "status", "#d": "a.b"}
VALUES: dict[str, Any] = {
    ":s": "b",
    ":t": "a",
    ":n": 1,
    ":h": Decimal("0.5"),
    ":b": b"b",
    ":bool": True,
    ":null": None,
    ":ss": frozenset(("b", "a")),
    ":ns": frozenset((2, 1)),
    ":bs": frozenset((b"a",)),
    ":l": [1],
    ":m": {"a": "b"},
    ":ts": "S",
}
A, B, C, X = Path("a"), Path("b"), Path("c"), Path("x")
N = Literal(1)


def condition(text: str) -> Condition:
    return parse_condition(text, "FilterExpression", Placeholders(NAMES, VALUES))


def update(text: str) -> Update:
    return parse_update(text, Placeholders(NAMES, VALUES))


def projection(text: str) -> Projection:
    return parse_projection(text, Placeholders(NAMES))


def refusal(parse: Callable[[str], object], text: str) -> str:
    """Parse an invalid text and return the message of its `InvalidRequest`."""
    with pytest.raises(InvalidRequest) as refused:
        parse(text)
    return refused.value.message


# --- the meaning of expressions -----------------------------------------------------------------------------


@all_cases(
    ("text", "meaning"),
    [
        ("a = :n", Compare("=", A, N)),
        ("a<>:n", Compare("<>", A, N)),
        ("(a) < (:n)", Compare("<", A, N)),
        ("((a) <= :n)", Compare("<=", A, N)),
        (":n > a", Compare(">", N, A)),
        ("a >= size(b)", Compare(">=", A, Size(B))),
        ("size(:s) = :n", Compare("=", Size(Literal("b")), N)),
        ("#x.y[2] . #s = :n", Compare("=", Path("x", ("y", 2, "status")), N)),
        ("#d = :n", Compare("=", Path("a.b"), N)),
        ("a BETWEEN :n AND b", Between(A, N, B)),
        ("a between :n and :n and b = :n", And((Between(A, N, N), Compare("=", B, N)))),
        ("a IN (:n)", In(A, (N,))),
        ("a in (:n, (b), c)", In(A, (N, B, C))),
        ("attribute_exists(a)", AttributeExists(A)),
        ("attribute_not_exists (a.b)", AttributeNotExists(Path("a", ("b",)))),
        ("attribute_type(a, :ts)", AttributeType(A, "S")),
        ("begins_with(a, :s)", BeginsWith(A, Literal("b"))),
        ("contains(a, b)", Contains(A, B)),
        ("contains(:l, size(b))", Contains(Literal([1]), Size(B))),
        ("NOT a = b", Not(Compare("=", A, B))),
        ("not not a = b", Not(Not(Compare("=", A, B)))),
        ("NOT a = b AND a = c", And((Not(Compare("=", A, B)), Compare("=", A, C)))),
        ("NOT (a = b AND a = c)", Not(And((Compare("=", A, B), Compare("=", A, C))))),
        (
            "a = b OR a = c AND b = c OR a = x",
            Or((Compare("=", A, B), And((Compare("=", A, C), Compare("=", B, C))), Compare("=", A, X))),
        ),
        (
            "(a = b OR a = c) AND b = c",
            And((Or((Compare("=", A, B), Compare("=", A, C))), Compare("=", B, C))),
        ),
        ("(attribute_exists(a)) AND (a = b)", And((AttributeExists(A), Compare("=", A, B)))),
        ("(size(a)) = :n", Compare("=", Size(A), N)),
        ("a = b AND (b = c AND c = x)", And(tuple(Compare("=", *pair) for pair in ((A, B), (B, C), (C, X))))),
    ],
)
def test_parses_a_condition_into_nodes(text: str, meaning: Condition) -> None:
    assert condition(text) == meaning


@all_cases(
    ("text", "meaning"),
    [
        ("SET a = :n", Update(sets=(SetAction(A, N),))),
        ("set a = b, #x = :n", Update(sets=(SetAction(A, B), SetAction(X, N)))),
        ("SET a = b + :n", Update(sets=(SetAction(A, Plus(B, N)),))),
        ("SET a = (b - :n)", Update(sets=(SetAction(A, Minus(B, N)),))),
        ("SET a = ((b) - (:n))", Update(sets=(SetAction(A, Minus(B, N)),))),
        ("SET a = (b) + :n", Update(sets=(SetAction(A, Plus(B, N)),))),
        ("SET a = b + b", Update(sets=(SetAction(A, Plus(B, B)),))),
        ("SET a = if_not_exists(b, :n)", Update(sets=(SetAction(A, IfNotExists(B, N)),))),
        ("SET a = if_not_exists(a, :n) + :n", Update(sets=(SetAction(A, Plus(IfNotExists(A, N), N)),))),
        (
            "SET a = list_append(if_not_exists(a, :l), :l)",
            Update(sets=(SetAction(A, ListAppend(IfNotExists(A, Literal([1])), Literal([1]))),)),
        ),
        ("REMOVE a, b[1]", Update(removes=(RemoveAction(A), RemoveAction(Path("b", (1,)))))),
        ("ADD a :n, b :ss", Update(adds=(AddAction(A, 1), AddAction(B, VALUES[":ss"])))),
        ("DELETE a :ns", Update(deletes=(DeleteAction(A, VALUES[":ns"]),))),
        (
            "REMOVE a set b=:n",
            Update(sets=(SetAction(B, N),), removes=(RemoveAction(A),)),
        ),
    ],
)
def test_parses_an_update_into_actions(text: str, meaning: Update) -> None:
    assert update(text) == meaning


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a", (A,)),
        (" a , #x.b[0] ", (A, Path("x", ("b", 0)))),
        ("a[0], a[1]", (Path("a", (0,)), Path("a", (1,)))),
    ],
)
def test_parses_a_projection_into_paths(text: str, meaning: Projection) -> None:
    assert projection(text) == meaning


def test_the_error_names_the_request_parameter() -> None:
    for parameter in ("ConditionExpression", "FilterExpression", "KeyConditionExpression"):
        with pytest.raises(InvalidRequest) as refused:
            parse_condition("", parameter, Placeholders())
        assert refused.value.message == f"Invalid {parameter}: The expression can not be empty;"


# --- DynamoDB's messages for malformed expressions ----------------------------------------------------------

_SYNTAX = [
    ("", "The expression can not be empty;"),
    (" ", 'Syntax error; token: "<EOF>", near: " "'),
    ("a", 'Syntax error; token: "<EOF>", near: "a"'),
    ("a =", 'Syntax error; token: "<EOF>", near: "="'),
    ("a = ", 'Syntax error; token: "<EOF>", near: "= "'),
    ("a = :", 'Syntax error; token: ":", near: "= :"'),
    ("a = :n b", 'Syntax error; token: "b", near: ":n b"'),
    ("a  =  =  b  ", 'Syntax error; token: "=", near: "=  =  b"'),
    ("  )  ", 'Syntax error; token: ")", near: "  )  "'),
    ("(", 'Syntax error; token: "<EOF>", near: "("'),
    ("(" * 4096, 'Syntax error; token: "<EOF>", near: "("'),
    ("(a = :n) x", 'Syntax error; token: "x", near: ") x"'),
    ("a in ()", 'Syntax error; token: ")", near: "()"'),
    ("a in :n", 'Syntax error; token: ":n", near: "in :n"'),
    ("a in (:n,)", 'Syntax error; token: ")", near: ",)"'),
    ("a not in (:n)", 'Syntax error; token: "not", near: "a not in"'),
    ("a between :n", 'Syntax error; token: "<EOF>", near: ":n"'),
    ("a between :n or :n", 'Syntax error; token: "or", near: ":n or :n"'),
    ("and", 'Syntax error; token: "and", near: "and"'),
    ("a and b", 'Syntax error; token: "and", near: "a and b"'),
    ("a == :n", 'Syntax error; token: "=", near: "== :n"'),
    ("a < > :n", 'Syntax error; token: ">", near: "< > :n"'),
    ("a ! :n", 'Syntax error; token: "!", near: "a ! :n"'),
    ("a = 1", 'Syntax error; token: "1", near: "= 1"'),
    ("a = 'x'", "Syntax error; token: \"'x'\", near: \"= 'x'\""),
    ("a.1 = :n", 'Syntax error; token: "1", near: ".1 ="'),
    ("a..b = :n", 'Syntax error; token: ".", near: "..b"'),
    ("a[01] = :n", 'Syntax error; token: "1", near: "01]"'),
    ("a[-1] = :n", 'Syntax error; token: "-", near: "[-1"'),
    ("a[:n] = :n", 'Syntax error; token: ":n", near: "[:n]"'),
    ("a[b] = :n", 'Syntax error; token: "b", near: "[b]"'),
    ("_a = :n", 'Syntax error; token: "_", near: "_a"'),
    ("a = b = c", 'Syntax error; token: "=", near: "b = c"'),
    ("a = (b = c)", 'Syntax error; token: "=", near: "b = c"'),
    ("(a = b) = c", 'Syntax error; token: "=", near: ") = c"'),
    ("(a.b).c = :n", 'Syntax error; token: ".", near: ").c"'),
    ("a = b + c", 'Syntax error; token: "+", near: "b + c"'),
    ("set = :n", 'Syntax error; token: "set", near: "set ="'),
    ("attribute_exists()", 'Syntax error; token: ")", near: "()"'),
    ("f(a", 'Syntax error; token: "<EOF>", near: "a"'),
    ("f(a b", 'Syntax error; token: "b", near: "a b"'),
    ("f(a))", 'Syntax error; token: ")", near: "))"'),
    ("foo(a) = ", 'Syntax error; token: "<EOF>", near: "= "'),
    ("((a))", 'Syntax error; token: "<EOF>", near: ")"'),
    ("((a)) x", 'Syntax error; token: "x", near: ") x"'),
    ("(((f(a))) x", 'Syntax error; token: "x", near: ") x"'),
    ("(contains(((a)), :n) x", 'Syntax error; token: "x", near: ") x"'),
    ("f(((a))", 'Syntax error; token: "<EOF>", near: ")"'),
]
_PARENTHESES = [
    (text, "The expression has redundant parentheses;")
    for text in (
        "((a = :n))",
        "((a = :n)) x",
        "((a)) = :n",
        "((a)) = ",
        "((a)) in (",
        "a = ((:n))",
        "a = ((b)) x",
        "a = (((b))",
        "a in (((:n)))",
        "size(((a))) = :n",
        "((f(a))) x",
        "((f(a))) and",
        "contains(((a)), :n) x",
        "not ((a = :n))",
        "((a = :n and b = :n))",
        "(" * 2046 + "a<b" + ")" * 2046,
    )
]
_FUNCTIONS = [
    ("foo(a)", "Invalid function name; function: foo"),
    ("ATTRIBUTE_EXISTS(a)", "Invalid function name; function: ATTRIBUTE_EXISTS"),
    ("a < " + "f(" * 1355 + "b" + ")" * 1355, "Invalid function name; function: f"),
    ("foo(abort)", "Invalid function name; function: foo"),
    ("abort = foo(a)", "Attribute name is a reserved keyword; reserved keyword: abort"),
    ("size(foo(abort)) = a", "Invalid function name; function: foo"),
    (
        "if_not_exists(a, :n)",
        "The function is not allowed in a condition expression; function: if_not_exists",
    ),
    *(
        (text, f"The function is not allowed to be used this way in an expression; function: {function}")
        for text, function in (
            ("size(a)", "size"),
            ("size(abort)", "size"),
            ("size(attribute_exists(a))", "size"),
            ("attribute_exists(a) = :n", "attribute_exists"),
            ("a = b AND NOT size(a)", "size"),
            ("contains(a, begins_with(a, :s))", "begins_with"),
        )
    ),
    (
        "attribute_exists(a, b)",
        "Incorrect number of operands for operator or function; operator or function: attribute_exists, "
        "number of operands: 2",
    ),
    (
        "size(a, b) = :n",
        "Incorrect number of operands for operator or function; operator or function: size, "
        "number of operands: 2",
    ),
    (
        "attribute_exists(:s)",
        "Operator or function requires a document path; operator or function: attribute_exists",
    ),
    (
        "attribute_not_exists(size(a))",
        "Operator or function requires a document path; operator or function: attribute_not_exists",
    ),
    (
        "attribute_exists(a, #no)",
        "An expression attribute name used in the document path is not defined; attribute name: #no",
    ),
]
_NAMES = [
    ("status = :n", "Attribute name is a reserved keyword; reserved keyword: status"),
    ("a.Status = :n", "Attribute name is a reserved keyword; reserved keyword: Status"),
    ("value = :n", "Attribute name is a reserved keyword; reserved keyword: value"),
    (
        "#no = :no",
        "An expression attribute name used in the document path is not defined; attribute name: #no",
    ),
    (
        "a = :no AND #no = :n",
        "An expression attribute value used in expression is not defined; attribute value: :no",
    ),
    ("a[2147483648] = :n", "List index is not within the allowable range; index: [2147483648]"),
    ("a[99999999999] = :n", "List index is not within the allowable range; index: [99999999999]"),
    ("a" + ".a" * 32 + " = :n", "The document path has too many nesting levels; nesting levels: 33"),
]


def _wrong_type_message(operator: str, tag: str) -> str:
    return (
        f"Incorrect operand type for operator or function; operator or function: {operator}, "
        f"operand type: {tag}"
    )


def _repeated_operand_message(operator: str, path: str) -> str:
    return (
        "The first operand must be distinct from the remaining operands for this operator or function; "
        f"operator: {operator}, first operand: {path}"
    )


_TYPES = [
    *(
        (f"a {operator} {value}", _wrong_type_message(operator, tag))
        for operator in ("<", "<=", ">", ">=")
        for value, tag in ((":bool", "BOOL"), (":null", "NULL"), (":l", "L"), (":m", "M"), (":ss", "SS"))
    ),
    ("a between :l and :n", _wrong_type_message("BETWEEN", "L")),
    ("begins_with(a, :n)", _wrong_type_message("begins_with", "N")),
    ("begins_with(size(a), :s)", _wrong_type_message("begins_with", "N")),
    ("size(:n) = :n", _wrong_type_message("size", "N")),
    ("size(:bool) = :n", _wrong_type_message("size", "BOOL")),
    ("a < " + "size(" * 680 + "b" + ")" * 680, _wrong_type_message("size", "N")),
    ("attribute_type(a, :n)", _wrong_type_message("attribute_type", "N")),
    ("attribute_type(a, b)", _wrong_type_message("attribute_type", "{NS,SS,L,BS,N,M,B,BOOL,NULL,S}")),
    (
        "attribute_type(a, :s)",
        "Invalid attribute type name found; type: b, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}",
    ),
    ("a = a", _repeated_operand_message("=", "[a]")),
    ("#x <> x", _repeated_operand_message("<>", "[x]")),
    ("a.b[1] = a.b[1]", _repeated_operand_message("=", "[a, b, [1]]")),
    ("a in (b, a)", _repeated_operand_message("IN", "[a]")),
    ("a between b and a", _repeated_operand_message("BETWEEN", "[a]")),
    ("contains(a, a)", _repeated_operand_message("contains", "[a]")),
    (
        "a between :s and :t",
        "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; "
        "lower bound operand: AttributeValue: {S:b}, upper bound operand: AttributeValue: {S:a}",
    ),
    (
        "a between :n and :t",
        "The BETWEEN operator requires same data type for lower and upper bounds; "
        "lower bound operand: AttributeValue: {N:1}, upper bound operand: AttributeValue: {S:a}",
    ),
    (
        f"a in ({','.join([':n'] * 101)})",
        "The IN operator is provided with too many operands; number of operands: 101",
    ),
]
_LIMITS = [
    (" or ".join(["a=:n"] * 151), "The expression contains too many operators; operator count: 301"),
    ("not " * 1000 + "a=b", "The expression contains too many operators; operator count: 301"),
    (
        "a<b " + "or (a<b " * 454 + ")" * 454,
        "The expression contains too many operators; operator count: 301",
    ),
    ("x" * 4097, "Expression size has exceeded the maximum allowed size; expression size: 4097"),
    ("(" * 15000, "Expression size has exceeded the maximum allowed size; expression size: 15000"),
]


@all_cases(("text", "reason"), [*_SYNTAX, *_PARENTHESES, *_FUNCTIONS, *_NAMES, *_TYPES, *_LIMITS])
def test_a_condition_is_refused_in_dynamodbs_words(text: str, reason: str) -> None:
    assert refusal(condition, text) == f"Invalid FilterExpression: {reason}"


def _overlap_message(one: str, two: str, how: str = "overlap") -> str:
    return (
        f"Two document paths {how} with each other; must remove or rewrite one of these paths; "
        f"path one: {one}, path two: {two}"
    )


@all_cases(
    ("text", "reason"),
    [
        ("", "The expression can not be empty;"),
        ("SET", 'Syntax error; token: "<EOF>", near: "SET"'),
        ("SET a", 'Syntax error; token: "<EOF>", near: "a"'),
        ("SET a = :n,", 'Syntax error; token: "<EOF>", near: ","'),
        ("SET a = :n b = :n", 'Syntax error; token: "b", near: ":n b ="'),
        ("SET _123 = :n", 'Syntax error; token: "_", near: "SET _123"'),
        ("SET 123 = :n", 'Syntax error; token: "123", near: "SET 123 ="'),
        ("SETa = :n", 'Syntax error; token: "SETa", near: "SETa ="'),
        ("INVALID SYNTAX HERE", 'Syntax error; token: "INVALID", near: "INVALID SYNTAX"'),
        ("SET a = VALUE 1", 'Syntax error; token: "1", near: "VALUE 1"'),
        ("REMOVE a b", 'Syntax error; token: "b", near: "a b"'),
        ("ADD a b", 'Syntax error; token: "b", near: "a b"'),
        ("ADD a = :n", 'Syntax error; token: "=", near: "a = :n"'),
        ("ADD hits : incr", 'Syntax error; token: ":", near: "hits : incr"'),
        ("SET a = b + :n + :n", 'Syntax error; token: "+", near: ":n + :n"'),
        ("SET a = (b + :n) + :n", 'Syntax error; token: "+", near: ") + :n"'),
        ("SET a = b * :n", 'Syntax error; token: "*", near: "b * :n"'),
        ("SET a = ((b) x", 'Syntax error; token: "x", near: ") x"'),
        ("SET a = (b + :n x", 'Syntax error; token: "x", near: ":n x"'),
        ("SET a = if_not_exists(b, c + :n)", 'Syntax error; token: "+", near: "c + :n"'),
        ("SET a = ((b))", "The expression has redundant parentheses;"),
        ("SET a = ((b)) x", "The expression has redundant parentheses;"),
        ("SET a = ((b)) + :n", "The expression has redundant parentheses;"),
        ("SET a = ((b + :n))", "The expression has redundant parentheses;"),
        ("SET a = :n SET b = :n", 'The "SET" section can only be used once in an update expression;'),
        (
            "remove #no set a = b remove e",
            'The "REMOVE" section can only be used once in an update expression;',
        ),
        ("ADD a :n ADD b :n", 'The "ADD" section can only be used once in an update expression;'),
        ("DELETE a :ss DELETE b :ss", 'The "DELETE" section can only be used once in an update expression;'),
        (" set #c = :c set abOrt = true ", "Attribute name is a reserved keyword; reserved keyword: abOrt"),
        ("SET a = foo(abort), abort = :n", "Invalid function name; function: foo"),
        ("set #c = if_not_exist(:c) set c = d", "Invalid function name; function: if_not_exist"),
        ("SET a = size(b)", "The function is not allowed in an update expression; function: size"),
        (
            "SET a = list_append(:l, list_append(:l, :l))",
            "The function is not allowed to be used this way in an expression; function: list_append",
        ),
        (
            "SET a = list_append(b, b) + :n",
            "The function is not allowed to be used this way in an expression; function: list_append",
        ),
        (
            "SET #no = if_not_exists(:no)",
            "An expression attribute name used in the document path is not defined; attribute name: #no",
        ),
        (
            "SET a = if_not_exists(:no)",
            "An expression attribute value used in expression is not defined; attribute value: :no",
        ),
        ("SET a = :n, a = :n", _overlap_message("[a]", "[a]")),
        ("SET a = :n, a.b = :n", _overlap_message("[a]", "[a, b]")),
        ("SET a.b = :n REMOVE a", _overlap_message("[a, b]", "[a]")),
        ("set d[1] = a, d.b = a, c[1].a = a, c = if_not_exists(a)", _overlap_message("[c, [1], a]", "[c]")),
        ("set a[3].b = c, a[3] = c", _overlap_message("[a, [3], b]", "[a, [3]]")),
        ("SET a.b = :n, a[1] = :n", _overlap_message("[a, b]", "[a, [1]]", "conflict")),
        ("remove a.b set a[1] = c", _overlap_message("[a, b]", "[a, [1]]", "conflict")),
        ("REMOVE #no ADD a :n SET a = b", _overlap_message("[a]", "[a]")),
        ("SET a = :s + :n", _wrong_type_message("+", "S")),
        ("SET a = b - :l", _wrong_type_message("-", "L")),
        ("SET a = list_append(b, :s)", _wrong_type_message("list_append", "S")),
        ("SET a = if_not_exists(b, b)", _repeated_operand_message("if_not_exists", "[b]")),
        (
            "SET a = if_not_exists(b)",
            "Incorrect number of operands for operator or function; "
            "operator or function: if_not_exists, number of operands: 1",
        ),
        (
            "SET a = if_not_exists(if_not_exists(a, b), c)",
            "Operator or function requires a document path; operator or function: if_not_exists",
        ),
        *(
            (
                f"ADD a.b {value}",
                f"Incorrect operand type for operator or function; operator: ADD, operand type: {word}",
            )
            for value, word in (
                (":s", "STRING"),
                (":b", "BINARY"),
                (":bool", "BOOLEAN"),
                (":null", "NULL"),
                (":l", "LIST"),
                (":m", "MAP"),
            )
        ),
        (
            "DELETE a :n",
            "Incorrect operand type for operator or function; operator: DELETE, operand type: NUMBER",
        ),
        (
            "set b = list_append(:s, a), c = if_not_exists(a) add a.b :s",
            "Incorrect operand type for operator or function; operator: ADD, operand type: STRING",
        ),
        ("SET a" + ".a" * 32 + " = :n", "The document path has too many nesting levels; nesting levels: 33"),
        ("SET " + " " * 4090 + "a = :n", "Expression size has exceeded the maximum allowed size;"),
    ],
)
def test_an_update_is_refused_in_dynamodbs_words(text: str, reason: str) -> None:
    assert refusal(update, text) == f"Invalid UpdateExpression: {reason}"


@all_cases(
    ("text", "reason"),
    [
        ("", "The expression can not be empty;"),
        ("a,", 'Syntax error; token: "<EOF>", near: ","'),
        ("a b", 'Syntax error; token: "b", near: "a b"'),
        ("(a)", 'Syntax error; token: "(", near: "(a"'),
        ("a = b", 'Syntax error; token: "=", near: "a = b"'),
        (":a", 'Syntax error; token: ":a", near: ":a"'),
        ("a, abort", "Attribute name is a reserved keyword; reserved keyword: abort"),
        (
            "#no, a",
            "An expression attribute name used in the document path is not defined; attribute name: #no",
        ),
        ("a, a", _overlap_message("[a]", "[a]")),
        ("a.b, a", _overlap_message("[a, b]", "[a]")),
        ("a[0], a.b", _overlap_message("[a, [0]]", "[a, b]", "conflict")),
        ("#no, b, b", _overlap_message("[b]", "[b]")),
        ("a" + ".a" * 32, "The document path has too many nesting levels; nesting levels: 33"),
        ("x" * 4097, "Expression size has exceeded the maximum allowed size;"),
    ],
)
def test_a_projection_is_refused_in_dynamodbs_words(text: str, reason: str) -> None:
    assert refusal(projection, text) == f"Invalid ProjectionExpression: {reason}"


# --- expressions at their limits ----------------------------------------------------------------------------


@all_cases(
    "text",
    [
        " or ".join(["a=:n"] * 150),
        "not " * 299 + "a=b",
        "a<b " + "or (a<b " * 149 + ")" * 149,
        "a<b " + "or (not a<b and (b<c " * 49 + "))" * 49,
        f"a in ({','.join([':n'] * 100)})",
        "a" + ".a" * 31 + " = :n",
        "a" + " " * 4090 + "=:n",
    ],
)
def test_an_expression_at_its_limit_is_accepted_and_hashes(text: str) -> None:
    assert hash(condition(text)) == hash(condition(text))


def test_a_name_of_4096_characters_can_be_projected() -> None:
    assert projection("x" * 4096) == (Path("x" * 4096),)


def test_there_are_573_reserved_words() -> None:
    assert len(RESERVED_WORDS) == 573


@all_cases("word", sorted(RESERVED_WORDS))
def test_no_reserved_word_can_be_used_as_a_name(word: str) -> None:
    assert refusal(projection, word.lower()).startswith("Invalid ProjectionExpression: ")


# --- arbitrary text -----------------------------------------------------------------------------------------

_FRAGMENTS = (
    "( ) (( )) [ ] . , = <> < <= > >= + - 0 7 01 a b status :n :s :l :no #x #no and OR Not between IN set "
    "REMOVE "
    "add Delete size( contains( foo( attribute_exists( begins_with( if_not_exists( list_append( ' \" é % _"
).split()
_PARSERS = (condition, update, projection)


@given(st.text(max_size=60))
def test_random_text_is_parsed_or_refused(text: str) -> None:
    _parse_or_refuse(text)


@given(st.lists(st.sampled_from(_FRAGMENTS), max_size=30), st.sampled_from(("", " ")))
def test_random_tokens_are_parsed_or_refused(fragments: list[str], between: str) -> None:
    _parse_or_refuse(between.join(fragments))


@given(
    st.sampled_from(("(", "not ", "size(", "a[", "a.", "a=b and (", "SET a = (", "f(a,")),
    st.integers(min_value=1, max_value=5000),
)
def test_any_depth_is_parsed_or_refused(opening: str, depth: int) -> None:
    _parse_or_refuse(opening * depth)


def _parse_or_refuse(text: str) -> None:
    """Parse the text in all three grammars: the only exception is `InvalidRequest`."""
    for parse in _PARSERS:
        with suppress(InvalidRequest):
            parse(text)
