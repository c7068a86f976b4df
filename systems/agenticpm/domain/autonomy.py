"""Autonomy rules: the action or question a signal leads to, its confidence, and whether it is allowed.

At `monitoring` the agent observes. At `artefact` it writes artefacts and asks people. At `tactical` it also
performs the actions in a project's `allowed_actions`. Four scores measure the confidence in an action; if one
fails, a person is asked instead. Outgoing actions are always held and checked again when they are due:
whether they are still allowed (`find_refusal`), and whether their reason still holds (`find_lapsed_reason`).
Everything here is pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from agenticpm.domain.addresses import is_address, sanitize_line, sanitize_text
from agenticpm.domain.conditions import is_stuck
from agenticpm.domain.plain_text import to_line
from agenticpm.domain.tickets import OutgoingMail, Signal, SignalKind, Snapshot, Ticket, TicketStage
from agenticpm.model.entities import ActionType, Autonomy, Confidence, Option, Project, ProjectStatus, Source

COMMENT: Final = "comment"
MOVE: Final = "move"
MAIL: Final = "mail"

# The actions that a project may allow. The agent never moves, closes, deletes, reassigns or re-estimates a
# ticket by itself. It proposes no move, and performs one only if a person approved it.
ALLOWABLE: Final = (COMMENT, MAIL)
ALLOWED_BY_DEFAULT: Final = ALLOWABLE

# The minimum of each score. An action without a precedent counts as neither good nor bad.
MIN_SCORES: Final[Mapping[str, Decimal]] = {
    "source_agreement": Decimal("0.7"),
    "boundary_compliance": Decimal(1),
    "schema_validity": Decimal(1),
    "precedent_match": Decimal("0.5"),
}
NO_PRECEDENT: Final = Decimal("0.5")
PRECEDENTS: Final = 20
MAX_ACTIONS_PER_DAY: Final = 20
# With this many pending escalations in a project, the agent stops asking for permission.
MAX_QUESTIONS: Final = 10

# The number of recipients that a description of a mail names.
MAX_NAMED: Final = 3

DO_IT: Final = "Do it"
LEAVE_IT: Final = "Leave it"
ESCALATION_LIFETIME: Final = timedelta(days=7)


@dataclass(frozen=True)
class Proposal:
    """An action that the agent proposes, and its reason. `detail` is the input of the executor."""

    kind: str
    action_type: ActionType
    description: str
    detail: Mapping[str, Any]
    signal: Signal


@dataclass(frozen=True)
class Question:
    """A question for a person, who chooses one of `options`.

    `subject` identifies it: a new question supersedes a pending one with the same subject.
    """

    title: str
    subject: str
    context: Mapping[str, Any]
    options: tuple[Option, ...]
    recommendation: str | None
    rationale: str | None


@dataclass(frozen=True)
class Precedents:
    """Counts of a project's earlier actions of one type by result, and of all its actions of the last day."""

    executed: int = 0
    cancelled: int = 0
    today: int = 0


# --- proposals ----------------------------------------------------------------------------------------------


def propose(project: Project, signal: Signal) -> Proposal | Question | None:
    """Return the action or question that a signal calls for at the project's autonomy level, or None.

    At `monitoring` it is always None; actions are proposed only at `tactical`.
    """
    if project.autonomy_level is Autonomy.monitoring:
        return None
    if (question := _build_question(signal)) is not None:
        return question
    if project.autonomy_level is not Autonomy.tactical:
        return None
    match signal.kind:
        case SignalKind.blocked | SignalKind.stale | SignalKind.missing_criteria:
            # A signal about many tickets has the project as its subject: there is no ticket to comment on.
            return None if signal.subject == project.source_project_key else _propose_comment(project, signal)
        case SignalKind.risk_overdue:
            return _propose_mail(project, signal)
    return None


def _propose_comment(project: Project, signal: Signal) -> Proposal:
    """Propose the comment for a blocked or stale ticket, or one without acceptance criteria."""
    text = {
        SignalKind.blocked: "This ticket is blocked. What is it waiting for, and who can help?",
        SignalKind.stale: "There was no news here for a while. Is it still being worked on?",
        SignalKind.missing_criteria: (
            "This ticket has no acceptance criteria yet. Could they be added before work begins?"
        ),
    }[signal.kind]
    action = ActionType.jira_update if project.source is Source.jira else ActionType.asana_update
    return Proposal(
        COMMENT,
        action,
        f"Comment on {signal.subject}: {text}",
        {"kind": COMMENT, "ticket": signal.subject, "text": text},
        signal,
    )


