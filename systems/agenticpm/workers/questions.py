"""Questions to people: build their escalations, and ask again daily what expired without a decision."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from agenticpm.domain import autonomy
from agenticpm.domain.tickets import Signal
from agenticpm.model import patterns, snapshots
from agenticpm.model.entities import Escalation, EscalationStatus
from agenticpm.model.events import get_now
from agenticpm.workers import escalations
from agenticpm.workers.cycle import SIGNALS_PER_COMMIT, CycleContext
from holdfast import Write

REPEAT_INTERVAL: Final = timedelta(days=1)


async def build_question(
    context: CycleContext, question: autonomy.Question, known: Sequence[Escalation]
) -> Sequence[Write[Any]]:
    """Build the writes of the escalation that asks the question. `known` are the project's escalations."""
    return await escalations.build_escalation(
        context.stores,
        context.project.id,
        title=question.title,
        context=question.context,
        options=question.options,
        recommendation=question.recommendation,
        rationale=question.rationale,
        subject=question.subject,
        expires_at=get_now(context.stores.clock) + autonomy.ESCALATION_LIFETIME,
        known=known,
    )


async def repeat_expired_questions(context: CycleContext, current_signals: Sequence[Signal]) -> None:
    """Ask expired questions again, at most once a day, if their signal still holds."""
    last = await context.read_checkpoint(snapshots.AGENT, snapshots.LAST_ASKED)
    now = get_now(context.stores.clock)
    if not last.has_passed(REPEAT_INTERVAL, now):
        return
    known = await escalations.list_of_project(context.stores, context.project.id)
    newest = {each.subject: each for each in known if each.subject is not None}
    writes: list[Write[Any]] = [last.build_write(context.stores, snapshots.format_time(now))]
    for signal in current_signals:
        question = autonomy.propose(context.project, signal)
        before = newest.get(signal.key)
        lapsed = before is not None and before.status is EscalationStatus.expired
        if isinstance(question, autonomy.Question) and lapsed and len(writes) < SIGNALS_PER_COMMIT * 4:
            writes += await build_question(context, question, known)
    await context.commit(patterns.check_project(context.project), *writes)
