"""Hot partition keys of the news desk, at the declared load and at the loads in `what_if`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from holdfast import (
    KEYS_ONLY,
    Attr,
    Entity,
    IndexKey,
    Key,
    Load,
    Put,
    Rate,
    System,
    Table,
    Volume,
    attr,
    pattern,
)
from holdfast.core.errors import DeclarationError
from holdfast.model.system import Design as SystemDesign
from holdfast.reports.design.design_check import build_design, check_design
from holdfast.reports.design.rules.base import Design, Finding
from holdfast.reports.design.rules.partitions import KeyLoadScope, compute_key_loads, find_hot_partitions
from holdfast.reports.design.rules.what_if import find_what_if_limits
from holdfast.reports.measurement.pattern_measures import Target
from tests.unit.reports import news_desk

TABLE, INDEX = Target("News"), Target("News", "day-index")


@pytest.fixture(scope="module")
def design() -> Design:
    return asyncio.run(build_design(news_desk.SYSTEM))


def with_load(design: Design, load: Load) -> Design:
    """Return the design with another load."""
    return replace(design, system=replace(design.system, design=replace(design.system.design, load=load)))


def select_messages(found: Sequence[Finding], severity: str, case: str) -> list[str]:
    """Return the messages of this severity about the load named `case`."""
    return [each.message for each in found if each.severity == severity and f"At {case}" in each.message]


def test_declared_key_takes_all_its_load_and_the_rest_spreads(design: Design) -> None:
    found = {
        (spot.target, spot.key or spot.volume_name): heat for spot, heat in compute_key_loads(design).items()
    }

    assert found[TABLE, "ALL"].write == pytest.approx(1)
    assert found[TABLE, "ALL"].patterns == {"N1": None, "N4": None}
    assert found[TABLE, "news"].write == pytest.approx(2 / 1000)  # N3 and N5, over a thousand papers


def test_star_declares_one_current_key_also_for_an_update(design: Design) -> None:
    day = compute_key_loads(design)[KeyLoadScope(INDEX, "", "DAY#*")]

    assert list(day.patterns) == ["N2", "N3", "N5"]
    assert day.write == pytest.approx(2)


def test_constant_key_template_need_not_be_declared(design: Design) -> None:
    bare = compute_key_loads(with_load(design, news_desk.make_load(1, hot_keys={})))

    assert bare[KeyLoadScope(TABLE, "", "SETTINGS")].read == pytest.approx(0.5)
    assert KeyLoadScope(TABLE, "", "ALL") not in bare


def test_too_much_load_on_one_key_is_an_error_at_the_declared_load(design: Design) -> None:
    found = list(find_hot_partitions(with_load(design, news_desk.make_load(1500))))

    assert [(each.severity, each.subject) for each in found] == [
        ("error", "News"),
        ("error", "News.day-index"),
    ]
    assert "the key ALL gets 1,500 write units per second, and a partition serves 1,000" in found[0].message
    assert "one key DAY#… gets 3,000 write units" in found[1].message
    assert "shard number" in found[0].remedy


async def test_transactional_writes_count_twice() -> None:
    transacted = replace(
        news_desk.SYSTEM,
        design=replace(news_desk.SYSTEM.design, load=news_desk.make_load(1, transacted_patterns=("N4",))),
    )

    found = compute_key_loads(await build_design(transacted))

    assert found[KeyLoadScope(TABLE, "", "ALL")].write == pytest.approx(2)
    assert found[KeyLoadScope(INDEX, "", "DAY#*")].write == pytest.approx(2)


def test_declared_item_size_replaces_the_examples_also_in_an_index(design: Design) -> None:
    sized = compute_key_loads(
        with_load(design, news_desk.make_load(1, item_bytes={"N3": 24_900, "N4": 3_000}))
    )

    assert sized[KeyLoadScope(TABLE, "", "ALL")].write == pytest.approx(3)
    assert sized[KeyLoadScope(INDEX, "", "DAY#*")].write == pytest.approx(
        25 + 1
    )  # N3, and N5 as its example is
    assert sized[KeyLoadScope(TABLE, "news")].write == pytest.approx((25 + 1) / 1000)


async def test_declared_item_size_counts_twice_in_a_transaction() -> None:
    load = news_desk.make_load(1, transacted_patterns=("N4",), item_bytes={"N4": 3_000})

    found = compute_key_loads(
        await build_design(replace(news_desk.SYSTEM, design=replace(news_desk.SYSTEM.design, load=load)))
    )

    assert found[KeyLoadScope(TABLE, "", "ALL")].write == pytest.approx(6)


async def test_keys_only_index_does_not_grow_with_the_item() -> None:
    notes = Table("Notes", "id")
    topics = notes.global_index("topic-index", "topic", projection=KEYS_ONLY)

    class Note(Entity, table=notes):
        id: Attr[str] = attr()
        topic: Attr[str] = attr()
        of = Key(id)
        by_topic = IndexKey(topics, topic)

    @pattern("K1", "A note", rate=Rate(per="note"), example=lambda: (Note(id="1", topic="t"),))
    def note(new: Note) -> Put[Note]:
        return Note.create(new)

    load = Load({"note": Volume(news_desk.MONTH)}, item_bytes={"K1": 10_000})
    system = System(
        name="notes", purpose="Notes", tables=(notes,), patterns=(note,), design=SystemDesign(load=load)
    )
    found = {spot.target: heat.write for spot, heat in compute_key_loads(await build_design(system)).items()}

    assert found == pytest.approx({Target("Notes"): 10, Target("Notes", "topic-index"): 1})


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        (
            {"transacted_patterns": ("N4", "N9")},
            "Invalid transacted_patterns in the load 'load' of newsdesk: N9",
        ),
        ({"item_bytes": {"N9": 1}}, r"item_bytes .*: N9 is not one of its patterns \(N1, "),
        (
            {"hot_keys": {"Newz": ("ALL",)}},
            r"hot_keys .*: Newz is not one of its tables and indexes \(News, day-index",
        ),
        ({"distinct_keys": {"days": 3}}, "distinct_keys .*: days is not one of"),
    ],
)
def test_rejects_a_load_that_names_unknown_patterns_tables_or_indexes(
    load: dict[str, Any], expected: str
) -> None:
    with pytest.raises(DeclarationError, match=expected):
        replace(
            news_desk.SYSTEM, design=replace(news_desk.SYSTEM.design, load=news_desk.make_load(1, **load))
        )
    with pytest.raises(DeclarationError, match=expected.replace("'load'", "'a flood'")):
        replace(
            news_desk.SYSTEM,
            design=replace(news_desk.SYSTEM.design, what_if={"a flood": news_desk.make_load(1, **load)}),
        )


@pytest.fixture(scope="module")
def found() -> list[Finding]:
    return asyncio.run(check_design(news_desk.SYSTEM))


def test_other_loads_are_never_errors(found: list[Finding]) -> None:
    assert [each for each in found if each.severity == "error"] == []


def test_reports_the_load_of_each_key_far_from_the_limit_as_info(found: list[Finding]) -> None:
    assert select_messages(found, "warning", "a quiet day") == []
    table, index = select_messages(found, "info", "a quiet day")
    assert "the key ALL of News takes 1 of 1,000 write units and 0.5 of 3,000 read units" in table
    assert "the key SETTINGS of News takes 0.5 of 3,000 read units" in table
    assert "the busiest key of News by news takes 0.002 of 1,000 write units" in table
    assert "one key DAY#… of News.day-index takes 2 of 1,000 write units" in index


def test_warns_near_the_limit_with_the_factor_that_reaches_it(found: list[Finding]) -> None:
    near, over = select_messages(found, "warning", "a busy day")

    assert "the key ALL of News would take 600 of 1,000 write units" in near
    assert "1.7 × this load reaches the limit (by N1 and N4)" in near
    assert "DAY#… of News.day-index would take 1,200 of 1,000 write units" in over
    assert "more than it serves" in over


def test_a_warning_has_the_remedy(found: list[Finding]) -> None:
    warnings = [each for each in found if "At a landslide: the key ALL" in each.message]

    assert ["shard number" in each.remedy for each in warnings] == [True]


def test_warns_about_rates_whose_volume_a_load_lacks(design: Design) -> None:
    cases = {"half a load": Load({"news": Volume(1)})}
    other = replace(
        design, system=replace(design.system, design=replace(design.system.design, what_if=cases))
    )

    [warning] = select_messages(list(find_what_if_limits(other)), "warning", "half a load")

    assert "is per visit, and the system has no volume of that name" in warning


def test_reports_nothing_for_a_system_without_what_ifs(design: Design) -> None:
    silent: System = replace(design.system, design=replace(design.system.design, what_if={}))

    assert list(find_what_if_limits(replace(design, system=silent))) == []
