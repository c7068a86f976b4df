"""Reads rules about notice: how many days before departure to book, and what a later booking needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from tripcortex.domain.policy_rules.extraction.approvers import find_approval
from tripcortex.domain.policy_rules.extraction.drafts import Sentence, build_rule
from tripcortex.domain.policy_rules.extraction.wording import DAYS, find_range
from tripcortex.domain.policy_rules.rules import Effect, Outcome, PolicyRule, Range

_AHEAD: Final = re.compile(
    r"\bin advance\b|\bahead\b|\badvance\b|\b(?:before|prior to|of|preceding) (?:the |their |your |its |a "
    r"|scheduled |any |first )*"
    r"(?:\w+ )?(?:departure|travel|trip|flight|journey|outbound)|\bdays out\b|\blead[- ]?time\b|\bnotice\b"
    r"|\bnorms?\b"
    r"|\bearly\b|\bearlier\b"
    r"|\bbook (?:at least|by)\b|\blate bookings?\b|\bwhen to book\b|\bbooking window\b|\bbefore (?:you "
    r"|they )?(?:fly|leave|depart)",
    re.IGNORECASE,
)
_BOOKING: Final = re.compile(
    r"\bbook|\bpurchas|\bticket|\breserv|\bflights?\b|\bdeparture\b|\bbuy\b|\bbought\b|\btravel\b"
    r"|\btrips?\b|\blead[- ]?time\b"
    r"|\bjourneys?\b",
    re.IGNORECASE,
)
_OTHER_ACT: Final = re.compile(
    r"\brequest(?:s|ed)? (?:from|to)\b|\bsen[dt]\b|\bcheck(?:ed)?[- ]in\b|\bcancel|\bchang(?:e|ed|es|ing)\b"
    r"|\brefund|\bremind|\bnotif"
    r"|\bsubmi|\breceipts?\b"
    r"|\bvisas?\b|\bvaccin|\bhotels?\b|\blodging\b|\bmeals?\b|\brental|\bclaims?\b|\breimburs|\bexpense"
    r"|\bafter (?:the )?(?:trip"
    r"|return|travel)|\breturn(?:ing)? (?:from|home)|\bnights?\b|\bexception requests?\b|\bgive (?:them"
    r"|us)\b|\bvacation|\bleave\b"
    r"|\bpassport|\bbriefing\b|\bregist|\btraining\b|\bconfirm\b|\bretain|\bpersonal days"
    r"|\bdays of travel\b|\bper day\b|\ba day\b"
    r"|\bevery\b|\bunused\b|\bvouchers?\b|\bcredits?\b|\btrip length\b|\blasting\b|\bstays?\b",
    re.IGNORECASE,
)
_LATER: Final = re.compile(
    r"\b(?:later|late|shorter[- ]notice|short[- ]notice|less notice|last[- ]minute|inside (?:this|that"
    r"|the) (?:[\w-]+ ){0,2}(?:window|period)"
    r"|within (?:this|that|the) (?:[\w-]+ ){0,2}(?:window|period)|below (?:this|that|the) (?:norm|minimum"
    r"|period)"
    r"|less than (?:the )?norm"
    r"|after (?:that|this|these)|closer in|outside (?:this|that|these|the) (?:window|period|requirement))\b",
    re.IGNORECASE,
)
_REFUSED: Final = re.compile(
    r"\bnot (?:be )?(?:book|permit|allow|accept|made|possible|issu|process|authori[sz]|entertain)|\bnever\b"
    r"|\bcannot\b"
    r"|\bprohibit|\b(?:are|is|be) (?:refused|rejected|declined)|\bnot available",
    re.IGNORECASE,
)
_SOFT: Final = re.compile(
    r"\bencourag|\brecommend|\bwhere(?:ver)? possible|\bwhen(?:ever)? possible|\bideally\b|\btry to\b|\baim\b"
    r"|\bsuggest|\bpreferabl",
    re.IGNORECASE,
)
_EXACT: Final = re.compile(
    r"\b(\d+) days(?:'s?)? (?:or more |or earlier )?(?:in advance|ahead|before|prior|out\b|of (?:lead"
    r"|notice)|(?:advance )?notice|lead)"
    r"|\b(?:notice|norm|lead[- ]?time|advance)[^.;\d]{0,25}(?:of|is|:) (\d+) days"
    r"|\b(?:is|be|becomes) (\d+) days\b",
    re.IGNORECASE,
)
_CLAUSE: Final = re.compile(
    r";\s*|,\s+(?:and|but|while|whereas)\s+|\s+and\s+(?=(?:\w+ ){0,5}\d+ days)|,\s+(?=\d+ days|\w+ flights?)",
    re.IGNORECASE,
)


def extract_notice_rules(sentence: Sentence) -> Iterator[PolicyRule]:
    """Yield the notice that a sentence requires, or what bookings within some days need."""
    if not is_about_notice(sentence):
        return
    for clause in _split_clauses(sentence.text):
        rule = _read_clause(sentence.with_text(clause), sentence.text)
        if rule is not None:
            yield rule


def is_about_notice(sentence: Sentence) -> bool:
    """Return True if the sentence or what introduces it is about booking some days before departure."""
    text = sentence.text
    if not find_range(text, DAYS) and not _EXACT.search(text):
        return False
    if _OTHER_ACT.search(text):
        return False
    context = f"{sentence.about} {text}"
    is_own = bool(_AHEAD.search(text))
    return bool((is_own or _AHEAD.search(sentence.about)) and _BOOKING.search(context))


def split_later(text: str) -> tuple[str, str]:
    """Return the clause about later bookings that names no days, and the rest of the sentence."""
    parts = re.split(r"(;\s+|,\s+(?:and|but)\s+(?=(?:\w+ ){1,8}?\d+ days))", text, maxsplit=1)
    if len(parts) == 3 and _LATER.search(parts[0]) and not find_range(parts[0], DAYS):
        return parts[0], parts[2]
    return text, ""


def find_later_approval(sentence: Sentence) -> tuple[Outcome, tuple[str, ...]] | None:
    """Return what a booking later than the notice stated before needs, if the sentence says so."""
    text = sentence.text
    is_later = _LATER.search(text) and re.search(
        r"\bbook|\bpurchas|\bticket|\blater than that|\brequest|\blater\b|\bnotice", text, re.I
    )
    if not is_later or find_range(text, DAYS) or _OTHER_ACT.search(text):
        return None
    approval = find_approval(text)
    if approval and approval.outcome is Outcome.approval:
        return Outcome.approval, approval.approvers
    return (Outcome.forbidden, ()) if _REFUSED.search(text) and not approval else None


def _split_clauses(text: str) -> list[str]:
    """Return the clauses that each name days; other parts belong to the clause before them."""
    clauses: list[str] = []
    pending = ""
    for part in _CLAUSE.split(text):
        if re.search(r"\d+ days", part) and not (pending and re.search(r"\d+ days", pending)):
            clauses.append(f"{pending}, {part}" if pending else part)
            pending = ""
        elif clauses:
            clauses[-1] = f"{clauses[-1]}, {part}"
        else:
            pending = f"{pending}, {part}" if pending else part
    return clauses or [text]


def _read_clause(clause: Sentence, whole: str) -> PolicyRule | None:
    """Return the rule of one clause: a minimum of days, or an outcome within a range of days."""
    text = clause.text
    scope = clause.parse_scope(_drop_days(text))
    span = _find_span(text)
    if span is None:
        return None
    approval = clause.find_approval() or (find_approval(whole) if text != whole else None)
    is_refused = bool(_REFUSED.search(text)) and not (approval and approval.outcome is Outcome.approval)
    outcome = Outcome.forbidden if is_refused else approval.outcome if approval else Outcome.approval
    approvers = approval.approvers if approval else ()
    is_tier = span.high is not None or outcome is Outcome.allowed
    if not is_tier or (approval is None and not is_refused):
        days = _to_minimum(span)
        if days is None:
            return None
        if _SOFT.search(text):
            return build_rule(
                clause, Effect.notice, scope, days=0, outcome=Outcome.approval, notes=("A recommendation.",)
            )
        return build_rule(clause, Effect.notice, scope, days=days, outcome=outcome, approvers=approvers)
    return build_rule(
        clause, Effect.notice, scope, outcome=outcome, approvers=approvers, scope_values={"days_ahead": span}
    )


def _drop_days(text: str) -> str:
    found = find_range(text, DAYS)
    return f"{text[: found[1]]} {text[found[2] :]}" if found else text


def _find_span(text: str) -> Range | None:
    """Return the range of days of a clause; a bare "14 days in advance" is a minimum."""
    found = find_range(text, DAYS)
    if found is not None:
        return found[0]
    exact = _EXACT.search(text)
    if exact is None:
        bare = re.search(r"\b(\d+) days\b", text)
        return Range(low=Decimal(bare[1])) if bare else None
    return Range(low=Decimal(next(each for each in exact.groups() if each)))


def _to_minimum(span: Range) -> int | None:
    """Return the days of notice that a range means: its low end, or the first day above "fewer than"."""
    if span.low is not None and span.high is None:
        return int(span.low) + (not span.low_included)
    if span.high is not None and span.low is None:
        return int(span.high) + span.high_included
    return None
