"""Design rules for queues and TTL: each reports a system that breaks it and is silent on the post room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from holdfast import Attr, Component, Entity, Key, Load, System, Table, Volume, attr, pattern
from holdfast.model.queues import Queue, Send
from holdfast.reports.design.design_check import RULES, check_design
from holdfast.reports.design.rules import items, patterns, queues
from holdfast.reports.design.rules.base import Design, Finding, Rule
from tests.unit.reports import post_room
from tests.unit.reports.post_room import (
    SYSTEM,
    Letter,
    archive,
    file_scan,
    letters,
    next_letters,
    notices,
    take_in,
)


def with_queue(**changed: Any) -> System:
    """Return the post room with one more queue, declared with these changes."""
    return replace(SYSTEM, queues=(*SYSTEM.queues, Queue("late", Letter, **changed)))


def apply_rule(rule: Rule, system: System) -> list[Finding]:
    """Return the rule's findings on a system without measures."""
    return list(rule(Design(system)))


def with_only_component(component: Component, declared: Sequence[Any] = SYSTEM.patterns) -> System:
    """Return the post room with these patterns and this component only."""
    return replace(SYSTEM, patterns=declared, components=(component,))


@pytest.mark.parametrize("rule", [each for each in RULES if each.__module__ == queues.__name__])
def test_rules_report_nothing_about_the_post_room(rule: Rule) -> None:
    assert apply_rule(rule, SYSTEM) == []


async def test_whole_check_of_the_post_room_gives_a_single_info() -> None:
    findings = await check_design(SYSTEM)

    assert [(each.severity, each.subject) for each in findings] == [("info", "postroom")]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"visibility_s": 50_000}, "visibility_s=50000"),
        ({"delay_s": 901}, "delay_s=901"),
        ({"retention_s": 59}, "retention_s=59"),
        ({"max_receives": 0}, "max_receives=0"),
        ({"dead_retention_s": 15 * 86400}, "dead_retention_s=1296000"),
    ],
)
def test_queue_parameter_that_sqs_rejects_is_an_error(changed: dict[str, int], expected: str) -> None:
    [finding] = apply_rule(queues.find_queue_limit_violations, with_queue(**changed))

    assert (finding.severity, finding.subject) == ("error", "late")
    assert expected in finding.message


def test_zero_visibility_timeout_is_an_error() -> None:
    [finding] = apply_rule(queues.find_zero_visibility_timeouts, with_queue(visibility_s=0))

    assert (finding.severity, finding.subject) == ("error", "late")


def test_a_queue_without_dead_letters_is_a_warning() -> None:
    [finding] = apply_rule(queues.find_queues_without_dead_letters, with_queue(max_receives=None))

    assert (finding.severity, finding.subject) == ("warning", "late")
    assert "group" not in finding.message


def test_finding_for_a_fifo_queue_mentions_the_blocked_group() -> None:
    queue = Queue(
        "late", Letter, fifo=True, group=lambda m: m.to, deduplication=lambda m: m.id, max_receives=None
    )
    [finding] = apply_rule(
        queues.find_queues_without_dead_letters, replace(SYSTEM, queues=(queue,), components=())
    )

    assert "its group" in finding.message


def test_attempts_that_outlast_the_retention_are_a_warning() -> None:
    [finding] = apply_rule(
        queues.find_conflicting_retentions, with_queue(visibility_s=3600, max_receives=30, retention_s=86400)
    )

    assert "30 attempts of 3600 s" in finding.message


def test_dead_letters_that_expire_with_the_other_messages_are_a_warning() -> None:
    [finding] = apply_rule(queues.find_conflicting_retentions, with_queue(dead_retention_s=4 * 86400))

    assert finding.severity == "warning"
    assert "dead letters" in finding.message


def test_queue_without_senders_or_receivers_is_a_warning() -> None:
    findings = apply_rule(queues.find_unconnected_queues, with_queue())

    assert [(each.severity, each.subject) for each in findings] == [("warning", "late")] * 2
    assert {each.message.split(" it")[0] for each in findings} == {
        "No pattern sends to",
        "No pattern receives from",
    }


def test_undeclared_queue_or_bucket_is_an_error() -> None:
    bare = replace(SYSTEM, queues=(), buckets=(), patterns=(take_in, file_scan), components=())
    findings = apply_rule(queues.find_undeclared_queues_and_buckets, bare)

    assert [each.severity for each in findings] == ["error", "error"]
    assert letters.name in findings[0].message
    assert "System(queues=…)" in findings[0].remedy
    assert archive.name in findings[1].message
    assert "System(buckets=…)" in findings[1].remedy


def test_receiving_without_deleting_is_an_error() -> None:
    [finding] = apply_rule(
        queues.find_receivers_without_delete, with_only_component(Component("clerk", uses=(next_letters,)))
    )

    assert (finding.severity, finding.subject) == ("error", "clerk, letters")


def test_fifo_queue_above_its_throughput_is_a_warning() -> None:
    busy = Load(volumes={"letter": Volume(per_month=1_000_000_000, distinct_keys=1_000)})
    findings = apply_rule(
        queues.find_busy_fifo_queues, replace(SYSTEM, design=replace(SYSTEM.design, load=busy))
    )

    assert {each.subject for each in findings} == {letters.name}
    assert notices.name not in {each.subject for each in findings}
    assert "SendMessage" in findings[0].message


def test_reports_a_failing_example_factory_with_its_reason() -> None:
    def none_there() -> tuple[Letter]:
        raise LookupError("no letter today")

    @pattern("L1", "A letter comes in", rate=take_in.rate, example=none_there)
    def send(letter: Letter) -> Send[Letter]:
        return letters.send(letter)

    [finding] = apply_rule(
        patterns.find_uncallable_examples, replace(SYSTEM, patterns=(send,), components=())
    )

    assert "LookupError: no letter today" in finding.message


forgetful = Table("Forgetful", partition="id", ttl="expiresAt")


class Kept(Entity, table=forgetful):
    id: Attr[str] = attr()
    of = Key(id)


def test_entity_without_expiry_in_a_table_with_ttl_is_a_warning() -> None:
    [finding] = apply_rule(
        items.find_entities_without_lifetime, replace(SYSTEM, tables=(*SYSTEM.tables, forgetful))
    )

    assert (finding.severity, finding.subject) == ("warning", "Forgetful")


def test_entity_without_expiry_is_fine_if_another_table_has_no_ttl() -> None:
    keeping = Table("Keeping", partition="id")

    assert apply_rule(items.find_entities_without_lifetime, SYSTEM) == []
    assert (
        apply_rule(
            items.find_entities_without_lifetime,
            replace(SYSTEM, tables=(post_room.register, forgetful, keeping)),
        )
        == []
    )
