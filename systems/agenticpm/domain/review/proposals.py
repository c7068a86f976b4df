"""Propose entries of the RAID log from the texts of open tickets and of mails.

A ticket or mail gives one entry of a kind at most: the clearest sentence, and of equal ones the last. What
was resolved later is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agenticpm.domain.plain_text import to_line
from agenticpm.domain.reading.raid_reader import (
    RaidKind,
    Source,
    Statement,
    read_statements,
    says_resolved,
    says_waiting,
)
from agenticpm.domain.reading.sentences import split_sentences
from agenticpm.domain.review.findings import Proposal
from agenticpm.domain.review.names import is_bug_type
from agenticpm.domain.review.observation import Observation
from agenticpm.domain.review.records import Mail, WorkItem
from agenticpm.domain.review.ticket_signals import explain_incident


def propose(seen: Observation) -> list[Proposal]:
    """Return the proposals of all open tickets, then of the mails."""
    found = [each for item in seen.open_items for each in _propose_for_ticket(seen, item)]
    quotes = {_normalise(each.quote) for each in found}
    for each in _propose_for_mails(seen):
        if _normalise(each.quote) not in quotes:
            quotes.add(_normalise(each.quote))
            found.append(each)
    return found


# --- tickets ------------------------------------------------------------------------------------------------


def _propose_for_ticket(seen: Observation, item: WorkItem) -> Iterator[Proposal]:
    is_held = seen.is_held(item)
    best: dict[RaidKind, Statement] = {}
    for statement in _read_ticket(seen, item, is_held):
        known = best.get(statement.kind)
        if known is None or statement.weight >= known.weight:
            best[statement.kind] = statement
    if not is_held and is_bug_type(item.type):
        best.pop(RaidKind.issue, None)
    if (cause := _find_cause(seen, item, is_held, best)) is not None:
        best[cause.kind] = cause
    if is_held and RaidKind.dependency in best:
        best.pop(RaidKind.issue, None)
    for statement in best.values():
        yield _build(seen, item, statement)


def _read_ticket(seen: Observation, item: WorkItem, is_held: bool) -> Iterator[Statement]:
    """Yield what a ticket's texts say and no later comment resolved."""
    if not seen.is_resolved_later(item, -1):
        yield from read_statements(item.description, Source.description)
    for number, comment in enumerate(item.human_comments):
        if not seen.is_resolved_later(item, number):
            yield from read_statements(comment.text, Source.comment, is_held=is_held)


def _find_cause(
    seen: Observation, item: WorkItem, is_held: bool, best: dict[RaidKind, Statement]
) -> Statement | None:
    """Return the sentence that says why a ticket is blocked or what the incident is, if nothing else did."""
    if RaidKind.issue in best or RaidKind.dependency in best:
        return None
    if explain_incident(item) is not None:
        return _get_first(item.description, RaidKind.issue) or Statement(RaidKind.issue, item.title, 1)
    blocking = seen.find_blocking_sentence(item)
    if blocking is not None and is_held:
        kind = RaidKind.dependency if says_waiting(blocking) else RaidKind.issue
        return Statement(kind, blocking, 2)
    if seen.find_block(item) is None or not (item.is_flagged or item.human_comments):
        return None
    return _get_comment_at_block(seen, item)


def _get_comment_at_block(seen: Observation, item: WorkItem) -> Statement | None:
    """Return the first sentence of the comment with which the ticket was flagged, labelled or moved."""
    moments = [
        each.at
        for each in item.changes
        if each.field == "flagged"
        or (each.field == "status" and each.after == item.status)
        or (each.field in ("labels", "link") and "block" in each.after.casefold())
    ]
    for comment in reversed(item.human_comments):
        if any(abs((comment.at - at).total_seconds()) <= 12 * 3600 for at in moments[-2:]):
            return _get_first(comment.text, RaidKind.issue)
    return None


def _get_first(text: str, kind: RaidKind) -> Statement | None:
    sentence = next((each for each in split_sentences(text) if not each.is_question), None)
    return None if sentence is None else Statement(kind, sentence.text, 1)


def _build(seen: Observation, item: WorkItem, statement: Statement) -> Proposal:
    blockers = tuple(seen.find_open_blockers(item)) if statement.kind is RaidKind.dependency else ()
    return Proposal(
        kind=statement.kind,
        title=to_line(f"{item.title}: {statement.quote}"),
        quote=statement.quote,
        ticket=item.key,
        owner=item.assignee.name if item.assignee else None,
        source=item.key,
        blocked_by=blockers,
    )


# --- mails --------------------------------------------------------------------------------------------------


def _propose_for_mails(seen: Observation) -> Iterator[Proposal]:
    """Yield the proposals of mails that people wrote and no later mail answered."""
    mails = [each for each in seen.project.mails if not each.is_automatic]
    mails = [each for each in mails if each.at is None or each.at <= seen.now]
    for mail in mails:
        best: dict[RaidKind, Statement] = {}
        for statement in read_statements(mail.text, Source.mail):
            known = best.get(statement.kind)
            if known is None or statement.weight > known.weight:
                best[statement.kind] = statement
        for statement in best.values():
            if not _is_answered(mail, statement, mails):
                quote = statement.quote
                yield Proposal(statement.kind, to_line(quote), quote, None, mail.sender or None, mail.name)


def _is_answered(mail: Mail, statement: Statement, mails: Sequence[Mail]) -> bool:
    """Return whether a later mail quotes the sentence and ends its matter."""
    quote = _normalise(statement.quote)
    return any(
        other is not mail and quote in _normalise(other.quoted) and says_resolved(other.text)
        for other in mails
    )


def _normalise(text: str) -> str:
    return " ".join(text.casefold().split())
