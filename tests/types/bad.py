"""Wrong uses of the model's API for the type check, one per line, each marked as bad with its reason.

The type check rejects exactly these lines. `test_wrong_uses.py` has the wrong uses that no type checker can
see, and the errors that they raise.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

import holdfast
from holdfast import (
    Attr,
    Component,
    Entity,
    Get,
    IndexKey,
    Key,
    Lifetime,
    Query,
    Rate,
    Stores,
    System,
    Table,
    Volume,
    attr,
    batch_get,
    batch_put,
    pattern,
    transact,
)
from holdfast.model.entities import Row, parallel_query
from holdfast.model.ulids import Ulid
from tests.types.good import (
    BOOKING,
    EMPLOYEE,
    NOW,
    Booking,
    BookingStatus,
    Event,
    Project,
    ProjectId,
    ProjectStatus,
    Setting,
    a_booking,
    active_bookings,
    booking,
    bookings,
    confirm,
    create_booking,
    day,
    gsi1,
    pm,
)

b, p = a_booking(), ProjectId("p-1")
one = Booking.of(EMPLOYEE)
query, change = one.query(), one.update(BOOKING)
rate = Rate(per="request")


def names() -> None:
    query.where(Booking.statsu == BookingStatus.failed)  # BAD 01 misspelt attribute in a filter
    change.set(Booking.statsu, BookingStatus.failed)  # BAD 02 misspelt attribute in an update
    change.when(Booking.vresion == 1)  # BAD 03 misspelt attribute in a condition
    query.select(Booking.statsu)  # BAD 04 misspelt attribute in a selection
    Booking.by_opne(BookingStatus.initiated)  # BAD 05 misspelt index key
    query.newest()  # BAD 06 an unknown builder
    Booking.plan.at(lambda plan: plan.titel)  # BAD 07 misspelt member of a document


def keys() -> None:
    Booking.of().query()  # BAD 08 missing partition key
    Booking.of(42).query()  # BAD 09 partition key of the wrong type
    Booking.of("emp-42").query()  # BAD 10 plain text where an EmployeeId is the key
    one.get()  # BAD 11 missing sort key
    one.get("01")  # BAD 12 plain text where a Ulid is the sort key
    one.get(BOOKING, BOOKING)  # BAD 13 one value too many
    one.update()  # BAD 14 update without its sort key
    one.delete("01")  # BAD 15 delete with the wrong key
    Event.of(p).get(BOOKING, NOW)  # BAD 16 the parts of a sort key in the wrong order
    Event.of(p).get(NOW)  # BAD 17 half of a composite sort key
    Project.of(p).get("METADATA")  # BAD 18 a value for a sort key that is constant
    Setting.of("SETTINGS")  # BAD 19 a value for a partition key that is constant
    Project.by_status("active").query()  # BAD 20 plain text where an enum is the index key
    Event.by_day(NOW).at("1")  # BAD 21 text where the index's sort key is a number
    Event.by_day("2026-02-04")  # BAD 22 text where the function gives a date
    Project.by_status(ProjectStatus.active).get("x")  # BAD 23 get on an index
    Project.by_status(ProjectStatus.active).update("x")  # BAD 24 update on an index
    Event.by_due(None)  # BAD 25 an index queried for None
    Event.by_due(NOW).at(None)  # BAD 26 a sort key queried for None
    Event.by_severity(None)  # BAD 27 a template queried for None
    Booking.lives(NOW)  # BAD 28 a lifetime is not a key


def ranges() -> None:
    Event.of(p).between("a", "b")  # BAD 29 range of the wrong type
    Event.of(p).between(NOW)  # BAD 30 half a range
    Event.of(p).since(day(NOW))  # BAD 31 a date where a time is the sort key
    Event.of(p).at(BOOKING)  # BAD 32 at() with the second attribute
    Event.of(p).begins_with("2026")  # BAD 33 a prefix of a non-text attribute
    Project.of(p).between("a", "b")  # BAD 34 range on a constant sort key
    one.until(NOW)  # BAD 35 a time where a Ulid is the sort key
    query.between(BOOKING, BOOKING)  # BAD 36 a range on a finished query
    Event.by_day(day(NOW)).begins_with("1")  # BAD 37 a prefix of a number


def conditions() -> None:
    query.where(Booking.status == 5)  # BAD 38 another type in ==
    query.where(Booking.status == "failed")  # BAD 39 plain text compared with an enum
    query.where(Booking.status != ProjectStatus.active)  # BAD 40 another enum
    query.where(Booking.created_at < "2026")  # BAD 41 another type in <
    query.where(Booking.status.not_in(["failed"]))  # BAD 42 another type in not_in
    query.where(Booking.version.between(1, "2"))  # BAD 43 another type in between
    query.where(Booking.confirmation_number == None)  # BAD 44 comparison with None  # noqa: E711
    query.where(Booking.version.begins_with("1"))  # BAD 45 text function on a number
    query.where(Booking.tags.contains(7))  # BAD 46 an element of another type
    query.where(Booking.version.contains("1"))  # BAD 47 contains on a number
    query.where(Project.status == ProjectStatus.active)  # BAD 48 condition on another entity
    query.where((Booking.version == 1) & (Project.name == "x"))  # BAD 49 conditions of two entities
    query.where(not Booking.version == 1)  # BAD 50 `not` instead of ~
    query.where(Booking.version == 1 & Booking.version == 2)  # BAD 51 & without parentheses
    query.where(True)  # BAD 52 a plain bool as a filter
    change.when(Booking.version)  # BAD 53 an attribute is not a condition
    query.where(Booking.plan.at(lambda plan: plan.title) == 5)  # BAD 54 another type inside a document


def updates() -> None:
    change.set(Booking.status, "failed")  # BAD 55 another type in set
    change.set(Booking.user_request, None)  # BAD 56 None instead of remove
    change.set(Project.name, "x")  # BAD 57 attribute of another entity
    change.add(Booking.version, "1")  # BAD 58 another type in add
    change.add(Booking.user_request, 1)  # BAD 59 add on a text
    change.add(Booking.price, 1.5)  # BAD 60 a float added to a Decimal
    change.remove(Booking.status)  # BAD 61 removes a required attribute
    change.append(Booking.user_request, "x")  # BAD 62 append to a non-list
    change.append(Booking.notes, 7)  # BAD 63 append of another type
    change.add_to_set(Booking.notes, "x")  # BAD 64 add_to_set on a non-set
    change.remove_from_set(Booking.tags, 7)  # BAD 65 remove_from_set of another type
    change.at_version(Booking.user_request, 1)  # BAD 66 a version that is not a number
    change.set(Booking.version)  # BAD 67 set without a value
    change.limit(3)  # BAD 68 a query's builder on an update


def entities() -> None:
    Booking(employee_id=EMPLOYEE, booking_id=BOOKING, created_at=NOW)  # BAD 69 constructor: missing attribute
    Booking(employee_id=EMPLOYEE, booking_id=BOOKING, created_at="x", user_request="x")  # BAD 70 wrong type
    Project(id=p, name="n", statsu=ProjectStatus.active)  # BAD 71 constructor: misspelt attribute
    Booking.put(Project(id=p, name="n"))  # BAD 72 put of another entity
    Booking.create(Project(id=p, name="n"))  # BAD 73 create of another entity
    Booking.put(b).at_version(Project.name, 1)  # BAD 74 the version of another entity
    Booking.put(b).set(Booking.version, 2)  # BAD 75 an update's builder on a put
    Booking.scan()  # BAD 76 scan without a reason
    b.status = BookingStatus.failed  # BAD 77 assignment to a frozen entity
    b.statsu  # BAD 78 misspelt attribute of an entity


def operations() -> None:
    transact(query)  # BAD 79 a query in a transaction
    transact(one.get(BOOKING))  # BAD 80 a get in a transaction
    batch_get([one.get(BOOKING), Project.of(p).get()])  # BAD 81 a batch of two entities
    batch_get([query])  # BAD 82 a batch of queries
    batch_put([b])  # BAD 83 entities where puts are wanted
    parallel_query([one.get(BOOKING)])  # BAD 84 gets in parallel
    query.select(Project.name)  # BAD 85 selects an attribute of another entity
    query.select("status")  # BAD 86 selects by a name in quotes
    query.page("20")  # BAD 87 a page size in quotes
    query.count().where(Booking.version == 1)  # BAD 88 a filter on a count
    active_bookings(42)  # BAD 89 pattern: wrong argument
    active_bookings()  # BAD 90 pattern: missing argument
    active_bookings(EMPLOYEE, before="x")  # BAD 91 pattern: misspelt argument
    confirm(EMPLOYEE, BOOKING, "1", "ABC", NOW)  # BAD 92 pattern: one argument of another type


async def results(stores: Stores, row: Row[Booking]) -> None:
    found = await stores.run(booking(EMPLOYEE, BOOKING))
    found.status  # BAD 93 the result of a get used without a None check
    page = await stores.run(active_bookings(EMPLOYEE))
    page[0].statsu  # BAD 94 misspelt attribute of a result
    page.status  # BAD 95 a page is not an entity
    await stores.run("x")  # BAD 96 run of a non-operation
    await stores.run(booking)  # BAD 97 run of an uncalled pattern
    await stores.run(a_booking)  # BAD 98 run of a function
    await stores.run(b)  # BAD 99 run of an entity
    await stores.transact(one.get(BOOKING))  # BAD 100 transact of a get
    await stores.all(one.get(BOOKING))  # BAD 101 all pages of a get
    await stores.all(query.count())  # BAD 102 all pages of a count
    row[Project.name]  # BAD 103 a row indexed by another entity's attribute
    row["status"]  # BAD 104 a row indexed by a name in quotes
    count: int = await stores.run(query.count())  # BAD 105 a Count is not an int
    price: float = row[Booking.price]  # BAD 106 a Decimal is not a float
    number: str = row[Booking.confirmation_number]  # BAD 107 an optional attribute used as required


class Bad(Entity, table=pm):
    id: Attr[str] = attr()
    number: Attr[int] = attr(default="x")  # BAD 108 default of the wrong type
    tags: Attr[list[str]] = attr(default_factory=dict)  # BAD 109 factory of the wrong type
    moment: Attr[datetime] = attr()
    of = Key("BAD#" + idd, "METADATA")  # BAD 110 misspelt attribute in a key template
    by_moment = IndexKey(gsi1, "X#" + moment + 5, "Y")  # BAD 111 a number in a template
    by_id = IndexKey("GSI1", id)  # BAD 112 an index by a name in quotes
    by_only = IndexKey(gsi1, id, "X", only=number.one_of("one"))  # BAD 113 one_of a value of another type
    by_text = IndexKey(gsi1, id, "X", only=id == "x")  # BAD 114 a comparison where one_of is wanted
    by_day = IndexKey(gsi1, id.transform(day), "X")  # BAD 115 a function of another type
    by_width = IndexKey(gsi1, id.zero_pad(3), "X")  # BAD 116 a text padded with zeros
    lives = Lifetime(id, timedelta(days=1))  # BAD 117 a lifetime from a non-time attribute
    ends = Lifetime(moment, 90)  # BAD 118 a lifetime that is a plain number


@pattern("X1", "Not an operation", rate=rate)  # BAD 119 a pattern that does not return an operation
def not_an_operation(x: int) -> int:
    return x


@pattern("X2", "A rate in words", rate="often")  # BAD 120 a rate in words
def rate_in_words(x: Ulid) -> Get[Booking]:
    return one.get(x)


@pattern("X3", "A wrong example", rate=rate, example=7)  # BAD 121 an example that is not arguments
def wrong_example(x: Ulid) -> Get[Booking]:
    return one.get(x)


@pattern("X4", "No rate")  # BAD 122 a pattern without a rate
def no_rate(x: Ulid) -> Get[Booking]:
    return one.get(x)


def wrong_kind(x: Ulid) -> Get[Booking]:
    return one.query()  # BAD 123 another operation than declared


def wrong_entity() -> Query[Project]:
    return one.query()  # BAD 124 a query of another entity than declared


Table("T")  # BAD 125 a table without a key
Table("T", partition="id", partition_type="TEXT")  # BAD 126 a key of an unknown type
Table("T", partition="id", stream="new")  # BAD 127 an unknown stream view
bookings.global_index("by-x")  # BAD 128 an index without a key
bookings.global_index("by-x", "x", projection="ALL")  # BAD 129 a projection in quotes
Component("api", uses=(a_booking,))  # BAD 130 a function that is not a pattern
Component("api", uses=("B1",))  # BAD 131 a pattern by its id
System("s", "p", tables=[Booking])  # BAD 132 an entity where a table is wanted
Volume("many")  # BAD 133 a volume in words
create_booking(b).build_item().status  # BAD 134 an item is not an entity
Decimal(b.price) + 1.5  # BAD 135 a float added to an attribute's value


holdfast.Tabel("Seats", partition="flight")  # BAD 136 a misspelt public name
