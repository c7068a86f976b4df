"""The claim on a delayed action, which a worker holds while it runs the action.

It extends the claim of `Once`: the record leaves the queue of due actions when the action ends. After an
attempt that certainly did nothing the record waits again: it is due, and a person may still edit or cancel
it. After an attempt with an unknown outcome it does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeVar

from holdfast.guarantees.delayed_actions.record import DelayedAction, truncate_to_millisecond
from holdfast.guarantees.idempotency.claim import Claim, Completion
from holdfast.guarantees.idempotency.record import OnceStatus, compute_end, compute_time_after
from holdfast.model.operations import Write

H = TypeVar("H", bound=DelayedAction)

OUTCOME_UNKNOWN: Final = "OutcomeUnknown"
"""Refusal code: the action may have been done, the library cannot find out, and a person must check."""

# Attributes cleared when a record has left the queue and no outcome is open.
OFF_QUEUE: Final[dict[str, Any]] = dict.fromkeys(("queue", "asked_since", "not_done_at", "ends_at"))


@dataclass
class DelayedActionClaim(Claim[H]):
    """The claim on a delayed action.

    With `is_open` an earlier attempt may have succeeded and cannot be looked up: only the idempotency key
    prevents a repeat. With `is_overdue` the same holds for an action that should have run long ago and has no
    recorded attempt.
    """

    is_open: bool = False
    is_overdue: bool = False

    @property
    def was_attempted(self) -> bool:
        """True if the service may have been called before.

        An intent is written with the take only if no earlier call is known.
        """
        return not self.has_intent

    async def complete(self, *writes: Write[Any], result: object = None, **changes: Any) -> Completion[H]:
        """Commit the writes and the completion, mark the action as executed, and take it off the queue."""
        changes |= {"executed": True, "executed_at": truncate_to_millisecond(self._now)}
        return await super().complete(*writes, result=result, **changes | OFF_QUEUE)

    async def refuse(self, code: str, reason: str, *writes: Write[Any], **changes: Any) -> None:
        """Record the permanent refusal of this attempt and take the action off the queue.

        If the outcome of an earlier attempt is open, it stays open, and the record is kept for the person who
        must check.
        """
        left = OFF_QUEUE
        if self.is_open:
            ends = compute_end(self.requested_end, self._now, self._now + self.once.retention_s)
            left = {"queue": None, "expires_at": ends}
        await super().refuse(code, reason, *writes, **left | changes)

    async def fail(self, reason: str) -> None:
        """Record the failure.

        An action whose service was never called waits again (`held`); otherwise it is `failed`.
        """
        if self.record.asked_since is None:
            await self.release(error=reason)
        else:
            await super().fail(reason)

    async def record_intent(self, act_s: float, **changes: Any) -> None:
        """Record that the service is about to be called, and since when its outcome may be open."""
        since = self.record.asked_since if self.is_open else None
        await super().record_intent(act_s, asked_since=since or compute_time_after(self._now, 0), **changes)

    async def clear_intent(self, **changes: Any) -> None:
        """Clear the intent of this attempt. If the outcome of an earlier one is open, change nothing."""
        if not self.is_open:
            changes |= {"asked_since": None, "ends_at": None}
            if not self.is_overdue:
                changes["not_done_at"] = compute_time_after(self._now, 0)
            await super().clear_intent(**changes)

    async def release(self, **changes: Any) -> None:
        """Release the claim. An action whose service was never called waits again (`held`)."""
        if self.record.asked_since is None:
            changes["status"] = OnceStatus.HELD
        await super().release(**changes)
