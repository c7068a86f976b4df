"""A small system for tests of hot keys: news of many papers, with one feed of all under one key."""

from __future__ import annotations

from datetime import date
from typing import Any

from holdfast import (
    Attr,
    Entity,
    Get,
    IndexKey,
    Key,
    Load,
    Put,
    Query,
    Rate,
    System,
    Table,
    Update,
    Volume,
    attr,
    pattern,
)
from holdfast.model.stated_costs import StatedCost, StatedCosts, StatedSize
from holdfast.model.system import Design

news = Table("News", "PK", "SK")
by_day = news.global_index("day-index", "GSI1PK", "GSI1SK")

DAY = date(2026, 2, 4)
MONTH = 30.4375 * 86400


class Item(Entity, table=news):
    """News item in its paper, and as a copy in the feed of all, which is in no index."""

    scope: Attr[str] = attr("PK")
    id: Attr[str] = attr()
    day: Attr[date | None] = attr(default=None)
    read: Attr[int] = attr(default=0)
    of = Key(scope, "ITEM#" + id)
    by_day = IndexKey(by_day, "DAY#" + day, id)


class Setting(Entity, table=news):
    name: Attr[str] = attr()
    of = Key("SETTINGS", "NAME#" + name)


NEWS = Rate(per="news")


@pattern("N1", "The feed of all papers", rate=Rate(per="visit"))
def feed() -> Query[Item]:
    return Item.of("ALL").query().page(50)


@pattern("N2", "The news of a day", rate=Rate(per="visit"), example=(DAY,))
def of_day(day: date) -> Query[Item]:
    return Item.by_day(day).query().page(50)


@pattern("N3", "News in its paper", rate=NEWS, example=lambda: (Item(scope="PAPER#1", id="1", day=DAY),))
def tell(item: Item) -> Put[Item]:
    return Item.create(item)


@pattern("N4", "News in the feed", rate=NEWS, example=lambda: (Item(scope="ALL", id="1"),))
def tell_all(item: Item) -> Put[Item]:
    return Item.create(item)


@pattern("N5", "News is another day's", rate=NEWS, example=("PAPER#1", "9", DAY))
def move(scope: str, id: str, day: date) -> Update[Item]:
    return Item.of(scope).update(id).set(Item.day, day).or_create()


@pattern("N6", "A setting", rate=NEWS, example=("colour",))
def setting(name: str) -> Get[Setting]:
    return Setting.of().get(name)


def make_load(per_second: float, **more: Any) -> Load:
    """Build a load of this many news a second, of a thousand papers."""
    volumes = {"news": Volume(per_second * MONTH, distinct_keys=1000), "visit": Volume(MONTH)}
    declared: dict[str, Any] = {"hot_keys": {"News": ("ALL",), "day-index": ("DAY#*",)}}
    return Load(volumes, **(declared | more))


SYSTEM = System(
    name="newsdesk",
    purpose="Tells news",
    tables=(news,),
    patterns=(feed, of_day, tell, tell_all, move, setting),
    design=Design(
        load=make_load(1),
        stated_costs=StatedCosts(
            source="the plan",
            prices="dynamodb-2018-11",
            costs=(StatedCost("Writes", "write units", 50_000, 0.06, 120_000, "news are told twice"),),
            total=0.1,
            sizes=(StatedSize("News", 40e6, 90e6, "1 × 40 MB", "and once in the feed"),),
            size_total_bytes=40e6,
        ),
        what_if={"a quiet day": make_load(1), "a busy day": make_load(600), "a landslide": make_load(1500)},
    ),
)
