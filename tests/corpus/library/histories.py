"""Part of the corpus: an audit trail with open cursors, and two subjects, one erased, one to be erased."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast import Attr, Entity, EpochSeconds, Key, Rate, Stores, Table, attr
from holdfast.guarantees import Audit, AuditEntry, AuditResult, SubjectData, erase
from holdfast.runtime import create_backup

from .clock import WRITTEN_AT

ENTRIES: Final = 7
PAGE: Final = 3
SUBJECT: Final = "reader-ada"
ERASED: Final = "reader-bo"
KIND: Final = "reader"

trail = Table("Trail", "subject", "at_and_id", ttl="endsAt", purpose="What was done about each reader")
readers = Table(
    "Readers",
    "reader",
    "what",
    stream="NEW_AND_OLD_IMAGES",
    point_in_time_recovery=True,
    purpose="What is known of each reader",
)


class Deed(AuditEntry, table=trail):
    subject: Attr[str] = attr()
    place: Attr[str] = attr("at_and_id")
    action: Attr[str] = attr()
    expires_at: Attr[EpochSeconds] = attr("endsAt")

    of = Key(subject, place)


class Fact(Entity, table=readers):
    reader: Attr[str] = attr()
    what: Attr[str] = attr()
    text: Attr[str] = attr(default="")

    of = Key(reader, what)


DEEDS: Final = Audit(
    Deed,
    prefix="DE",
    rate=Rate("deed"),
    example={"subject": SUBJECT, "action": "lend"},
    retention_s=60 * 86400,
)

TABLES: Final = (trail, readers)
PATTERNS: Final = DEEDS.patterns


async def find_subject_data(stores: Stores, subject: str) -> SubjectData:
    """Find all data that belongs to a reader."""
    facts = await stores.all(Fact.of(subject).query())
    deeds = await stores.all(Deed.of(subject).query())
    return SubjectData(
        [
            *(Fact.of(subject).delete(each.what) for each in facts),
            *(Deed.of(subject).delete(each.place) for each in deeds),
        ]
    )


def get_span() -> tuple[datetime, datetime]:
    """Return the period in which all but the first entry were made."""
    now = datetime.fromtimestamp(WRITTEN_AT, UTC)
    return now + timedelta(seconds=1), now + timedelta(days=1)


async def write(stores: Stores) -> dict[str, Any]:
    """Write the trail, erase one subject, and return the cursors, the entries and the erasure's proof."""
    clock: Any = stores.clock
    for subject in (SUBJECT, ERASED):
        for number in range(ENTRIES):
            clock.moment = WRITTEN_AT + number
            payload = {"number": number, "note": f"call +44 20 7946 {number:04} about it"}
            result = AuditResult(ok=bool(number % 2), reason=f"reason {number}")
            entry = DEEDS.record(stores, payload, subject=subject, action="lend", result=result)
            fact = Fact.put(Fact(reader=subject, what=f"fact-{number}", text=f"{subject} likes {number}"))
            await stores.transact(entry, fact)
    clock.moment = WRITTEN_AT
    await create_backup(stores, stores.physical_name(readers), "before-the-erasure")
    assert stores.system is not None
    erasure = await erase(stores.system, stores, ERASED, kind=KIND, compact=False)
    history = await stores.run(DEEDS.pattern_set.history(SUBJECT, PAGE))
    spanned = await stores.run(DEEDS.pattern_set.between(SUBJECT, *get_span(), PAGE))
    everything = await stores.all(DEEDS.pattern_set.history(SUBJECT))
    return {
        "history": history.cursor,
        "span": spanned.cursor,
        "entries": [{"place": each.place, "payload": each.payload} for each in everything],
        "proof": erasure.proof,
    }
