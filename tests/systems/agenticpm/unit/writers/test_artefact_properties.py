"""Property tests of contents: sums, round trips, differences, CSV, and undo as its own inverse."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenticpm.domain.contents import (
    ArtefactType,
    BacklogSummary,
    DeliveryState,
    Part,
    format_time,
    parse_as,
    to_stored,
    validate_content,
)
from agenticpm.domain.diff import compute_differences
from agenticpm.domain.exports import FORMULA_STARTS, iter_csv_rows, to_csv
from agenticpm.model import artefacts
from agenticpm.model.artefacts import load_content, undo, update
from holdfast.operations.values import item_size
from tests.systems.agenticpm.unit.writers.sample_contents import (
    BACKLOG_SUMMARY,
    DELIVERY_STATE,
    PROJECT,
    RAID_LOG,
    open_project_stores,
    replace_at,
)

RAID = ArtefactType.raid_log

words = st.text(max_size=20)
names = words.filter(lambda each: bool(each.strip()) and not each.isspace())
moments = st.datetimes(datetime(1970, 1, 1), datetime(9000, 1, 1), timezones=st.just(UTC)).map(format_time)
counts = st.integers(0, 10**9)
amounts = st.decimals(0, 10**9, allow_nan=False, allow_infinity=False, places=3)


@st.composite
def raid_logs(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a RAID log of up to five items with unique ids."""
    ids = draw(st.lists(st.integers(0, 9999), unique=True, max_size=5))
    text = st.one_of(words, st.none())
    return {
        "items": [
            RAID_LOG["items"][0]
            | {
                "id": f"R{each:03}",
                "title": "x" + draw(words),
                "description": draw(words),
                "owner": draw(text),
                "status": draw(st.sampled_from(["open", "mitigating", "accepted"])),
                "raised_date": draw(moments),
                "due_date": draw(st.one_of(moments, st.none())),
            }
            for each in ids
        ]
    }


# Any content: numbers, texts and null, in lists and maps.
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), amounts, words),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["id", "name", "a", "b"]), inner, max_size=4),
        st.lists(st.fixed_dictionaries({"id": st.sampled_from("ABC"), "a": inner}), max_size=3),
    ),
    max_leaves=12,
)


@pytest.mark.proves("AP-54")
@given(st.lists(counts, min_size=4, max_size=4), st.lists(counts, min_size=4, max_size=4), counts)
def test_backlog_is_valid_only_if_both_sums_equal_the_total(a: list[int], b: list[int], total: int) -> None:
    for whole in (total, sum(a), sum(b)):
        summary = {
            "total_items": whole,
            "by_status": dict(zip(BACKLOG_SUMMARY["summary"]["by_status"], a, strict=True)),
            "by_priority": dict(zip(BACKLOG_SUMMARY["summary"]["by_priority"], b, strict=True)),
        }
        holds = sum(a) == sum(b) == whole
        assert _is_valid(BacklogSummary, BACKLOG_SUMMARY | {"summary": summary}) == holds


@pytest.mark.proves("AP-54")
@given(amounts, amounts, amounts, amounts)
def test_sprint_is_valid_only_if_its_parts_fit_the_total(
    total: Decimal, done: Decimal, doing: Decimal, blocked: Decimal
) -> None:
    progress = {
        "total_points": total,
        "completed_points": done,
        "in_progress_points": doing,
        "blocked_points": blocked,
    }
    content = replace_at(DELIVERY_STATE, "current_sprint.progress", progress)
    assert _is_valid(DeliveryState, content) == (done + doing + blocked <= total)


def _is_valid(schema: type[Any], content: dict[str, Any]) -> bool:
    try:
        return isinstance(parse_as(schema, content), Part)
    except ValueError:
        return False


@given(raid_logs())
def test_stores_a_validated_content_as_given(content: dict[str, Any]) -> None:
    assert to_stored(validate_content(RAID, content)) == content


@given(anything, anything)
def test_diff_is_empty_only_for_equal_contents(before: Any, after: Any) -> None:
    assert compute_differences(before, before) == []
    assert (compute_differences(before, after) == []) == _is_same(before, after)


def _is_same(before: Any, after: Any) -> bool:
    """Compare two contents independently of the code under test; True and 1 differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(_is_same(before[each], after[each]) for each in before)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(_is_same, before, after))
    return isinstance(before, bool) == isinstance(after, bool) and bool(before == after)


@given(raid_logs())
def test_csv_round_trips_its_cells_and_never_starts_a_formula(content: dict[str, Any]) -> None:
    read = list(csv.reader(io.StringIO(to_csv(RAID, content), newline="")))
    given_rows = [list(each) for each in iter_csv_rows(RAID, content)]
    assert [len(row) for row in read] == [len(row) for row in given_rows]
    for cell, original in zip(sum(read, []), sum(given_rows, []), strict=True):
        assert not cell.startswith(FORMULA_STARTS)
        assert cell in (original, f"'{original}")


@pytest.mark.proves("AP-X18")
@given(raid_logs())
def test_content_round_trips_through_its_json_encoding(content: dict[str, Any]) -> None:
    body = artefacts._ENCODER.encode(content)
    assert artefacts._DECODER.decode(body) == content
    assert item_size(content) <= len(body) + 16


@pytest.mark.proves("AP-15", "AP-X17")
@settings(max_examples=20, deadline=None)
@given(raid_logs(), raid_logs())
async def test_undoing_twice_changes_only_the_version(first: dict[str, Any], second: dict[str, Any]) -> None:
    if first == second:
        return

    async with open_project_stores() as stores:
        await update(stores, PROJECT, RAID, first, 0)
        before = await update(stores, PROJECT, RAID, second, 1)
        assert await load_content(stores, await undo(stores, PROJECT, RAID, 2)) == first
        after = await undo(stores, PROJECT, RAID, 3)
        assert after.version == before.version + 2
        assert (after.content, after.previous_version) == (before.content, before.previous_version)
