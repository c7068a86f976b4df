"""Part of the corpus: idempotency records in every state, and delayed actions that wait.

The states are claimed, done, failed, refused, intended and unknown. The records store the names of the errors
in `FAILURES`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from holdfast import (
    Attr,
    Entity,
    EpochSeconds,
    IndexKey,
    Key,
    Rate,
    Stores,
    Table,
    Update,
    attr,
    keep_names,
    pattern,
)
from holdfast.core.errors import (
    AlreadyExists,
    ExternalServiceFailed,
    ExternalServiceRefused,
    HoldfastError,
    InvalidRequest,
    InvalidTransition,
    RequestRefused,
    StoreFileError,
)
from holdfast.guarantees import Claim, DelayedAction, DelayedActions, Once, OnceRecord, fingerprint
from holdfast.model.entities import TimestampMillis

from .clock import WRITTEN_AT, ManualClock
from .process import Killed, make_dying_process

LEASE_S: Final = 60.0
ACT_S: Final = 10.0
RETENTION_S: Final = 30 * 86400.0
# The attributes of a record in the notes.
NOTED: Final = ("status", "attempts", "result", "error", "refused", "owner", "revision")
# A service that recognizes a repeat by its key, and forgets the key after a minute.
KEY_KEPT: Final[dict[str, Any]] = {"takes_key": True, "key_kept_s": 60.0}

effects = Table("Effects", "id", ttl="expires_at", naming=keep_names, purpose="What happened once")
tallies = Table("Tallies", "id", naming=keep_names, purpose="How often each effect happened")
letters = Table("Letters", "PK", "SK", ttl="TTL", purpose="Letters that wait before they are sent")
by_due = letters.global_index("by-due", "DuePK", "DueSK")


class EffectRecord(OnceRecord, table=effects):
    id: Attr[str] = attr()
    decision: Attr[str | None] = attr(default=None)

    of = Key(id)


class Tally(Entity, table=tallies):
    id: Attr[str] = attr()
    times: Attr[int] = attr(default=0)

    of = Key(id)


class Letter(DelayedAction, table=letters):
    desk: Attr[str] = attr()
    id: Attr[str] = attr()
    text: Attr[str] = attr()
    queue: Attr[str | None] = attr(default=None)
    held_until: Attr[TimestampMillis | None] = attr(default=None)
    expires_at: Attr[EpochSeconds | None] = attr("TTL", default=None)

    of = Key("DESK#" + desk, "LETTER#" + id)
    due = IndexKey(by_due, "LETTER#" + queue, held_until + "#" + id)


def record(id: str, **more: Any) -> EffectRecord:
    """Return a record with this id; its payload fingerprint depends on the id alone."""
    return EffectRecord(id=id, payload_sha256=fingerprint({"id": id}), **more)


def letter(id: str) -> Letter:
    return Letter(desk="d-1", id=id, text=f"Dear {id}")


ONCE: Final = Once(
    EffectRecord,
    prefix="EF",
    rate=Rate("effect"),
    example=record("e-1"),
    lease_s=LEASE_S,
    retention_s=RETENTION_S,
)
LETTERS: Final = DelayedActions(
    Letter,
    prefix="LE",
    rate=Rate("letter"),
    example=letter("l-1"),
    payload=("text",),
    lease_s=LEASE_S,
    retention_s=RETENTION_S,
)


@pattern("TA1", "Count an effect", rate=Rate("effect"), example=("e-1",))
def count(id: str) -> Update[Tally]:
    return Tally.of(id).update().add(Tally.times, 1).or_create()


TABLES: Final = (effects, tallies, letters)
PATTERNS: Final = (count, *ONCE.patterns, *LETTERS.patterns)

# Errors that a handler raised: the failed record stores the error's name.
FAILURES: Final[dict[str, Callable[[], Exception]]] = {
    "failed: already there": lambda: AlreadyExists("It is there."),
    "failed: invalid": lambda: InvalidRequest("It is wrong."),
    "failed: refused": lambda: RequestRefused("no_room", "There is no room."),
    "failed: party": lambda: ExternalServiceRefused("no_seat", "There is no seat."),
    "failed: file": lambda: StoreFileError("The file is damaged."),
    "failed: step": lambda: InvalidTransition("The step is mistaken."),
    "failed: foreign": lambda: ValueError("a reason that is not kept"),
}


class FakeService:
    """An external service that remembers its requests; it fails with `fails`, and `knows` outcomes by key."""

    def __init__(self, *, fails: Exception | None = None, knows: dict[str, Any] | None = None) -> None:
        self.fails, self.knows = fails, dict(knows or {})
        self.acted: list[str] = []
        self.looked: list[str] = []

    async def act(self, key: str) -> dict[str, Any]:
        """Note the request, and return its outcome or raise the configured error."""
        self.acted.append(key)
        if self.fails is not None:
            raise self.fails
        return {"done": key}

    async def look_up(self, key: str) -> dict[str, Any] | None:
        """Note the lookup, and return the known outcome or None."""
        self.looked.append(key)
        found: dict[str, Any] | None = self.knows.get(key)
        return found

    async def send(self, record: Letter, key: str) -> dict[str, Any]:
        return await self.act(key)

    async def find(self, record: Letter, key: str) -> dict[str, Any] | None:
        return await self.look_up(key)


def build_failing_effect(error: Exception) -> Callable[[Claim[EffectRecord]], Awaitable[object]]:
    """Return an effect that raises the error."""

    async def effect(claim: Claim[EffectRecord]) -> object:
        raise error

    return effect


async def complete_with_tally(claim: Claim[EffectRecord]) -> object:
    """Complete the claim together with its tally."""
    return await claim.complete(count(claim.record.id), result={"id": claim.record.id, "seat": "7A"})


# --- writing ------------------------------------------------------------------------------------------------


async def write(stores: Stores) -> dict[str, Any]:
    """Write records and letters in every state, and return their noted attributes and an open cursor."""
    await ONCE.do(stores, record("done"), complete_with_tally)
    done = await ONCE.do(stores, record("done without a result"), lambda claim: claim.complete())
    assert done.result is None
    await ONCE.claim(stores, record("claimed"))
    for id, error in FAILURES.items():
        with suppress(Exception):
            await ONCE.do(stores, record(id), build_failing_effect(error()))
    given_back = await _claim(stores, "given back")
    await given_back.save(decision="by train")
    await given_back.release()
    await _write_external_calls(stores)
    await _write_letters(stores)
    due = await stores.run(LETTERS.pattern_set.due(clock_time(stores), 2))
    return {
        "due": {"cursor": due.cursor, "first": [each.id for each in due]},
        "records": {
            each.id: _note_record(each)
            for each in await stores.all(EffectRecord.scan(reason="the notes of the corpus"))
        },
        "letters": {
            each.id: _note_record(each)
            for each in await stores.all(Letter.scan(reason="the notes of the corpus"))
        },
    }


async def _write_external_calls(stores: Stores) -> None:
    """Write external calls in every state: done, refused, failed, unknown, intended without an outcome."""
    await _call_external(stores, "outside: done", FakeService())
    await _call_external(
        stores, "outside: refused", FakeService(fails=ExternalServiceRefused("no_seat", "There is no seat."))
    )
    await _call_external(
        stores, "outside: failed", FakeService(fails=ExternalServiceFailed("It is down.", may_be_done=False))
    )
    for id in ("outside: unknown, was done", "outside: unknown, was not done"):
        await _call_external(
            stores, id, FakeService(fails=ExternalServiceFailed("It broke off.", may_be_done=True))
        )
    await ONCE.claim(stores, record("outside: intended, was done"), act_s=ACT_S)
    late = await _claim(stores, "outside: intended, was not done")
    await late.record_intent(ACT_S, decision="by air")


async def _call_external(stores: Stores, id: str, service: FakeService) -> None:
    """Make an external call; an error of the service stays in its record."""
    with suppress(HoldfastError):
        await ONCE.call_external(stores, record(id), act=service.act, look_up=service.look_up, act_s=ACT_S)


async def _claim(stores: Stores, id: str) -> Claim[EffectRecord]:
    """Claim the effect with this id; fail if it is already done."""
    claim = await ONCE.claim(stores, record(id))
    assert isinstance(claim, Claim)
    return claim


async def _write_letters(stores: Stores) -> None:
    """Write letters in every state of a delayed action; the due ones were delayed at an earlier time."""
    clock = stores.clock
    assert isinstance(clock, ManualClock)
    clock.advance(-1800)
    for id in ("due 1", "due 2", "due 3", "sent", "refused", "broken off", "reopened", "taken", "failed"):
        await stores.run(LETTERS.delay(stores, letter(id), for_s=1790))
    await stores.run(LETTERS.delay(stores, letter("unknown"), for_s=1600))
    for id in ("waiting", "approved", "edited", "cancelled"):
        await stores.run(LETTERS.delay(stores, letter(id), for_s=3600))
    clock.moment = WRITTEN_AT - 150
    broken_off = ExternalServiceFailed("It broke off.", may_be_done=True)
    await _send(stores, "unknown", FakeService(fails=broken_off), **KEY_KEPT)
    clock.moment = WRITTEN_AT
    await _send(stores, "unknown", FakeService(), **KEY_KEPT)
    await LETTERS.approve(stores, await read_letter(stores, "approved"), by="ada")
    await LETTERS.edit(stores, await read_letter(stores, "edited"), by="ada", text="Dear all")
    await LETTERS.cancel(stores, await read_letter(stores, "cancelled"), by="ada", reason="too late")
    refuses = FakeService(fails=ExternalServiceRefused("no_address", "There is no such address."))
    await _send(stores, "sent", FakeService())
    await _send(stores, "refused", refuses)
    await _send(stores, "reopened", refuses)
    await LETTERS.reopen(stores, await read_letter(stores, "reopened"), by="ada")
    await _send(stores, "broken off", FakeService(fails=broken_off))
    await _send(stores, "failed", FakeService(fails=ExternalServiceFailed("It is down.", may_be_done=False)))
    await _send_and_die(stores, "taken")


async def _send(stores: Stores, id: str, service: FakeService, **more: Any) -> None:
    """Execute the letter; an error of the service stays in its record."""
    more = more or {"look_up": service.find}
    with suppress(HoldfastError):
        await LETTERS.execute(stores, letter(id), act=service.send, act_s=ACT_S, **more)


async def _send_and_die(stores: Stores, id: str) -> None:
    """Leave the intent of a worker that was killed before it recorded the outcome."""
    dying, tables = make_dying_process(stores)

    async def act(record: Letter, key: str) -> dict[str, Any]:
        tables.kill()
        raise Killed

    with suppress(Killed):
        await LETTERS.execute(dying, letter(id), act=act, look_up=FakeService().find, act_s=ACT_S)


async def leave(stores: Stores) -> dict[str, Any]:
    """Leave an expired record that the store has not removed yet."""
    ended = datetime.fromtimestamp(WRITTEN_AT - 5, UTC)
    await stores.run(EffectRecord.put(record("ended", expires_at=ended, owner="o", revision=3, attempts=2)))
    return {}


# --- reading ------------------------------------------------------------------------------------------------


async def read_effect(stores: Stores, id: str) -> EffectRecord:
    found = await stores.run(EffectRecord.of(id).get().consistent())
    assert found is not None, id
    return found


def clock_time(stores: Stores) -> datetime:
    """Return the stores' time as a datetime."""
    return stores.now()


async def read_letter(stores: Stores, id: str) -> Letter:
    found = await stores.run(Letter.of("d-1").get(id).consistent())
    assert found is not None, id
    return found


async def read_tally(stores: Stores, id: str) -> int:
    """Return how often the effect was counted; 0 if never."""
    found = await stores.run(Tally.of(id).get().consistent())
    return 0 if found is None else found.times


def _note_record(record: OnceRecord) -> dict[str, Any]:
    """Return the noted attributes of a record that are not None."""
    return {name: getattr(record, name) for name in NOTED if getattr(record, name) is not None}
