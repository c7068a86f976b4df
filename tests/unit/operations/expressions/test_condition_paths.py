"""`find_paths` and `find_root_attributes`: the paths that a condition contains."""

from __future__ import annotations

from holdfast.operations.expressions import Placeholders, parse_condition
from holdfast.operations.expressions.condition_paths import find_paths, find_root_attributes
from holdfast.operations.expressions.nodes import Path

TEXT = (
    "a = :n AND (NOT b.c < d OR size(e) > :n) AND f BETWEEN g AND h AND i IN (:n, j) AND attribute_exists(k)"
    " AND attribute_not_exists(l[0]) AND begins_with(m, n) AND contains(o, q) AND attribute_type(r, :t) AND "
    "a <> q"
)


def test_every_path_is_found_in_the_order_of_the_text() -> None:
    condition = parse_condition(TEXT, "FilterExpression", Placeholders(None, {":n": 1, ":t": "S"}))
    paths = list(find_paths(condition))
    assert paths[:3] == [Path("a"), Path("b", ("c",)), Path("d")]
    assert "".join(path.root for path in paths) == "abdefghijklmnoqraq"
    assert "".join(find_root_attributes(condition)) == "abdefghijklmnoqr"
