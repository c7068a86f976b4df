"""FHIRPath of the guides' invariants: parsed by the compiler, evaluated by the checker."""

from __future__ import annotations

from typing import Any

import pytest

from pagw.domain.profiles.fhirpath import Scope, compile_tree, is_violated
from tests.cases import all_cases
from tools.pas_profiles.fhirpath_parser import parse

CHOICES = frozenset({"value", "onset"})
PERSON: dict[str, Any] = {
    "resourceType": "Patient",
    "active": True,
    "name": [{"family": "A", "given": ["B", "C"]}, {"given": ["D"]}],
    "telecom": [{"system": "phone", "value": "1"}],
    "extension": [{"url": "u", "valueCode": "x"}, {"url": "v", "valueQuantity": {"value": 2}}],
    "start": "2026-03-02",
    "end": "2026-03-01T10:00:00Z",
    "count": 3,
}


def evaluate(expression: str, focus: Any = PERSON) -> list[Any]:
    scope = Scope(PERSON, lambda reference: None)
    return compile_tree(parse(expression, CHOICES))([focus], scope)


@all_cases(
    ("expression", "result"),
    [
        ("name.given", ["B", "C", "D"]),
        ("Patient.name.family", ["A"]),
        ("name[1].given", ["D"]),
        ("name.where(family.exists()).given.first()", ["B"]),
        ("name.given.count() = 3 and active", [True]),
        ("missing", []),
        ("missing = 'x'", []),
        ("missing.exists() or active.not()", [False]),
        ("missing = 'x' or true", [True]),
        ("missing = 'x' and true", []),
        ("missing = 'x' implies false", []),
        ("false implies missing = 'x'", [True]),
        ("active xor missing.exists()", [True]),
        ("extension.where(url = 'u').value = 'x'", [True]),
        ("extension('v').value.ofType(Quantity).value", [2]),
        ("extension('v').value as Quantity", [{"value": 2}]),
        ("extension('u').value is Quantity", [False]),
        ("extension('u').value.exists() and extension.all(value.exists())", [True]),
        ("'x' in ('x' | 'y')", [True]),
        ("('x' | 'y' | 'x').count()", [2]),
        ("count + 4 * 2 = 11", [True]),
        ("(count + 4) mod 4", [3]),
        ("'1993'.substring(0,1).toInteger()", [1]),
        ("'a-b'.matches('[a-z]-[a-z]')", [True]),
        ("'ab'.matches('a')", [False]),
        ("'urn:x'.startsWith('urn:') and 'abc'.contains('b') and 'abc'.length() = 3", [True]),
        ("iif(count > 2, 'many', 'few')", ["many"]),
        ("start <= end", [False]),
        ("'2026-03' <= '2026-03-02'", []),
        ("'2026-03-01T23:00:00-02:00' > '2026-03-02T00:30:00Z'", [True]),
        ("name.given.select($this & '!')", ["B!", "C!", "D!"]),
        ("name.given.isDistinct() and (name | telecom).empty().not()", [True]),
        ("%resource.active and %ucum = 'http://unitsofmeasure.org'", [True]),
        ("`name`.family", ["A"]),
        ("code.memberOf('http://example.org/any')", []),
        ("descendants().where($this = 'D').exists()", [True]),
        ("{}", []),
    ],
)
def test_evaluates_an_expression(expression: str, result: list[Any]) -> None:
    assert evaluate(expression) == result


@all_cases("expression", ["name.", "a b", "(a", "'x", "#", "a = "])
def test_refuses_an_expression_that_it_does_not_know(expression: str) -> None:
    with pytest.raises(ValueError, match="Invalid FHIRPath"):
        parse(expression, CHOICES)


@all_cases(
    ("expression", "is_wrong"),
    [
        ("missing.exists()", True),
        ("active", False),
        # Neither an empty result nor one that cannot be computed is certainly false.
        ("missing = 'x'", False),
        ("name.given.first().toInteger() > 2", False),
        ("telecom.value.substring(0, active) = '1'", False),
        ("name - telecom = 1", False),
    ],
)
def test_only_a_certainly_false_invariant_is_violated(expression: str, is_wrong: bool) -> None:
    scope = Scope(PERSON, lambda reference: None)
    assert is_violated(compile_tree(parse(expression, CHOICES)), PERSON, scope) is is_wrong
