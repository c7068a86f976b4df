"""`build_retention_report` on declarations: what is kept, for how long, and what has no end."""

from __future__ import annotations

import pytest

from holdfast import Attr, Entity, Key, Rate, System, Table, attr
from holdfast.core.errors import DeclarationError
from holdfast.guarantees import (
    BREAKERS,
    LEASES,
    OUTBOX,
    Lease,
    LeaseItem,
    Once,
    OnceRecord,
    Period,
    RetentionEntry,
    build_retention_report,
    declare_retention,
)
from holdfast.model.system import Privacy
from tests.unit.guarantees.privacy.help_desk import HELP_DESK

DAY = 86400


def rows() -> dict[tuple[str, str], RetentionEntry]:
    """Return the help desk's retention entries by name and kind of data."""
    return {(kept.name, kept.what): kept for kept in build_retention_report(HELP_DESK)}


def test_reports_the_lifetime_of_items() -> None:
    kept = rows()["Conversations", "items: Conversation"]

    assert (kept.seconds, kept.until, kept.problem) == (90 * DAY, "after began", "")


def test_reports_the_systems_period_where_the_code_writes_the_expiry() -> None:
    kept = rows()["Notes", "items: Note"]

    assert (kept.seconds, kept.until, kept.problem) == (60 * DAY, "until expires_at", "")
    assert kept.why == "what was done is asked about for two months"


def test_reports_a_problem_for_tables_without_a_declared_period() -> None:
    assert rows()["Counters", "items: Counter"].problem.startswith("It has no lifetime")
    assert "after an unknown time" in rows()["Untold", "items: Untold"].problem


def test_reports_an_optional_expiry_as_a_problem() -> None:
    table = Table("Sometimes", "id", ttl="endsAt")

    class Sometimes(Entity, table=table):
        id: Attr[str] = attr()
        ends_at: Attr[int | None] = attr(default=None)

        of = Key(id)

    (kept, *_) = build_retention_report(
        System("s", "", tables=(table,), privacy=Privacy(retention={"Sometimes": Period(60, "why")}))
    )

    assert kept.problem == "An item without ends_at has no end."


def test_reports_the_lifetime_that_a_guarantee_declares() -> None:
    charges = Table("Charges", "id", ttl="expires_at", naming=lambda name: name)

    class Charge(OnceRecord, table=charges):
        id: Attr[str] = attr()

        of = Key(id)

    Lease(LeaseItem, prefix="LE", rate=Rate("charge"))
    Once(
        Charge,
        prefix="CH",
        rate=Rate("charge"),
        example=Charge(id="c1", payload_sha256="0"),
        retention_s=30 * DAY,
    )
    system = System("s", "", tables=(charges, OUTBOX, BREAKERS, LEASES))

    found = {kept.what: kept for kept in build_retention_report(system) if kept.what.startswith("items")}

    assert found["items: Charge"].seconds == 30 * DAY
    assert [kept.what for kept in found.values() if kept.problem] == []
    assert "until it is sent to its queue" in found["items: OutboxItem"].why


@pytest.mark.parametrize(
    ("declared", "expected"),
    [((60.0, 30.0), 60.0), ((30.0, 60.0), 60.0), ((60.0, None), None), ((None, 60.0), None)],
)
def test_longest_declared_time_counts_and_no_end_is_the_longest(
    declared: tuple[float | None, ...], expected: float | None
) -> None:
    shared = Table("Shared", "id")

    class Shared(Entity, table=shared):
        id: Attr[str] = attr()

        of = Key(id)

    for seconds in declared:
        declare_retention(Shared, seconds, f"kept for {seconds}")
    (kept, *_) = build_retention_report(System("s", "", tables=(shared,)))
    assert (kept.seconds, kept.why) == (expected, f"kept for {expected}")


def test_systems_period_overrides_the_guarantees() -> None:
    period = Period(60, "ours is shorter")
    (kept, *_) = build_retention_report(
        System("s", "", tables=(LEASES,), privacy=Privacy(retention={LEASES.name: period}))
    )

    assert kept.why == "ours is shorter"


def test_reports_streams_recovery_and_backups() -> None:
    found = rows()

    assert found["Conversations", "stream: images of changed items"].seconds == DAY
    assert found["Conversations", "recovery: every former state"].seconds == 35 * DAY
    assert ("Notes", "stream: images of changed items") not in found
    assert ("Counters", "recovery: every former state") not in found
    assert found["Counters", "backups on demand"].until == "until they are deleted"


def test_reports_retention_of_queues_dead_letters_and_objects() -> None:
    found = rows()

    assert found["jobs", "messages"].seconds == DAY
    assert found["jobs", "dead letters"].seconds == 7 * DAY
    assert found["help-desk-archive", "mail/{id}.json"].seconds == 30 * DAY
    assert found["help-desk-archive", "picture/{id}"].problem.startswith("It has no lifetime")
    assert found["help-desk-archive", "objects under a legal hold"].until == "until the hold is lifted"


def test_rejects_unlimited_retention_without_a_reason() -> None:
    """With a reason it is accepted, and the report has no problem."""
    with pytest.raises(DeclarationError, match="must say why"):
        Period(None)
    table = Table("Forever", "id")

    class Forever(Entity, table=table):
        id: Attr[str] = attr()

        of = Key(id)

    (kept, *_) = build_retention_report(
        System("s", "", tables=(table,), privacy=Privacy(retention={"Forever": Period(None, "law")}))
    )

    assert (kept.seconds, kept.why, kept.problem) == (None, "law", "")


def test_rejects_a_period_for_an_unknown_table() -> None:
    with pytest.raises(DeclarationError, match="correct the name"):
        build_retention_report(System("s", "", privacy=Privacy(retention={"Nowhere": Period(60)})))


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(86400, "1 day"), (36 * 3600, "36 hours"), (90, "90 seconds"), (None, "for good")],
)
def test_formats_a_period_in_the_fitting_unit(seconds: float | None, expected: str) -> None:
    assert str(Period(seconds, "why")) == expected
