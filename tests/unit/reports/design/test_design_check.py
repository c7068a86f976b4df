"""Design check: each rule reports a system that breaks it, and is silent on one that does not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Any

import pytest

from holdfast import (
    ALL,
    KEYS_ONLY,
    Attr,
    Component,
    Entity,
    IndexKey,
    Key,
    Lifetime,
    Load,
    Pattern,
    Rate,
    System,
    Table,
    Volume,
    attr,
    include,
    pattern,
)
from holdfast.core.limits import MAX_GLOBAL_INDEXES
from holdfast.guarantees import BREAKERS, LEASES, OUTBOX, Outbox
from holdfast.model.demo import Demo
from holdfast.model.entities import Scan, get_declaration
from holdfast.model.entities.entity import Document
from holdfast.model.entities.reads import Query
from holdfast.model.queues import Queue
from holdfast.model.system import Design as SystemDesign
from holdfast.operations.tables import Units
from holdfast.reports.design.design_check import RULES, apply_rules, build_design, check_design
from holdfast.reports.design.rules import indexes, items, partitions, patterns
from holdfast.reports.design.rules.base import Design, Finding, Rule
from holdfast.reports.measurement.pattern_measures import Measure, Target
from tests.unit.reports import shop

RATE = Rate(per="visit")


class Announced(Document):
    order_id: str


def make_system(
    tables: Sequence[Table] = (),
    declared: Sequence[Pattern[..., Any]] = (),
    *,
    components: Sequence[Component] = (),
    volume: Volume | None = None,
    peak_factor: float = 1.0,
    grows_to: dict[str, int] | None = None,
) -> System:
    """Build a system; `grows_to` is the declared maximum item size by table."""
    return System(
        name="small",
        purpose="",
        tables=tables,
        patterns=declared,
        components=components,
        design=SystemDesign(
            load=Load(
                volumes={"visit": volume or Volume(per_month=1_000)},
                peak_factor=peak_factor,
                max_item_bytes=grows_to or {},
            )
        ),
    )


def apply_rule(rule: Rule, looked_at: System | Design) -> list[Finding]:
    """Return the rule's findings on a design, or on a system without measures."""
    return list(rule(looked_at if isinstance(looked_at, Design) else Design(looked_at)))


def severities(found: Iterable[Finding]) -> list[tuple[str, str]]:
    """Return the severity and subject of each finding."""
    return [(finding.severity, finding.subject) for finding in found]


def make_pattern(query: Any, *, id: str = "R1", example: Any = ()) -> Pattern[..., Any]:
    """Declare a pattern `read` that returns this operation, or calls it if it is a function."""

    @pattern(id, "Reads", rate=RATE, example=example)
    def read() -> Any:
        return query() if callable(query) else query

    return read


class TestWithoutASample:
    async def test_reports_that_nothing_was_measured(self) -> None:
        seen = await check_design(make_system([shop.orders], [make_pattern(shop.Order.of("o-1").get())]))

        assert any("nothing was measured" in finding.message for finding in seen)

    async def test_condition_that_fails_on_empty_tables_is_a_warning(self) -> None:
        update = shop.Order.of("o-1").update().set(shop.Order.note, "a")
        looked_at = await build_design(make_system([shop.orders], [make_pattern(update, id="W")]))

        (finding,) = [
            each for each in apply_rule(patterns.find_missing_sample, looked_at) if each.severity == "warning"
        ]
        assert "W read" in finding.message

    async def test_refusal_by_the_store_for_another_reason_is_a_warning(self) -> None:
        empty = make_pattern(shop.Order.of("").get())
        looked_at = await build_design(make_system([shop.orders], [empty]))

        (finding,) = apply_rule(patterns.find_failing_examples, looked_at)
        assert finding.severity == "warning"
        assert "on empty tables, it fails" in finding.message


async def test_reports_a_table_of_patterns_that_the_system_does_not_list() -> None:
    stored = make_pattern(shop.Order.of("o-1").get(), id="R")
    unlisted = await check_design(make_system([], [stored]))

    (finding,) = [each for each in unlisted if each.severity == "error"]
    assert finding.subject == shop.orders.name
    assert finding.message == "R read use this table, which the system does not list."
    assert apply_rule(patterns.find_unlisted_tables, make_system([shop.orders], [stored])) == []


