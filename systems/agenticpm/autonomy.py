"""How far the agent goes by itself: what it may do at which level, how sure it must be, and what it proposes.

`monitoring` observes. `artefact` keeps artefacts, and asks people. `tactical` also acts, with what a project's
`allowed_actions` names. Four scores say how sure it is of an action; all must pass, or a person is asked instead. What
goes outward is held in any case, and looked at once more when it is due: whether it may still be done (`refusal_of`), and
whether its reason still stands (`reason_gone`). Everything here is pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from agenticpm.addresses import is_address, outward_line, outward_text
from agenticpm.model import ActionType, Autonomy, Confidence, Option, Project, ProjectStatus, Source
from agenticpm.plain_text import line_of
from agenticpm.standing import is_stuck
from agenticpm.tickets import OutgoingMail, Signal, SignalKind, Snapshot, Stage, Ticket

COMMENT: Final = "comment"
MOVE: Final = "move"
MAIL: Final = "mail"

# What a project may allow. Nothing else can be allowed: the agent moves, closes, deletes, reassigns and re-estimates
# nothing by itself. A move is done where a person has approved it, and the agent proposes none.
ALLOWABLE: Final = (COMMENT, MAIL)
ALLOWED_BY_DEFAULT: Final = ALLOWABLE

# From where on a score passes. Without a precedent an action is neither known as good nor as bad.
PASSES_FROM: Final[Mapping[str, Decimal]] = {
    "source_agreement": Decimal("0.7"),
    "boundary_compliance": Decimal(1),
    "schema_validity": Decimal(1),
    "precedent_match": Decimal("0.5"),
}
NO_PRECEDENT: Final = Decimal("0.5")
PRECEDENTS: Final = 20
ACTIONS_PER_DAY_MAX: Final = 20
# How many questions of a project may wait before the agent asks no more whether it may do something.
QUESTIONS_MAX: Final = 10

# How many of those that a mail goes to are named where it is described.
NAMED_MAX: Final = 3

DO_IT: Final = "Do it"
LEAVE_IT: Final = "Leave it"
ESCALATION_LIVES: Final = timedelta(days=7)


@dataclass(frozen=True)
class Proposal:
    """Something to be done outside, and why. `detail` is what the executor needs for it."""

    kind: str
    action_type: ActionType
    description: str
    detail: Mapping[str, Any]
    signal: Signal


@dataclass(frozen=True)
class Question:
    """Something that a person has to decide."""

    title: str
    subject: str
    context: Mapping[str, Any]
    options: tuple[Option, ...]
    recommendation: str | None
    rationale: str | None


@dataclass(frozen=True)
class Precedents:
    """What became of the last actions of one kind in a project, and how many were begun within a day."""

    executed: int = 0
    cancelled: int = 0
    today: int = 0


# --- proposals ---------------------------------------------------------------------------------------------------


def proposed(project: Project, signal: Signal) -> Proposal | Question | None:
    """What a signal calls for; nothing at the level that only observes."""
    if project.autonomy_level is Autonomy.monitoring:
        return None
    if (question := _question(signal)) is not None:
        return question
    if project.autonomy_level is not Autonomy.tactical:
        return None
    match signal.kind:
        case SignalKind.blocked | SignalKind.stale | SignalKind.missing_criteria:
            # One of many tickets is of the project: there is no ticket to comment on.
            return None if signal.subject == project.source_project_key else _comment(project, signal)
        case SignalKind.risk_overdue:
            return _mail(project, signal)
    return None


def _comment(project: Project, signal: Signal) -> Proposal:
    text = {
        SignalKind.blocked: "This ticket is blocked. What is it waiting for, and who can help?",
        SignalKind.stale: "There was no news here for a while. Is it still being worked on?",
        SignalKind.missing_criteria: "This ticket has no acceptance criteria yet. Could they be added before work begins?",
    }[signal.kind]
    action = ActionType.jira_update if project.source is Source.jira else ActionType.asana_update
    return Proposal(
        COMMENT,
        action,
        f"Comment on {signal.subject}: {text}",
        {"kind": COMMENT, "ticket": signal.subject, "text": text},
        signal,
    )


def _mail(project: Project, signal: Signal) -> Proposal | None:
    recipients = project.config.get("stakeholders")
    if not recipients:
        return None
    # Who wrote the ticket or the risk must not speak to the stakeholders in the agent's name.
    subject = f"[{line_of(project.name)}] {outward_line(signal.subject)} is overdue"
    text = f"{outward_text(signal.summary)}\n\nPlease update its state, or tell us the new date."
    return Proposal(
        MAIL,
        ActionType.email_sent,
        f"Mail the stakeholders: {subject}",
        {"kind": MAIL, "to": recipients, "subject": subject, "text": text},
        signal,
    )


def _question(signal: Signal) -> Question | None:
    options: tuple[Option, ...]
    if signal.kind is SignalKind.slipping_milestone and signal.severity == "info":
        return None  # its date was moved, and can be kept: this was decided
    if signal.kind is SignalKind.slipping_milestone:
        options = (
            Option(
                option="Move the date", pros=["Keeps the scope"], cons=["Those who wait for it must be told"]
            ),
            Option(option="Cut the scope", pros=["Keeps the date"], cons=["Something is delivered later"]),
            Option(option="Keep both", pros=["No change of plan"], cons=["The risk stays"]),
        )
        return _asked(f"{signal.subject} is slipping", signal, options, "Move the date", signal.summary)
    if signal.kind is SignalKind.scope_creep:
        options = (
            Option(
                option="Accept the new work",
                pros=["Nobody waits for it"],
                cons=["The sprint's goal is at risk"],
            ),
            Option(option="Move it to the backlog", pros=["Keeps the goal"], cons=["It is delivered later"]),
        )
        return _asked("Work was added to the running sprint", signal, options, None, None)
    return None


def _asked(
    title: str,
    signal: Signal,
    options: tuple[Option, ...],
    recommendation: str | None,
    rationale: str | None,
) -> Question:
    return Question(title, signal.key, told(signal), options, recommendation, rationale)


def told(signal: Signal) -> dict[str, Any]:
    """A signal as events, actions and escalations hold it."""
    return {
        "signal": str(signal.kind),
        "subject": signal.subject,
        "summary": signal.summary,
        "evidence": [each.model_dump(mode="json", exclude_none=True) for each in signal.evidence],
    }


# --- how sure ----------------------------------------------------------------------------------------------------


def confidence_in(
    project: Project, snapshot: Snapshot, proposal: Proposal, precedents: Precedents
) -> Confidence:
    return Confidence(
        source_agreement=_agreement(snapshot, proposal),
        boundary_compliance=Decimal(int(_is_within_bounds(project, proposal, precedents))),
        schema_validity=Decimal(int(_is_valid(proposal))),
        precedent_match=_precedent(precedents),
    )


def failing(confidence: Confidence) -> list[str]:
    """The scores that do not pass; with none of them, the agent may act alone."""
    return [name for name, least in PASSES_FROM.items() if getattr(confidence, name) < least]


def asked_instead(
    proposal: Proposal, confidence: Confidence, why: Sequence[str], party: str | None = None
) -> Question:
    """The question in place of an action that the agent is not sure enough of; `party` is the site it would be for."""
    return Question(
        title=f"May the agent do this? {proposal.description}"[:200],
        subject=f"{proposal.kind}:{proposal.signal.key}",
        context=told(proposal.signal)
        | {
            "proposal": {
                "action_type": str(proposal.action_type),
                "description": proposal.description,
                "detail": dict(proposal.detail),
                "confidence": confidence.model_dump(),
                **({} if party is None else {"party": party}),
            },
            "failing": list(why),
        },
        options=(
            Option(option=DO_IT, pros=[proposal.description], cons=[f"Not sure enough: {', '.join(why)}"]),
            Option(option=LEAVE_IT, pros=["Nothing goes out"], cons=[proposal.signal.summary]),
        ),
        recommendation=None,
        rationale=None,
    )


def _agreement(snapshot: Snapshot, proposal: Proposal) -> Decimal:
    """Whether what the signal tells is what the tracker shows: all of its evidence about a ticket that is there."""
    tickets = [each.ticket for each in proposal.signal.evidence if each.ticket is not None]
    if not proposal.signal.evidence:
        return Decimal(0)
    if not tickets:
        return Decimal(1)
    there = sum(1 for each in tickets if each in snapshot.tickets)
    return (Decimal(there) / Decimal(len(tickets))).quantize(Decimal("0.01"))


def _is_within_bounds(project: Project, proposal: Proposal, precedents: Precedents) -> bool:
    return refusal_of(project, proposal.kind) is None and precedents.today < ACTIONS_PER_DAY_MAX


def _is_valid(proposal: Proposal) -> bool:
    detail = proposal.detail
    if proposal.kind == MAIL:
        try:
            return bool(sendable(detail).to)
        except ValueError:
            return False
    return all(isinstance(detail.get(name), str) and detail[name] for name in ("ticket", "text"))


def sendable(detail: Mapping[str, Any]) -> OutgoingMail:
    """The mail that a detail describes; ValueError where it is none."""
    mail = OutgoingMail.model_validate({name: detail.get(name) for name in ("to", "subject", "text")})
    if wrong := [each for each in mail.to if not is_address(each)]:
        raise ValueError(f"{wrong[0]!r} is no mail address")
    return mail


def _precedent(precedents: Precedents) -> Decimal:
    """The share of earlier ones that nobody stopped; without any, neither good nor bad."""
    total = precedents.executed + precedents.cancelled
    if total == 0:
        return NO_PRECEDENT
    return (Decimal(precedents.executed) / Decimal(total)).quantize(Decimal("0.01"))


# --- when it is due ----------------------------------------------------------------------------------------------


def refusal_of(project: Project | None, kind: str, *, by_person: bool = False) -> str | None:
    """Why an action of this kind may not be done for a project as it is now; None where it may.

    The allow-list says what the agent does without asking. A person's yes (`by_person`: an approval, or "Do it") is a
    permission for one action, whatever the list says. Nobody's yes lets the agent act for a project that is not active,
    or at a level that does not act: who wants that changes the project first.
    """
    if project is None:
        return "Its project is not there any more."
    if project.status is not ProjectStatus.active:
        return f"The project is {project.status}, and nothing is done for it until it is active again."
    if project.autonomy_level is not Autonomy.tactical:
        return f"The project's level is {project.autonomy_level}, and the agent acts at tactical only."
    if not by_person and kind not in _allowed(project):
        return f"{kind!r} is not among the allowed_actions of the project, and nobody has approved this one."
    return None


def _allowed(project: Project) -> set[str]:
    named = project.config.get("allowed_actions", list(ALLOWED_BY_DEFAULT))
    return {each for each in ALLOWABLE if isinstance(named, list) and each in named}


def reason_gone(snapshot: Snapshot | None, detail: Mapping[str, Any]) -> str | None:
    """Why a comment has lost its reason, by what was last seen of the tracker; None where it stands, or nothing tells."""
    because = detail.get("because")
    if snapshot is None or detail.get("kind") != COMMENT or not isinstance(because, Mapping):
        return None
    key = str(detail.get("ticket"))
    ticket = snapshot.tickets.get(key)
    if ticket is None:
        return None if snapshot.is_partial else f"{key} is no longer in the project."
    if ticket.stage is Stage.done:
        return f"{key} is done."
    match because.get("signal"):
        case SignalKind.blocked if not is_stuck(ticket):
            return f"{key} is no longer blocked."
        case SignalKind.stale if _was_touched(ticket, because):
            return f"{key} was worked on since."
        case SignalKind.missing_criteria if ticket.has_criteria:
            return f"{key} has acceptance criteria by now."
    return None


def _was_touched(ticket: Ticket, because: Mapping[str, Any]) -> bool:
    """Since the time that the signal rests on."""
    evidence = because.get("evidence") or ()
    times = [datetime.fromisoformat(each["at"]) for each in evidence if each.get("at")]
    return ticket.stage is not Stage.in_progress or any(ticket.updated_at > at for at in times)


def described(detail: Mapping[str, Any]) -> str:
    """What an action really does, in one line: of what goes out, and not of what somebody calls it."""
    ticket = line_of(str(detail.get("ticket")))
    match detail.get("kind"):
        case "comment":
            return f"Comment on {ticket}: {line_of(str(detail.get('text')), 160)}"
        case "move":
            return f"Move {ticket} to {line_of(str(detail.get('status')))}"
        case "mail":
            return f"Mail {_named(detail.get('to'))}: {line_of(str(detail.get('subject')))}"
    return f"Something that the agent cannot do ({line_of(str(detail.get('kind')))})"


def _named(to: Any) -> str:
    names = [line_of(str(each)) for each in to] if isinstance(to, list | tuple) else []
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return (", ".join(names[:NAMED_MAX]) or "nobody") + more