def _propose_mail(project: Project, signal: Signal) -> Proposal | None:
    """Propose a mail to the project's stakeholders about an overdue risk, or None without stakeholders."""
    recipients = project.config.get("stakeholders")
    if not recipients:
        return None
    # The author of the ticket or risk must not speak to the stakeholders in the agent's name.
    subject = f"[{to_line(project.name)}] {sanitize_line(signal.subject)} is overdue"
    text = f"{sanitize_text(signal.summary)}\n\nPlease update its state, or tell us the new date."
    return Proposal(
        MAIL,
        ActionType.email_sent,
        f"Mail the stakeholders: {subject}",
        {"kind": MAIL, "to": recipients, "subject": subject, "text": text},
        signal,
    )


def _build_question(signal: Signal) -> Question | None:
    """Return the question for a slipping milestone or scope creep; None for any other signal."""
    options: tuple[Option, ...]
    if signal.kind is SignalKind.slipping_milestone and signal.severity == "info":
        return None  # people moved the date, and the new one can be met
    if signal.kind is SignalKind.slipping_milestone:
        options = (
            Option(option="Move the date", pros=["Keeps the scope"], cons=["Stakeholders must be informed"]),
            Option(
                option="Cut the scope", pros=["Keeps the date"], cons=["Part of the scope is delivered later"]
            ),
            Option(option="Keep both", pros=["No change of plan"], cons=["The risk stays"]),
        )
        return _build_signal_question(
            f"{signal.subject} is slipping", signal, options, "Move the date", signal.summary
        )
    if signal.kind is SignalKind.scope_creep:
        options = (
            Option(
                option="Accept the new work",
                pros=["It is delivered without delay"],
                cons=["The sprint's goal is at risk"],
            ),
            Option(option="Move it to the backlog", pros=["Keeps the goal"], cons=["It is delivered later"]),
        )
        return _build_signal_question("Work was added to the running sprint", signal, options, None, None)
    return None


def _build_signal_question(
    title: str,
    signal: Signal,
    options: tuple[Option, ...],
    recommendation: str | None,
    rationale: str | None,
) -> Question:
    return Question(title, signal.key, build_signal_detail(signal), options, recommendation, rationale)


def build_signal_detail(signal: Signal) -> dict[str, Any]:
    """Build the detail under which events, actions and escalations store a signal."""
    return {
        "signal": str(signal.kind),
        "subject": signal.subject,
        "summary": signal.summary,
        "evidence": [each.model_dump(mode="json", exclude_none=True) for each in signal.evidence],
    }


# --- confidence ---------------------------------------------------------------------------------------------


def compute_confidence(
    project: Project, snapshot: Snapshot, proposal: Proposal, precedents: Precedents
) -> Confidence:
    """Score a proposal from 0 to 1 by source agreement, bounds, schema validity and precedents."""
    return Confidence(
        source_agreement=_score_agreement(snapshot, proposal),
        boundary_compliance=Decimal(int(_is_within_bounds(project, proposal, precedents))),
        schema_validity=Decimal(int(_is_valid(proposal))),
        precedent_match=_score_precedents(precedents),
    )


def find_failing_scores(confidence: Confidence) -> list[str]:
    """Return the names of the scores below their minimum; if there are none, the agent may act alone."""
    return [name for name, least in MIN_SCORES.items() if getattr(confidence, name) < least]


def build_permission_question(
    proposal: Proposal, confidence: Confidence, failing: Sequence[str], site: str | None = None
) -> Question:
    """Build the question that asks for permission when an action has too low confidence.

    `failing` are the names of the failing scores; `site` is the integration that the action was proposed for.
    """
    return Question(
        title=f"May the agent do this? {proposal.description}"[:200],
        subject=f"{proposal.kind}:{proposal.signal.key}",
        context=build_signal_detail(proposal.signal)
        | {
            "proposal": {
                "action_type": str(proposal.action_type),
                "description": proposal.description,
                "detail": dict(proposal.detail),
                "confidence": confidence.model_dump(),
                **({} if site is None else {"party": site}),
            },
            "failing": list(failing),
        },
        options=(
            Option(
                option=DO_IT, pros=[proposal.description], cons=[f"Confidence too low: {', '.join(failing)}"]
            ),
            Option(option=LEAVE_IT, pros=["Nothing is sent"], cons=[proposal.signal.summary]),
        ),
        recommendation=None,
        rationale=None,
    )


def _score_agreement(snapshot: Snapshot, proposal: Proposal) -> Decimal:
    """Score the agreement with the tracker: the share of evidence tickets that the snapshot has.

    A signal without evidence scores 0, one whose evidence names no ticket 1.
    """
    tickets = [each.ticket for each in proposal.signal.evidence if each.ticket is not None]
    if not proposal.signal.evidence:
        return Decimal(0)
    if not tickets:
        return Decimal(1)
    there = sum(1 for each in tickets if each in snapshot.tickets)
    return (Decimal(there) / Decimal(len(tickets))).quantize(Decimal("0.01"))