class TestQuantities:
    @pytest.mark.parametrize(
        ("load", "expected"),
        [
            (Load(volumes={"visit": Volume(per_month=-5)}), "per_month=-5"),
            (Load(volumes={"visit": Volume(per_month=math.nan)}), "per_month=nan"),
            (Load(volumes={"visit": Volume(per_month=1, distinct_keys=0)}), "distinct_keys=0"),
            (Load(volumes={"visit": Volume(per_month=1, hottest=1.5)}), "hottest=1.5"),
            (Load(volumes={"visit": Volume(per_month=1)}, peak_factor=-1), "peak_factor=-1"),
            (Load(distinct_keys={"customer-index": -2}), "distinct_keys=-2"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_invalid_quantity_is_an_error(self, load: Load, expected: str) -> None:
        (finding,) = apply_rule(
            patterns.find_invalid_quantities,
            replace(make_system([shop.orders]), design=SystemDesign(load=load)),
        )

        assert finding.severity == "error"
        assert expected in finding.message

    def test_item_of_zero_bytes_is_an_error(self) -> None:
        load = replace(shop.SYSTEM.design.load, item_bytes={shop.SYSTEM.patterns[0].id: 0})
        (finding,) = apply_rule(
            patterns.find_invalid_quantities,
            replace(shop.SYSTEM, design=replace(shop.SYSTEM.design, load=load)),
        )

        assert (finding.severity, finding.subject) == ("error", shop.SYSTEM.patterns[0].id)

    def test_a_negative_rate_is_an_error(self) -> None:
        @pattern("N", "Never", rate=Rate(per="visit", times=-2), example=())
        def never() -> Any:
            return shop.Order.of("o-1").get()

        (finding,) = apply_rule(patterns.find_invalid_quantities, make_system([shop.orders], [never]))

        assert (finding.severity, finding.subject) == ("error", "N never")


async def test_good_system_has_only_information_that_says_what_is_wrong_and_what_to_do() -> None:
    for finding in await check_design(shop.SYSTEM):
        assert (finding.system, finding.severity) == ("shop", "info")
        assert finding.subject and finding.message.endswith((".", "!")) and finding.remedy.endswith(".")


async def test_good_system_keeps_these_rules() -> None:
    design = await build_design(shop.SYSTEM)

    for rule in (
        patterns.find_missing_sample,
        patterns.find_invalid_quantities,
        patterns.find_queries_without_key,
        patterns.find_rates_without_volume,
        patterns.find_unused_patterns,
        indexes.find_unused_indexes,
        partitions.find_hot_partitions,
    ):
        assert apply_rule(rule, design) == [], rule


def test_sorts_findings_by_severity() -> None:
    table = Table("Things", partition="id")
    table.global_index("unused", "other")

    class Thing(Entity, table=table):
        id: Attr[str] = attr()
        of = Key(id)

    bad = make_system([table], [make_pattern(lambda: Thing.of().get()), make_pattern(lambda: 1 / 0, id="R2")])  # type: ignore[call-arg]
    found = [finding.severity for finding in apply_rules(Design(bad))]

    assert found == sorted(found, key=("error", "warning", "info").index)
    assert {"error", "warning", "info"} <= set(found)


def test_every_rule_has_a_docstring() -> None:
    assert all(rule.__doc__ for rule in RULES)
    assert len(set(RULES)) == len(RULES)


class TestExamples:
    def test_a_pattern_that_takes_arguments_needs_an_example(self) -> None:
        @pattern("E1", "Takes something", rate=RATE)
        def takes(order_id: str) -> Any:
            return shop.Order.of(order_id).get()

        (finding,) = apply_rule(patterns.find_uncallable_examples, make_system(declared=[takes]))

        assert (finding.severity, finding.subject) == ("error", "E1 takes")
        assert "order_id" in finding.message and "no example" in finding.message

    def test_a_condition_used_as_a_truth_value_is_found(self) -> None:
        @pattern("E2", "Joins with and", rate=RATE, example=("c-1",))
        def joins(customer_id: str) -> Any:
            both = (shop.Order.note == "a") and (shop.Order.note == "b")
            return shop.Order.by_customer(customer_id).query().where(both)

        (finding,) = apply_rule(patterns.find_uncallable_examples, make_system(declared=[joins]))

        assert "no truth value" in finding.message

    def test_an_example_that_works_and_a_pattern_without_arguments_are_fine(self) -> None:
        declared = [shop.order_of, make_pattern(shop.Order.of("o-1").get())]

        assert apply_rule(patterns.find_uncallable_examples, make_system(declared=declared)) == []

    async def test_finds_an_example_that_fails_on_the_sample(self) -> None:
        @pattern("E3", "Creates what is there", rate=shop.CHECKOUT, example=lambda: (shop.make_order(1),))
        def taken(placed: shop.Order) -> Any:
            return shop.Order.create(placed)

        with_sample = System(
            name="shop",
            purpose="",
            tables=shop.SYSTEM.tables,
            patterns=(taken, shop.place),
            demo=Demo(sample=shop.sample),
        )
        found_here = apply_rule(patterns.find_failing_examples, await build_design(with_sample))

        assert severities(found_here) == [("error", "E3 taken")]

    async def test_says_nothing_about_missing_items_without_a_sample(self) -> None:
        bare = make_system([shop.orders], [shop.give])

        assert apply_rule(patterns.find_failing_examples, await build_design(bare)) == []


class TestScans:
    def test_a_scan_without_a_reason_is_an_error(self) -> None:
        silent_scan: Scan[shop.Order] = Scan(get_declaration(shop.Order))

        (finding,) = apply_rule(patterns.find_scans, make_system(declared=[make_pattern(silent_scan)]))

        assert finding.severity == "error"

    def test_scan_with_a_reason_is_informational(self) -> None:
        (finding,) = apply_rule(
            patterns.find_scans,
            make_system(declared=[make_pattern(shop.Order.scan(reason="a yearly audit"))]),
        )

        assert finding.severity == "info"
        assert "a yearly audit" in finding.message

    def test_a_count_over_a_scan_is_a_scan(self) -> None:
        counted = make_pattern(shop.Order.scan(reason="a yearly audit").count())

        assert severities(apply_rule(patterns.find_scans, make_system(declared=[counted]))) == [
            ("info", "R1 read")
        ]

    def test_query_is_not_a_scan(self) -> None:
        assert apply_rule(patterns.find_scans, make_system(declared=[shop.orders_of])) == []


class TestKeys:
    def test_a_query_without_its_partition_key_is_an_error(self) -> None:
        keyless: Query[shop.Order] = Query(get_declaration(shop.Order), read_index=shop.by_customer)

        (finding,) = apply_rule(
            patterns.find_queries_without_key, make_system(declared=[make_pattern(keyless)])
        )

        assert finding.severity == "error"
        assert "customerId" in finding.message


class TestRates:
    def test_rate_per_an_undeclared_volume_is_an_error(self) -> None:
        (finding,) = apply_rule(patterns.find_rates_without_volume, make_system(declared=[shop.place]))

        assert (finding.severity, finding.subject) == ("error", "checkout")
        assert finding.message.startswith("The rate of S4 place is per checkout")

    def test_reports_a_volume_that_many_rates_lack_once(self) -> None:
        def of(number: int, per: str) -> Pattern[..., Any]:
            @pattern(f"R{number}", "Reads", rate=Rate(per=per), example=("o-1",))
            def read(order_id: str) -> Any:
                return shop.Order.of(order_id).get()

            return read

        declared_system = make_system(
            declared=[*(of(number, "sale") for number in range(6)), of(9, "return")]
        )
        first, second = apply_rule(patterns.find_rates_without_volume, declared_system)

        assert (first.subject, second.subject) == ("sale", "return")
        assert first.message.startswith("The rate of R0 read, R1 read, R2 read and 3 others is per sale")


class TestComponents:
    def test_a_pattern_that_no_component_runs_is_a_warning(self) -> None:
        some = make_system(
            declared=[shop.order_of, shop.place], components=[Component("a", uses=(shop.order_of,))]
        )

        assert severities(apply_rule(patterns.find_unused_patterns, some)) == [("warning", "S4 place")]

    def test_reports_a_system_without_components_once(self) -> None:
        none = make_system(declared=[shop.order_of, shop.place])

        assert severities(apply_rule(patterns.find_unused_patterns, none)) == [("info", "small")]

    def test_operator_patterns_of_an_outbox_need_no_component(self) -> None:
        outbox = Outbox(Queue("orders", Announced), prefix="OB", rate=RATE)
        relay = Component("relay", uses=(outbox.publisher, outbox.relay))
        whole = make_system([OUTBOX], components=[relay])

        assert apply_rule(patterns.find_unused_patterns, whole) == []

    def test_outbox_without_a_relay_is_a_warning(self) -> None:
        outbox = Outbox(Queue("orders", Announced), prefix="OB", rate=RATE)
        door = Component("door", uses=(outbox.publisher,))
        mute = make_system([OUTBOX], components=[door])

        assert len(apply_rule(patterns.find_unused_patterns, mute)) == len(outbox.relay.patterns)


class TestUnusedIndexes:
    def test_unread_index_is_a_warning_and_an_optional_one_informational(self) -> None:
        seen = apply_rule(indexes.find_unused_indexes, make_system([shop.orders], [shop.order_of]))

        assert severities(seen) == [("warning", "Orders.customer-index"), ("info", "Orders.status-index")]


class TestTooManyIndexes:
    @pytest.mark.parametrize(("more", "expected"), [(0, []), (1, [("error", "Things")])])
    def test_more_indexes_than_the_service_allows_is_an_error(
        self, more: int, expected: list[tuple[str, str]]
    ) -> None:
        table = Table("Things", partition="id")
        for number in range(MAX_GLOBAL_INDEXES + more):
            table.global_index(f"index-{number}", f"a{number}")

        assert severities(apply_rule(indexes.find_too_many_indexes, make_system([table]))) == expected

    def test_local_indexes_have_their_own_limit(self) -> None:
        table = Table("Things", partition="id", sort="at")
        for number in range(6):
            table.local_index(f"index-{number}", f"a{number}")

        (finding,) = apply_rule(indexes.find_too_many_indexes, make_system([table]))

        assert "6 local" in finding.message


class TestProjections:
    def test_projecting_whole_items_for_partial_readers_is_a_warning_with_the_saving(self) -> None:
        selecting = make_pattern(shop.Order.by_customer("c").query().select(shop.Order.status))
        counting = make_pattern(shop.Order.by_customer("c").query().count(), id="R2")

        (finding,) = apply_rule(
            indexes.find_wide_projections, make_system([shop.orders], [selecting, counting, shop.place])
        )

        assert (finding.severity, finding.subject) == ("warning", "Orders.customer-index")
        assert "% smaller" in finding.message
        assert "include('status')" in finding.remedy

    def test_readers_that_only_count_need_only_keys(self) -> None:
        counting = make_pattern(shop.Order.by_customer("c").query().count())

        (finding,) = apply_rule(indexes.find_wide_projections, make_system([shop.orders], [counting]))

        assert "KEYS_ONLY" in finding.remedy

    def test_attributes_of_a_filter_are_needed_too(self) -> None:
        counting = make_pattern(shop.Order.by_customer("c").query().where(shop.Order.note == "x").count())

        (finding,) = apply_rule(indexes.find_wide_projections, make_system([shop.orders], [counting]))

        assert "include('note')" in finding.remedy

    def test_one_reader_of_whole_items_justifies_the_projection(self) -> None:
        counting = make_pattern(shop.Order.by_customer("c").query().count())

        assert (
            apply_rule(indexes.find_wide_projections, make_system([shop.orders], [counting, shop.orders_of]))
            == []
        )

    def test_reading_whole_items_from_a_partial_index_is_an_error(self) -> None:
        table, Thing = make_things(KEYS_ONLY)  # noqa: N806 - a class
        bad = make_system([table], [make_pattern(lambda: Thing.by_kind("a").query())])

        (finding,) = apply_rule(indexes.find_narrow_projections, bad)

        assert finding.severity == "error"
        assert "text" in finding.message

    def test_a_projection_that_has_what_is_needed_is_fine(self) -> None:
        """Whole items from an index that projects every attribute, and a count from an index of keys only."""
        for projection in (include("text", "remark"), KEYS_ONLY):
            table, Thing = make_things(projection)  # noqa: N806 - a class
            query = Thing.by_kind("a").query()
            read = query if projection is not KEYS_ONLY else query.count()
            good = make_system([table], [make_pattern(read)])

            assert apply_rule(indexes.find_narrow_projections, good) == []
            assert apply_rule(indexes.find_wide_projections, good) == []

    def test_reports_a_missing_attribute_that_has_a_default(self) -> None:
        table, Thing = make_things(include("text"))  # noqa: N806 - a class
        query = Thing.by_kind("a").query()

        (finding,) = apply_rule(indexes.find_narrow_projections, make_system([table], [make_pattern(query)]))

        assert finding.severity == "error"
        assert "does not project remark" in finding.message


class Side(StrEnum):
    left = "left"
    right = "right"


class TestFewPartitionKeys:
    def test_reports_an_index_over_few_values_with_the_load_of_each(self) -> None:
        table, write = make_sided()

        seen = apply_rule(
            indexes.find_few_partition_keys,
            Design(make_system([table], [write]), {"W": make_write_measure(write, "by-side")}),
        )

        assert severities(seen) == [("info", "Sides.by-side")]
        assert "2 values only" in seen[0].message

    def test_few_keys_that_cannot_take_the_declared_writes_are_an_error(self) -> None:
        table, write = make_sided()
        busy = make_system([table], [write], volume=Volume(per_month=6_000_000_000, distinct_keys=10**6))

        seen = apply_rule(
            indexes.find_few_partition_keys, Design(busy, {"W": make_write_measure(write, "by-side")})
        )

        assert severities(seen) == [("error", "Sides.by-side")]

    def test_unbounded_set_of_partition_keys_is_fine(self) -> None:
        table, _ = make_things(ALL)

        assert apply_rule(indexes.find_few_partition_keys, make_system([table])) == []


PER_MONTH_OF_ONE_A_SECOND = 365.25 / 12 * 86400


class TestHotPartitions:
    @pytest.mark.parametrize(
        ("per_second", "hottest", "peak", "is_hot"),
        [(1_001, 1.0, 1, True), (999, 1.0, 1, False), (100, 1.0, 11, True), (10_000, 0.05, 1, False)],
    )
    def test_a_key_with_more_writes_than_a_partition_serves_is_an_error(
        self, per_second: float, hottest: float, peak: float, is_hot: bool
    ) -> None:
        volume = Volume(per_month=per_second * PER_MONTH_OF_ONE_A_SECOND, hottest=hottest)

        @pattern("W", "Writes", rate=RATE, example=("o-1",))
        def write(order_id: str) -> Any:
            return shop.Order.of(order_id).delete()

        looked_at = Design(
            make_system([shop.orders], [write], volume=volume, peak_factor=peak),
            {"W": Measure(write, ms=1.0, units_by_target=((Target("Orders"), Units(write=1)),))},
        )

        expected = [("error", "Orders")] if is_hot else []
        assert severities(apply_rule(partitions.find_hot_partitions, looked_at)) == expected

    def test_counts_read_units_and_names_the_index(self) -> None:
        read = make_pattern(shop.Order.by_customer("c").query())
        used = ((Target("Orders", "customer-index"), Units(read=82.5)),)
        volume = Volume(per_month=40 * PER_MONTH_OF_ONE_A_SECOND)

        seen = apply_rule(
            partitions.find_hot_partitions,
            Design(
                make_system([shop.orders], [read], volume=volume),
                {"R1": Measure(read, ms=1.0, units_by_target=used)},
            ),
        )

        assert severities(seen) == [("error", "Orders.customer-index")]
        assert "3,300 read units" in seen[0].message
        assert "Cache the items" in seen[0].remedy

    def test_sums_patterns_of_one_volume(self) -> None:
        volume = Volume(per_month=600 * PER_MONTH_OF_ONE_A_SECOND)
        writes = [make_pattern(shop.Order.of("o-1").delete(), id=id) for id in ("W1", "W2")]

        (finding,) = apply_rule(
            partitions.find_hot_partitions, make_system([shop.orders], writes, volume=volume)
        )

        assert "1,200 write units" in finding.message
        assert "W1 and W2" in finding.message

    def test_index_with_fewer_keys_than_the_table_gets_their_share(self) -> None:
        """Use the declared number of keys, or the sample's where none is declared."""
        by_customer = Target("Orders", "customer-index")
        volume = Volume(per_month=6_000 * PER_MONTH_OF_ONE_A_SECOND, distinct_keys=10_000)

        @pattern("W", "Writes", rate=RATE, example=("o-1",))
        def write(order_id: str) -> Any:
            return shop.Order.of(order_id).delete()

        used = {"W": Measure(write, ms=1.0, units_by_target=((by_customer, Units(write=1)),))}
        spread = make_system([shop.orders], [write], volume=volume)
        load = spread.design.load
        few, many = (
            replace(spread, design=SystemDesign(load=replace(load, distinct_keys={"customer-index": keys})))
            for keys in (4, 5_000)
        )

        assert apply_rule(partitions.find_hot_partitions, Design(spread, used)) == []
        (declared,) = apply_rule(partitions.find_hot_partitions, Design(few, used))
        (seen,) = apply_rule(partitions.find_hot_partitions, Design(spread, used, True, {by_customer: 5}))
        assert "1,500 write units" in declared.message and "0.25 of the load on one key" in declared.message
        assert "1,200 write units" in seen.message and "the sample has 5 keys of it" in seen.message
        assert apply_rule(partitions.find_hot_partitions, Design(many, used, True, {by_customer: 5})) == []

    async def test_counts_the_sample_keys_that_items_share(self) -> None:
        design = await build_design(shop.SYSTEM)

        # All orders are open; nearly every order has its own customer.
        assert design.key_counts == {Target("Orders", "status-index"): 1}


class TestGrowth:
    @pytest.mark.parametrize(
        ("size", "expected"),
        [
            (401 * 1024, [("error", "Orders")]),
            (300 * 1024, [("warning", "Orders")]),
            (20 * 1024, []),
        ],
    )
    def test_finds_items_that_grow_towards_400_kb(self, size: int, expected: list[tuple[str, str]]) -> None:
        looked_at = make_system([shop.orders], grows_to={"Orders": size})

        assert severities(apply_rule(items.find_oversized_items, looked_at)) == expected

    def test_size_for_an_unknown_table_is_an_error(self) -> None:
        looked_at = make_system([shop.orders], grows_to={"Order": 100})

        assert severities(apply_rule(items.find_oversized_items, looked_at)) == [("error", "Order")]

    def test_append_to_a_list_or_set_is_a_warning_until_its_maximum_is_declared(self) -> None:
        table = Table("Logs", partition="id")

        class Log(Entity, table=table):
            id: Attr[str] = attr()
            lines: Attr[list[str]] = attr(default=[])
            tags: Attr[frozenset[str]] = attr(default=frozenset())
            size: Attr[int] = attr(default=0)
            of = Key(id)

        appending = make_pattern(Log.of("a").update().append(Log.lines, "x"), id="A")
        including = make_pattern(Log.of("a").update().add_to_set(Log.tags, "x"), id="B")
        counting = make_pattern(Log.of("a").update().add(Log.size, 1), id="C")
        all_three = [appending, including, counting]

        unsaid = apply_rule(items.find_growing_collections, make_system([table], all_three))
        said = apply_rule(
            items.find_growing_collections, make_system([table], all_three, grows_to={"Logs": 9_000})
        )

        assert severities(unsaid) == [("warning", "A read"), ("warning", "B read")]
        assert said == []


class TestLifetimes:
    def test_table_that_only_grows_fast_is_a_warning(self) -> None:
        creating = make_pattern(shop.Order.create(shop.make_order(1)))
        looked_at = make_system([shop.orders], [creating], volume=Volume(per_month=5_000_000))

        assert severities(apply_rule(items.find_items_never_removed, looked_at)) == [("warning", "Orders")]

    def test_reports_slowly_growing_tables_together(self) -> None:
        creating = make_pattern(shop.Order.create(shop.make_order(1)))
        counting = make_pattern(shop.Customer.put(shop.Customer(customer_id="c-1")), id="C")

        (finding,) = apply_rule(
            items.find_items_never_removed, make_system(shop.SYSTEM.tables, [creating, counting])
        )

        assert (finding.severity, finding.subject) == ("info", "small")
        assert "Orders (1,000) and Customers (1,000)" in finding.message

    def test_deleting_pattern_limits_growth(self) -> None:
        creating = make_pattern(shop.Order.create(shop.make_order(1)))
        deleting = make_pattern(shop.Order.of("o-1").delete(), id="D")

        assert (
            apply_rule(items.find_items_never_removed, make_system([shop.orders], [creating, deleting])) == []
        )

    def test_lifetime_limits_growth(self) -> None:
        table = Table("Tokens", partition="id", ttl="expires_at")

        class Token(Entity, table=table):
            id: Attr[str] = attr()
            ends: Attr[datetime] = attr()
            of = Key(id)
            lifetime = Lifetime(ends)

        put = make_pattern(Token.put(Token(id="a", ends=shop.BEGAN)))
        assert apply_rule(items.find_items_never_removed, make_system([table], [put])) == []

    def test_expiry_written_by_a_guarantee_limits_growth(self) -> None:
        outbox = Outbox(Queue("orders", Announced), prefix="OB", rate=RATE)
        tables = [OUTBOX, BREAKERS, LEASES]
        whole = make_system(tables, outbox.patterns, volume=Volume(per_month=9_000_000))

        assert apply_rule(items.find_items_never_removed, whole) == []
        assert apply_rule(items.find_entities_without_lifetime, whole) == []

    def test_lifetime_and_deletion_of_another_entity_do_not_limit_growth(self) -> None:
        table = Table("Desk", partition="pk", ttl="expires_at")

        class Token(Entity, table=table):
            id: Attr[str] = attr()
            ends: Attr[datetime] = attr()
            of = Key("TOKEN#" + id)
            lifetime = Lifetime(ends)

        class Note(Entity, table=table):
            id: Attr[str] = attr()
            of = Key("NOTE#" + id)

        class Draft(Entity, table=table):
            id: Attr[str] = attr()
            of = Key("DRAFT#" + id)

        declared = [
            make_pattern(Token.put(Token(id="a", ends=shop.BEGAN)), id="T"),
            make_pattern(Note.put(Note(id="a")), id="N"),
            make_pattern(Draft.put(Draft(id="a")), id="D"),
            make_pattern(Draft.of("a").delete(), id="E"),
        ]

        (finding,) = apply_rule(items.find_items_never_removed, make_system([table], declared))

        assert "per month): Desk, Note (1,000);" in finding.message


class TestReservedWords:
    def test_reserved_attribute_name_is_informational(self) -> None:
        (finding,) = apply_rule(items.find_reserved_words, make_system([shop.orders]))

        assert finding.severity == "info"
        assert finding.message.startswith("status is a reserved word")

    def test_attribute_names_that_are_not_reserved_are_fine(self) -> None:
        assert apply_rule(items.find_reserved_words, make_system([shop.customers])) == []


def make_things(projection: Any) -> tuple[Table, Any]:
    """Return a table of things with an index by kind of this projection, and the entity class."""
    table = Table("Things", partition="id")
    index = table.global_index("by-kind", "kind", projection=projection)

    class Thing(Entity, table=table):
        id: Attr[str] = attr()
        kind: Attr[str] = attr()
        text: Attr[str] = attr()
        remark: Attr[str] = attr(default="")
        of = Key(id)
        by_kind = IndexKey(index, kind)

    return table, Thing


def make_sided() -> tuple[Table, Pattern[..., Any]]:
    """Return a table with an index over a key of two values, and a pattern that puts an item."""
    table = Table("Sides", partition="id")
    index = table.global_index("by-side", "side")

    class Sided(Entity, table=table):
        id: Attr[str] = attr()
        side: Attr[Side] = attr()
        of = Key(id)
        by_side = IndexKey(index, side)

    return table, make_pattern(Sided.put(Sided(id="a", side=Side.left)), id="W")


def make_write_measure(write: Pattern[..., Any], index: str) -> Measure:
    """Return a measure of one write unit on the index."""
    return Measure(write, ms=1.0, units_by_target=((Target("Sides", index), Units(write=1)),))
