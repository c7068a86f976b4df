"""Questions to people that follow from signals, and those that are put again because nobody answered in time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from agenticpm import autonomy, escalations, patterns, snapshots
from agenticpm.events import moment
from agenticpm.model import Escalation, EscalationStatus
from agenticpm.rounds import SIGNALS_PER_COMMIT, Round
from agenticpm.tickets import Signal
from holdfast import Write

ASKED_EVERY: Final = timedelta(days=1)


async def asked(on: Round, question: autonomy.Question, known: Sequence[Escalation]) -> Sequence[Write[Any]]:
    return await escalations.escalated(
        on.stores,
        on.project.id,
        title=question.title,
        context=question.context,
        options=question.options,
        recommendation=question.recommendation,
        rationale=question.rationale,
        subject=question.subject,
        expires_at=moment(on.stores.clock) + autonomy.ESCALATION_LIVES,
        known=known,
    )


async def ask_again(on: Round, standing: Sequence[Signal]) -> None:
    """Once a day: what nobody decided in time and still stands is asked anew."""
    last = await on.mark(snapshots.AGENT, snapshots.LAST_ASKED)
    now = moment(on.stores.clock)
    if last.value is not None and now - snapshots.moment_of(last.value) < ASKED_EVERY:
        return
    known = await escalations.of_project(on.stores, on.project.id)
    newest = {each.subject: each for each in known if each.subject is not None}
    writes: list[Write[Any]] = [last.moved(on.stores, snapshots.text_of(now))]
    for signal in standing:
        question = autonomy.proposed(on.project, signal)
        before = newest.get(signal.key)
        lapsed = before is not None and before.status is EscalationStatus.expired
        if isinstance(question, autonomy.Question) and lapsed and len(writes) < SIGNALS_PER_COMMIT * 4:
            writes += await asked(on, question, known)
    await on.written(patterns.check_project(on.project), *writes)
