"""The claim on a held record: what it writes besides that of `Once`, so that the record leaves the queue when it ends.

An attempt of which it is known that nothing was done lets the record wait again: it is due, and a person may still edit
or cancel it. One whose outcome is open does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeVar

from holdfast.guarantees.hold_queue.record import HeldRecord, millisecond
from holdfast.guarantees.once.claim import Claim, Done
from holdfast.guarantees.once.record import OnceStatus, end_of, moment_after
from holdfast.model import Write

H = TypeVar("H", bound=HeldRecord)

# The code of a refusal that is ours: it may have been done, nobody here can find out, and a person must look.
OUTCOME_UNKNOWN: Final = "OutcomeUnknown"

# Of a record that has left the queue, and of which nothing is open.
LEFT: Final[dict[str, Any]] = dict.fromkeys(("queue", "asked_since", "not_done_at", "ends_at"))


@dataclass
class HeldClaim(Claim[H]):
    """`is_open` says that an attempt before may have been done, and that nobody can look it up: only the key keeps the
    party from doing it again. `is_overdue` says the same of one that should have been done before, and of which no attempt
    is known."""

    is_open: bool = False
    is_overdue: bool = False

    @property
    def was_asked(self) -> bool:
        """An intent is written with the take only where nobody was asked before, as far as is known."""
        return not self.has_intent

    async def complete(self, *writes: Write[Any], result: object = None, **changes: Any) -> Done[H]:
        changes |= {"executed": True, "executed_at": millisecond(self._now)}
        return await super().complete(*writes, result=result, **changes | LEFT)

    async def refuse(self, code: str, reason: str, *writes: Write[Any], **changes: Any) -> None:
        """That this attempt was refused says nothing about the one before: where that is open it stays so, and the
        record lives on for who has to look."""
        left = LEFT
        if self.is_open:
            ends = end_of(self.wanted_end, self._now, self._now + self.once.lifetime_s)
            left = {"queue": None, "expires_at": ends}
        await super().refuse(code, reason, *writes, **left | changes)

    async def fail(self, reason: str) -> None:
        """What failed before the party was asked waits again."""
        if self.record.asked_since is None:
            await self.release(error=reason)
        else:
            await super().fail(reason)

    async def intend(self, act_s: float, **changes: Any) -> None:
        since = self.record.asked_since if self.is_open else None
        await super().intend(act_s, asked_since=since or moment_after(self._now, 0), **changes)

    async def forget_intent(self, **changes: Any) -> None:
        """That nothing came of this attempt says nothing about the one before."""
        if not self.is_open:
            changes |= {"asked_since": None, "ends_at": None}
            if not self.is_overdue:
                changes["not_done_at"] = moment_after(self._now, 0)
            await super().forget_intent(**changes)

    async def release(self, **changes: Any) -> None:
        if self.record.asked_since is None:
            changes["status"] = OnceStatus.HELD
        await super().release(**changes)
