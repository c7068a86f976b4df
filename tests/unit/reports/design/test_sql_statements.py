"""The privileges that a SQL statement needs on each of its tables, parsed from its text."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.model.sql import SqlChange
from holdfast.reports.sql_statements import get_table_privileges
from tests.unit.reports.surgery import surgery

R, I, U, D = "SELECT", "INSERT", "UPDATE", "DELETE"  # noqa: E741


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT id FROM s.a WHERE x IS DISTINCT FROM y", {"s.a": {R}}),
        ("SELECT id FROM visits", {"surgery.visits": {R}}),
        ("INSERT INTO s.a (id) VALUES (1)", {"s.a": {I}}),
        ("INSERT INTO s.a (id) VALUES (1) ON CONFLICT DO NOTHING", {"s.a": {I, R}}),
        ("INSERT INTO s.a (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET id = 2", {"s.a": {I, R, U}}),
        ("INSERT INTO s.a (id) SELECT id FROM s.b RETURNING id", {"s.a": {I, R}, "s.b": {R}}),
        ("UPDATE s.a AS old SET x = 1 FROM s.b WHERE s.b.id = old.id", {"s.a": {U, R}, "s.b": {R}}),
        ("DELETE FROM s.a USING s.b WHERE s.b.id = s.a.id", {"s.a": {D, R}, "s.b": {R}}),
        (
            "WITH due AS (SELECT id FROM s.a WHERE x ORDER BY id LIMIT 5 FOR UPDATE SKIP LOCKED) "
            "UPDATE s.b SET y = 1 FROM due WHERE due.id = s.b.id",
            {"s.a": {R, U}, "s.b": {U, R}},
        ),
        (
            "SELECT extract(epoch FROM max(x) - min(x)), trim(both ' ' FROM y) FROM s.a one, s.b AS two "
            "LEFT JOIN LATERAL (SELECT 1 FROM s.c WHERE s.c.id = two.id) t ON true JOIN s.d USING (id)",
            {"s.a": {R}, "s.b": {R}, "s.c": {R}, "s.d": {R}},
        ),
        (
            "WITH n AS (INSERT INTO s.n (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET v = 2 RETURNING v) "
            "INSERT INTO s.a (v) SELECT v FROM n",
            {"s.n": {I, R, U}, "s.a": {I}},
        ),
        (
            "SELECT id FROM s.a WHERE id IN (SELECT id FROM s.b FOR UPDATE)",
            {"s.a": {R}, "s.b": {R, U}},
        ),
        ("SELECT id FROM unnest(ARRAY[1, 2]) AS given(id) JOIN s.a USING (id)", {"s.a": {R}}),
        ("SELECT 'FROM s.b', id -- FROM s.c\nFROM s.a /* JOIN s.d */", {"s.a": {R}}),
    ],
)
def test_statement_needs_privileges_for_what_it_does_on_each_table(
    text: Any, wanted: dict[str, set[str]]
) -> None:
    assert get_table_privileges(SqlChange(surgery, text, {})) == {
        name: frozenset(each) for name, each in wanted.items()
    }