def _is_within_bounds(project: Project, proposal: Proposal, precedents: Precedents) -> bool:
    """Return whether the project allows the kind of action now and the daily limit is not reached."""
    return find_refusal(project, proposal.kind) is None and precedents.today < MAX_ACTIONS_PER_DAY


def _is_valid(proposal: Proposal) -> bool:
    """Return whether the detail is complete: a valid mail, or a ticket and a text."""
    detail = proposal.detail
    if proposal.kind == MAIL:
        try:
            return bool(parse_mail(detail).to)
        except ValueError:
            return False
    return all(isinstance(detail.get(name), str) and detail[name] for name in ("ticket", "text"))


def parse_mail(detail: Mapping[str, Any]) -> OutgoingMail:
    """Return the mail that an action's detail describes.

    Raise ValueError if a field or an address is invalid.
    """
    mail = OutgoingMail.model_validate({name: detail.get(name) for name in ("to", "subject", "text")})
    if wrong := [each for each in mail.to if not is_address(each)]:
        raise ValueError(f"{wrong[0]!r} is not a mail address")
    return mail


def _score_precedents(precedents: Precedents) -> Decimal:
    """Return the share of decided earlier actions that were executed; `NO_PRECEDENT` without any."""
    total = precedents.executed + precedents.cancelled
    if total == 0:
        return NO_PRECEDENT
    return (Decimal(precedents.executed) / Decimal(total)).quantize(Decimal("0.01"))


# --- at execution -------------------------------------------------------------------------------------------


def find_refusal(project: Project | None, kind: str, *, is_approved: bool = False) -> str | None:
    """Return why an action of this kind is not allowed for the project now, or None.

    The allow-list names what the agent does without asking. A person's approval (`is_approved`: a review, or
    "Do it") permits one action regardless of the list. No approval lets the agent act for a project that is
    not active, or at a level that does not act: change the project first.
    """
    if project is None:
        return "Its project no longer exists."
    if project.status is not ProjectStatus.active:
        return f"The project is {project.status}: the agent does nothing for it until it is active again."
    if project.autonomy_level is not Autonomy.tactical:
        return f"The project's level is {project.autonomy_level}, but the agent acts only at tactical."
    if not is_approved and kind not in _get_allowed_actions(project):
        return f"{kind!r} is not in the project's allowed_actions, and this action is not approved."
    return None


def _get_allowed_actions(project: Project) -> set[str]:
    """Return the project's `allowed_actions`, without names that no project may allow."""
    named = project.config.get("allowed_actions", list(ALLOWED_BY_DEFAULT))
    return {each for each in ALLOWABLE if isinstance(named, list) and each in named}


def find_lapsed_reason(snapshot: Snapshot | None, detail: Mapping[str, Any]) -> str | None:
    """Return why the reason of a held comment no longer holds in the last snapshot, or None.

    None means that the reason holds, that it is unknown, or that the action is not a comment.
    """
    because = detail.get("because")
    if snapshot is None or detail.get("kind") != COMMENT or not isinstance(because, Mapping):
        return None
    key = str(detail.get("ticket"))
    ticket = snapshot.tickets.get(key)
    if ticket is None:
        return None if snapshot.is_partial else f"{key} is no longer in the project."
    if ticket.stage is TicketStage.done:
        return f"{key} is done."
    match because.get("signal"):
        case SignalKind.blocked if not is_stuck(ticket):
            return f"{key} is no longer blocked."
        case SignalKind.stale if _was_touched(ticket, because):
            return f"{key} was updated since."
        case SignalKind.missing_criteria if ticket.has_criteria:
            return f"{key} now has acceptance criteria."
    return None


def _was_touched(ticket: Ticket, because: Mapping[str, Any]) -> bool:
    """Return whether the ticket left `in_progress`, or changed since the time in the signal's evidence."""
    evidence = because.get("evidence") or ()
    times = [datetime.fromisoformat(each["at"]) for each in evidence if each.get("at")]
    return ticket.stage is not TicketStage.in_progress or any(ticket.updated_at > at for at in times)


def describe_action(detail: Mapping[str, Any]) -> str:
    """Describe an action in one line from the content that goes out, not from its editable description."""
    ticket = to_line(str(detail.get("ticket")))
    match detail.get("kind"):
        case "comment":
            return f"Comment on {ticket}: {to_line(str(detail.get('text')), 160)}"
        case "move":
            return f"Move {ticket} to {to_line(str(detail.get('status')))}"
        case "mail":
            return f"Mail {_format_recipients(detail.get('to'))}: {to_line(str(detail.get('subject')))}"
    return f"Unknown action kind ({to_line(str(detail.get('kind')))})"


def _format_recipients(to: Any) -> str:
    """Format the first three recipients and the number of the others."""
    names = [to_line(str(each)) for each in to] if isinstance(to, list | tuple) else []
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return (", ".join(names[:MAX_NAMED]) or "nobody") + more
