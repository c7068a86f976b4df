"""Valid declarations of a system, and `assert_type` for everything that can be built from them.

The file passes the strict type check and can be imported; `bad.py` misuses its declarations.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import NewType, assert_type

from pydantic import Field

from holdfast import (
    KEYS_ONLY,
    Attr,
    Component,
    Delete,
    Document,
    Entity,
    EpochSeconds,
    Get,
    IndexKey,
    Key,
    Lifetime,
    Page,
    Put,
    Query,
    Rate,
    Stores,
    System,
    Table,
    Update,
    attr,
    batch_get,
    batch_put,
    pattern,
    transact,
)
from holdfast.model.entities import (
    BatchGet,
    BatchPut,
    Condition,
    ConditionCheck,
    CountQuery,
    ParallelQuery,
    Row,
    Scan,
    SelectQuery,
    TimestampSeconds,
    Transact,
    parallel_query,
)
from holdfast.model.operations import Count
from holdfast.model.ulids import Ulid

EmployeeId = NewType("EmployeeId", str)
ProjectId = NewType("ProjectId", str)


class BookingStatus(StrEnum):
    initiated = "initiated"
    confirmed = "confirmed"
    failed = "failed"


class ProjectStatus(StrEnum):
    active = "active"
    paused = "paused"


TERMINAL = (BookingStatus.confirmed, BookingStatus.failed)


class Leg(Document):
    origin: str
    departs: TimestampSeconds


class Plan(Document):
    title: str = ""
    legs: list[Leg] = Field(default_factory=list)


bookings = Table("Bookings", partition="employeeId", sort="bookingId", ttl="expiresAt")
open_bookings = bookings.global_index("open-bookings", "openStatus", "openSince", projection=KEYS_ONLY)


class Booking(Entity, table=bookings):
    """Entity with plain keys, a sparse index, a lifetime and a version."""

    employee_id: Attr[EmployeeId] = attr()
    booking_id: Attr[Ulid] = attr()
    status: Attr[BookingStatus] = attr(default=BookingStatus.initiated)
    user_request: Attr[str] = attr()
    created_at: Attr[datetime] = attr()
    plan: Attr[Plan | None] = attr(default=None)
    notes: Attr[list[str]] = attr(default_factory=list)
    tags: Attr[frozenset[str]] = attr(default=frozenset())
    price: Attr[Decimal] = attr(default=Decimal(0))
    confirmation_number: Attr[str | None] = attr("confirmation", default=None)
    retries: Attr[int | None] = attr(default=None)
    version: Attr[int] = attr(default=1)

    of = Key(employee_id, booking_id)
    by_open = IndexKey(open_bookings, status, created_at, only=status.one_of(BookingStatus.initiated))
    lives = Lifetime(created_at, timedelta(days=90))


pm = Table("Projects", partition="PK", sort="SK")
gsi1 = pm.global_index("GSI1", "GSI1PK", "GSI1SK")
gsi2 = pm.global_index("GSI2", "GSI2PK", "GSI2SK")
gsi3 = pm.global_index("GSI3", "GSI3PK", "GSI3SK", partition_type="N")
gsi4 = pm.global_index("GSI4", "GSI4PK", "GSI4SK")


def day(moment: datetime) -> date:
    return moment.date()


class Project(Entity, table=pm):
    """Entity whose key has a constant and one attribute, and another key of a constant alone."""

    id: Attr[ProjectId] = attr()
    name: Attr[str] = attr()
    status: Attr[ProjectStatus] = attr(default=ProjectStatus.active)

    of = Key("PROJECT#" + id, "METADATA")
    by_status = IndexKey(gsi1, "STATUS#" + status, "PROJECT#" + id)


class Event(Entity, table=pm):
    """Entity with composite key templates, a transformed attribute, and an optional one in a sparse index."""

    project_id: Attr[ProjectId] = attr()
    created_at: Attr[datetime] = attr()
    id: Attr[Ulid] = attr()
    number: Attr[int] = attr(default=0)
    severity: Attr[str | None] = attr(default=None)
    due: Attr[EpochSeconds | None] = attr(default=None)
    retry: Attr[int | None] = attr(default=None)

    of = Key("PROJECT#" + project_id, "EVENT#" + created_at + "#" + id)
    by_day = IndexKey(gsi1, "EVENT#" + created_at.transform(day), "N#" + number.zero_pad(8))
    by_due = IndexKey(gsi3, due, severity)
    by_due_day = IndexKey(gsi4, due.transform(day), retry.zero_pad(3))
    by_severity = IndexKey(gsi2, "SEVERITY#" + severity, created_at + "#" + id)


class Setting(Entity, table=pm):
    """Entity with a constant partition key, and one attribute in the sort key."""

    name: Attr[str] = attr()
    text: Attr[str] = attr(default="")

    of = Key("SETTINGS", "SETTING#" + name)


EMPLOYEE, BOOKING = EmployeeId("emp-42"), Ulid("01JCQZ8Y3M0000000000000000")
NOW = datetime(2026, 2, 4, 1, tzinfo=UTC)


def a_booking() -> Booking:
    return Booking(employee_id=EMPLOYEE, booking_id=BOOKING, user_request="to Oslo", created_at=NOW)


@pattern("B1", "A booking", rate=Rate(per="status check"), example=(EMPLOYEE, BOOKING))
def booking(employee_id: EmployeeId, booking_id: Ulid) -> Get[Booking]:
    return Booking.of(employee_id).get(booking_id)


@pattern("B2", "The active bookings of an employee", rate=Rate(per="request"), example=(EMPLOYEE,))
def active_bookings(employee_id: EmployeeId, after: str | None = None) -> Query[Booking]:
    return Booking.of(employee_id).query().where(Booking.status.not_in(TERMINAL)).page(20, after)


@pattern("B3", "Confirm a booking", rate=Rate(per="request"), example=(EMPLOYEE, BOOKING, 1, "ABC", NOW))
def confirm(
    employee_id: EmployeeId, booking_id: Ulid, seen: int, number: str, created_at: datetime
) -> Update[Booking]:
    return (
        Booking.of(employee_id)
        .update(booking_id)
        .set(Booking.status, BookingStatus.confirmed)
        .set(Booking.created_at, created_at)
        .set(Booking.confirmation_number, number)
        .remove(Booking.retries)
        .when(Booking.status.not_in(TERMINAL) & (Booking.created_at <= created_at))
        .at_version(Booking.version, seen)
    )


@pattern("B4", "A new booking", rate=Rate(per="request"), example=lambda: (a_booking(),))
def create_booking(new: Booking) -> Put[Booking]:
    return Booking.create(new)


READER = Component("reader", "shows bookings", uses=(booking, active_bookings))
SYSTEM = System(
    "travel",
    "Books travel",
    tables=(bookings, pm),
    patterns=(booking, active_bookings, confirm, create_booking),
    components=(READER,),
)


def builders() -> None:
    one = Booking.of(EMPLOYEE)
    assert_type(one.get(BOOKING), Get[Booking])
    assert_type(one.get(BOOKING).consistent(), Get[Booking])
    assert_type(one.update(BOOKING), Update[Booking])
    assert_type(one.delete(BOOKING).when(Booking.version == 1), Delete[Booking])
    assert_type(one.check(BOOKING).when(Booking.plan.exists()), ConditionCheck[Booking])
    assert_type(one.query(), Query[Booking])
    assert_type(one.query().descending().page(20).after(None).consistent(), Query[Booking])
    assert_type(one.at(BOOKING), Query[Booking])
    assert_type(one.since(BOOKING), Query[Booking])
    assert_type(one.begins_with("01"), Query[Booking])
    assert_type(one.query().count(), CountQuery[Booking])
    assert_type(one.query().select(Booking.status, Booking.plan), SelectQuery[Booking])
    assert_type(Booking.put(a_booking()), Put[Booking])
    assert_type(Booking.create(a_booking()).when(Booking.version.not_exists()), Put[Booking])
    assert_type(Booking.put(a_booking()).at_version(Booking.version, 1), Put[Booking])
    assert_type(Booking.scan(reason="a count for the year's report"), Scan[Booking])
    assert_type(Project.of(ProjectId("p")).get(), Get[Project])
    assert_type(Setting.of().get("colour"), Get[Setting])
    assert_type(Setting.of().between("a", "b"), Query[Setting])
    assert_type(Event.of(ProjectId("p")).get(NOW, BOOKING), Get[Event])
    assert_type(Event.of(ProjectId("p")).between(NOW, NOW), Query[Event])
    assert_type(Event.of(ProjectId("p")).until(NOW), Query[Event])
    assert_type(Event.by_day(day(NOW)).at(7), Query[Event])
    assert_type(Event.by_due(NOW).begins_with("h"), Query[Event])
    assert_type(Event.by_due_day(day(NOW)).since(3), Query[Event])
    assert_type(Event.by_severity("high").before(NOW), Query[Event])
    assert_type(Project.by_status(ProjectStatus.active).begins_with("p"), Query[Project])
    assert_type(batch_get(one.get(BOOKING) for _ in range(3)), BatchGet[Booking])
    assert_type(batch_put([Booking.put(a_booking())]), BatchPut[Booking])
    assert_type(parallel_query([one.query(), one.at(BOOKING)]), ParallelQuery[Booking])
    assert_type(parallel_query([one.query().select(Booking.status)]), ParallelQuery[Row[Booking]])
    assert_type(transact(Booking.put(a_booking()), one.check(BOOKING), one.delete(BOOKING)), Transact)


def expressions() -> None:
    assert_type(Booking.status == BookingStatus.failed, Condition[Booking])
    assert_type(Booking.employee_id.begins_with("emp"), Condition[Booking])
    assert_type(Booking.confirmation_number.begins_with("A"), Condition[Booking])
    assert_type(Booking.price.between(Decimal(1), Decimal(2)), Condition[Booking])
    assert_type(Booking.tags.contains("a") | Booking.notes.contains("b"), Condition[Booking])
    assert_type(~Booking.confirmation_number.not_exists() & (Booking.version > 3), Condition[Booking])
    assert_type(Booking.plan.at(lambda plan: plan.legs[0].origin) == "ZRH", Condition[Booking])
    assert_type(Booking.plan.at(lambda plan: plan.legs[0].departs) < NOW, Condition[Booking])


def changes() -> None:
    change = Booking.of(EMPLOYEE).update(BOOKING)
    assert_type(change.set(Booking.confirmation_number, "A").remove(Booking.plan), Update[Booking])
    assert_type(change.add(Booking.version, 1).add(Booking.price, Decimal(1)), Update[Booking])
    assert_type(change.add(Booking.retries, 1).set_if_absent(Booking.retries, 1), Update[Booking])
    assert_type(change.append(Booking.notes, "a", "b").add_to_set(Booking.tags, "c"), Update[Booking])
    assert_type(change.remove_from_set(Booking.tags, "c").or_create(), Update[Booking])
    assert_type(change.set(Booking.plan.at(lambda plan: plan.title), "x"), Update[Booking])


async def results(stores: Stores) -> None:
    assert_type(await stores.run(booking(EMPLOYEE, BOOKING)), Booking | None)
    page = await stores.run(active_bookings(EMPLOYEE))
    assert_type(page, Page[Booking])
    assert_type(page[0].status, BookingStatus)
    assert_type(page[0].confirmation_number, str | None)
    assert_type(page.cursor, str | None)
    assert_type(await stores.run(confirm(EMPLOYEE, BOOKING, 1, "ABC", NOW)), Booking)
    assert_type(await stores.run(Booking.of(EMPLOYEE).delete(BOOKING)), Booking | None)
    assert_type(await stores.run(Booking.of(EMPLOYEE).query().count()), Count)
    assert_type(await stores.run(batch_get([booking(EMPLOYEE, BOOKING)])), tuple[Booking | None, ...])
    assert_type(await stores.run(batch_put([Booking.put(a_booking())])), int)
    assert_type(await stores.run(parallel_query([active_bookings(EMPLOYEE)])), tuple[Page[Booking], ...])
    rows = await stores.run(Booking.by_open(BookingStatus.initiated).query().select(Booking.booking_id))
    assert_type(rows, Page[Row[Booking]])
    assert_type(rows[0][Booking.booking_id], Ulid)
    assert_type(rows[0][Booking.confirmation_number], str | None)
    assert_type(await stores.all(active_bookings(EMPLOYEE)), Page[Booking])
    async for each in stores.each(Booking.scan(reason="a report")):
        assert_type(each, Booking)
    await stores.transact(create_booking(a_booking()), Project.of(ProjectId("p")).check(), token="once")
    assert_type(a_booking().model_copy(update={"version": 2}), Booking)
