"""Reads rules about fares.

Caps, thresholds above which an approval is needed, and tiers of fares above a cap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from tripcortex.domain.policy_rules.extraction.approvers import Approval, find_approval, is_refusal
from tripcortex.domain.policy_rules.extraction.drafts import Sentence, build_rule
from tripcortex.domain.policy_rules.extraction.lexicon import INCLUDED, OTHER_COST
from tripcortex.domain.policy_rules.extraction.plain_words import find_odd_words
from tripcortex.domain.policy_rules.extraction.scopes import ParsedScope, parse_scope
from tripcortex.domain.policy_rules.extraction.wording import CABIN_MARK, find_cabins, find_range
from tripcortex.domain.policy_rules.rules import Basis, Effect, Outcome, PolicyRule, Range, RuleScope

FARE_WORDS: Final = re.compile(
    r"\b(?:air)?fares?\b|\btickets?\b|\bflights?\b|\bair ?travel\b|\bairfare|\bair\b|\b(?:fare )?(?:cap"
    r"|ceiling)s?\b",
    re.IGNORECASE,
)
_RELATIVE: Final = re.compile(
    r"\b(?:lowest|cheapest|cheaper|dearer|difference|(?:more|less|higher|lower|above|below"
    r"|over) (?:expensive )?than the"
    r" (?:lowest|cheapest|best|economy)|compared|lowest logical|next available)\b",
    re.IGNORECASE,
)
_ADJUSTMENT: Final = re.compile(
    r"\b(?:add(?:s|ed|ing)?|plus|increase[sd]?|raise[sd]?|additional|extra|on top|reduc\w+|supplement"
    r"|surcharge|allowance of)\b",
    re.IGNORECASE,
)
_CAP: Final = re.compile(
    r"\bmax(?:imum)?\b|\bpriced\b|\bat most\b|\bup to\b|\b(?:no|not) more than\b|\bexceed|\bcap(?:s|ped)?\b"
    r"|\blimit"
    r"|\bceiling|\bmay cost\b"
    r"|\bcannot cost\b|\bor (?:less|under|below)\b|\bwithin\b|\bunder\b|\bbelow\b|\bless than\b"
    r"|\ballowance\b|\bbudget\b|\bnot above\b",
    re.IGNORECASE,
)
_THRESHOLD: Final = re.compile(
    r"(?<!not )(?<!no )\b(?:over|above|more than|exceed(?:s|ing|ed)?|greater than|higher than|in excess of"
    r"|costing more than) (?:of )?\$[\d.]+"
    r"|\$[\d.]+ (?:or (?:more|above|over|higher)|and (?:above|over|up))",
    re.IGNORECASE,
)
_AMOUNT: Final = re.compile(r"\$(\d+(?:\.\d+)?)")
_FOREIGN: Final = re.compile(r"¤\d")
_OVER_CAP: Final = re.compile(
    r"\b(?:over|above|exceed(?:s|ed|ing)?|beyond|in excess of|excess|overage|higher than|more than"
    r"|further above|surpass\w*|more expensive|costs? more|dearer)\b",
    re.IGNORECASE,
)
_CAP_WORDS: Final = re.compile(
    r"\b(?:caps?|ceilings?|limits?|allowances?|maxim(?:um|a)|budgets?|rates?|guideline|threshold|fares?"
    r"|thresholds|benchmark)\b",
    re.IGNORECASE,
)
_OVER_CONTEXT: Final = re.compile(
    r"\b(?:over|above|exceed\w*|excess|overage|went over|beyond|higher than)\b", re.IGNORECASE
)
_EXCESS: Final = re.compile(
    r"\bexcess (?:is|of|over|above)\b|\boverage\b|\b(?:over|above) by\b|\bwent over\b|\bthe excess\b",
    re.IGNORECASE,
)
_ASKED: Final = re.compile(
    r"\b(?:ask|it is|it's|goes to|talk to|see|that's|this is) ((?:your|the|a) [^,.;]+)", re.IGNORECASE
)
_IS_CAP: Final = re.compile(
    r"\b(?:cap|limit|ceiling|maximum|allowance)s?(?: fare| price)?(?: for \w+)?(?: is| are| of"
    r"|:) (?:set at )?\$\d",
    re.IGNORECASE,
)
_REFUSED: Final = re.compile(
    r"\bnot (?:be )?(?:book|permit|allow|accept|issu|authori[sz]|approv|reimburs|bought|buy)|\bnever\b"
    r"|\bcannot be\b|\bprohibit"
    r"|\b(?:are|is|be) (?:refused|rejected|declined)|\bdo not buy\b|\bforbidden\b",
    re.IGNORECASE,
)
_ONE_WAY: Final = re.compile(
    r"\bone[- ]way\b|\beach way\b|\bper (?:way|direction|sector|leg|segment)\b|\b(?:each"
    r"|either) (?:direction|leg|sector)\b|\ba leg\b",
    re.IGNORECASE,
)
_ROUND_TRIP: Final = re.compile(
    r"\bround[- ]?trips?\b|\breturn (?:tickets?|fares?|journeys?|trips?|limit|flights?)\b"
    r"|\breturn\b(?= limit|$|,|\))|\$\d+ return\b|"
    r"\bboth ways\b|\broundtrip\b|\bwhole journey\b|\bper return\b|, return\b",
    re.IGNORECASE,
)
_DOUBLED: Final = re.compile(
    r"\b(?:multipl\w+ (?:it |them |this )?by 2|doubl\w+|twice|2 times)\b[^.]*\b(?:round|return)"
    r"|\b(?:round|return)[- ]?(?:trip|ticket|fare|journey)s?[^.]*\b(?:doubl\w+|twice|2 one-way|as 2)",
    re.IGNORECASE,
)
_LABELLED: Final = re.compile(r": (?:up to )?\$\d")
_TIMES: Final = re.compile(r"(@[PBF])\b[^@;.]{0,60}?(\d(?:\.\d+)?) times\b")
_RAISED: Final = re.compile(
    r"\b(?:add|increase[sd]?(?: by)?|raise[sd]?(?: by)?|higher by|plus) (?:another "
    r"|up to )?(?:\$(?P<usd>\d+)|(?P<percent>\d+)%)",
    re.IGNORECASE,
)
_CLAUSE: Final = re.compile(
    r";\s*|,?\s+(?:and|but|while|whereas)\s+(?=[^,;]*\$\d)|,\s+(?=[^,;]{0,60}\$\d)", re.IGNORECASE
)
_MULTIPLE: Final = re.compile(
    r"\b(?:exceed\w*|more than|over|above|beyond|higher than) (twice|double|thrice|(\d+(?:\.\d+)?)"
    r" times) (?:the|this|that|its)",
    re.IGNORECASE,
)
_PERCENT_OVER: Final = r"%"


def find_basis(text: str) -> Basis | None:
    """Return the basis of an amount that the text names, or None if it names none or both."""
    if _DOUBLED.search(text):
        return "one_way"
    is_one_way, is_return = bool(_ONE_WAY.search(text)), bool(_ROUND_TRIP.search(text))
    if is_one_way == is_return:
        return None
    return "one_way" if is_one_way else "round_trip"


def extract_fare_rules(sentence: Sentence) -> Iterator[PolicyRule]:
    """Yield the fare caps, thresholds and tiers above a cap of a sentence."""
    text = sentence.text
    if overage := read_overage(sentence):
        yield overage
        return
    adjustments = [*read_adjustments(sentence)]
    if adjustments:
        yield from adjustments
        return
    if not is_about_fares(sentence) or _RELATIVE.search(text) or _ADJUSTMENT.search(text):
        return
    if _FOREIGN.search(text):
        notes = ("An amount in a currency other than USD is not compared.",)
        yield build_rule(
            sentence, Effect.unknown, ParsedScope(parse_scope(text, sentence.vocabulary).scope), notes=notes
        )
        return
    lead = _find_lead(text)
    for at, clause in enumerate(_split_clauses(text)):
        clause = clause if at == 0 or CABIN_MARK.search(clause) else f"{lead}{clause}"
        yield from _read_clause(sentence.with_text(clause), find_basis(text), is_cap=bool(_CAP.search(text)))


def read_adjustments(sentence: Sentence) -> Iterator[PolicyRule]:
    """Yield by how much a cap is higher for some cabins or routes, if the sentence plainly says so."""
    text = sentence.text
    if not _CAP_WORDS.search(text) or OTHER_COST.search(text):
        return
    for found in _TIMES.finditer(text):
        yield _build_adjustment(sentence, ParsedScope(RuleScope()), found[1], percent=Decimal(found[2]) * 100)
    raised = _RAISED.search(text)
    if raised is None:
        return
    odd = find_odd_words(_RAISED.sub("add", text), sentence.vocabulary)
    parsed = sentence.parse_scope()
    scope = ParsedScope(parsed.scope, parsed.problem or odd)
    usd, percent = raised["usd"], raised["percent"]
    marks = " ".join(CABIN_MARK.findall(text))
    yield _build_adjustment(
        sentence,
        scope,
        marks,
        amount_usd=Decimal(usd) if usd else None,
        percent=100 + Decimal(percent) if percent else None,
        basis=(find_basis(text) or sentence.vocabulary.basis) if usd else None,
    )


def _build_adjustment(sentence: Sentence, scope: ParsedScope, marks: str, **values: Any) -> PolicyRule:
    """Return an adjustment for the cabins that the marks name."""
    cabins = {"cabins": tuple(find_cabins(marks))} if marks else {}
    outcome = Outcome.allowed
    return build_rule(sentence, Effect.fare_adjustment, scope, outcome=outcome, scope_values=cabins, **values)


def is_about_fares(sentence: Sentence) -> bool:
    """Return True if the amounts of the sentence are fares rather than other costs."""
    text, about = INCLUDED.sub(" ", sentence.text), INCLUDED.sub(" ", sentence.about)
    if not (_AMOUNT.search(text) or _FOREIGN.search(text)) or OTHER_COST.search(text):
        return False
    is_fare = FARE_WORDS.search(f"{text} {about}") or find_basis(text) or CABIN_MARK.search(text)
    return bool(is_fare) and not (OTHER_COST.search(about) and not FARE_WORDS.search(text))


def _find_lead(text: str) -> str:
    """Return the cabin in front of the first amount: "In premium economy up to $650 on …, and $900 on …"."""
    amount = _AMOUNT.search(text)
    marks = CABIN_MARK.findall(text[: amount.start()]) if amount else []
    return f"{marks[0]}: " if len(marks) == 1 else ""


def _split_clauses(text: str) -> list[str]:
    """Return the clauses that each name an amount."""
    clauses: list[str] = []
    # Amounts with labels ("Africa: $900; Europe and Asia: $1300") are split behind the amounts only.
    parts = (
        re.split(r"[;,]\s+(?=[^;,:]+: )", text) if len(_LABELLED.findall(text)) > 1 else _CLAUSE.split(text)
    )
    for part in parts:
        if clauses and not (_AMOUNT.search(part) and _AMOUNT.search(clauses[-1])):
            clauses[-1] = f"{clauses[-1]}, {part}"
        else:
            clauses.append(part)
    return clauses


def _read_clause(clause: Sentence, basis: Basis | None, *, is_cap: bool) -> Iterator[PolicyRule]:
    """Yield the cap of a clause; with "above $X" the threshold from which an outcome counts."""
    text = clause.text
    amount = _AMOUNT.search(text)
    if amount is None:
        return
    approval = clause.find_approval()
    if _THRESHOLD.search(text):
        is_limit = re.match(r"\W*(?:no|neither|at no time|never)\b", text, re.IGNORECASE)
        if approval is None and not _REFUSED.search(text) and not is_limit:
            return
        yield build_cap(clause, Decimal(amount[1]), text, approval, basis)
    elif _CAP.search(text) or clause.is_value or is_cap:
        yield build_cap(clause, Decimal(amount[1]), text, approval, basis)


def build_cap(
    clause: Sentence, usd: Decimal, text: str, approval: Approval | None, basis: Basis | None
) -> PolicyRule:
    """Return the cap of a clause. `approval` is what a higher fare needs, `basis` that of the sentence."""
    scope = clause.parse_scope()
    cabins = tuple(find_cabins(text))
    is_needed = approval is not None and approval.outcome is Outcome.approval
    is_refused = bool(_REFUSED.search(text)) and not is_needed
    return build_rule(
        clause,
        Effect.fare_cap,
        scope,
        amount_usd=usd,
        one_way_percent=clause.vocabulary.one_way_percent,
        basis=find_basis(text) or basis or find_basis(clause.about) or clause.vocabulary.basis,
        outcome=Outcome.forbidden if is_refused else Outcome.approval,
        approvers=approval.approvers if approval and is_needed else (),
        scope_values={"cabins": cabins} if cabins else {},
    )


def read_overage(sentence: Sentence) -> PolicyRule | None:
    """Return what a fare above the cap needs, if the sentence is about such fares."""
    text = sentence.text
    about = INCLUDED.sub(" ", sentence.about)
    context = f"{about} {text}"
    is_over = (_OVER_CAP.search(text) and _CAP_WORDS.search(text)) or _OVER_CONTEXT.search(sentence.about)
    is_over = is_over or _EXCESS.search(text)
    if not is_over or OTHER_COST.search(text) or (OTHER_COST.search(about) and not FARE_WORDS.search(text)):
        return None
    if not (FARE_WORDS.search(context) or _CAP_WORDS.search(context) or _EXCESS.search(text)) or re.search(
        r"\blowest\b|\bpreferred\b", text, re.I
    ):
        return None
    is_listed = bool(_OVER_CONTEXT.search(sentence.about)) or bool(re.search(r"\bby (?:\$\d|\d)", text))
    percent = _find_tier(text, _PERCENT_OVER, "", is_over=is_listed)
    usd = _find_tier(text, "", r"\$", is_over=is_listed)
    approval = sentence.find_approval()
    if approval is None and (percent or usd) and (named := _ASKED.search(text)):
        approval = find_approval(named[1], is_value=True)
    is_asked = approval is not None and approval.outcome is Outcome.approval
    is_refused = is_refusal(text) or (bool(_REFUSED.search(text)) and not is_asked)
    is_waived = bool(
        re.search(r"\bbook it\b|\bno (?:need|action)|\bfree\b|\bwithout\b.*approval|\bfine\b", text, re.I)
    )
    if approval is None and not is_refused and not is_waived:
        return None
    is_numbered = percent is not None or usd is not None
    if not is_numbered and not (
        _OVER_CAP.search(text) and _CAP_WORDS.search(text) and FARE_WORDS.search(text)
    ):
        return None
    if not is_numbered and (re.search(r"\b(?:class|cabin)\b", text, re.I) or find_cabins(text)):
        return None
    if _IS_CAP.search(text) and percent is None:
        return None
    if percent is None and usd is None and (_AMOUNT.search(text) or "%" in text or find_cabins(text)):
        return None
    outcome = Outcome.forbidden if is_refused else approval.outcome if approval else Outcome.allowed
    return build_rule(
        sentence,
        Effect.overage,
        sentence.parse_scope(_drop_tier(text)),
        outcome=outcome,
        approvers=approval.approvers if approval else (),
        over_percent=percent,
        over_usd=usd,
        basis=(find_basis(text) or find_basis(sentence.about)) if usd else None,
    )


def _find_tier(text: str, unit: str, mark: str, *, is_over: bool) -> Range | None:
    """Return the range by which a fare is above the cap."""
    text = re.sub(r"\bby (no |not )?", r"\1", text)
    multiple = _MULTIPLE.search(text)
    if multiple and unit == _PERCENT_OVER:
        times = {"twice": Decimal(2), "double": Decimal(2), "thrice": Decimal(3)}.get(multiple[1].lower())
        return Range(low=((times or Decimal(multiple[2])) - 1) * 100, low_included=False)
    text = re.sub(
        r"\bexceeds? (?:the |its |this |that )?(?:[\w-]+ ){0,3}?(?:cap|limit|ceiling"
        r"|allowance)s? (?=[\w ]*[$\d])",
        "",
        text,
        flags=re.IGNORECASE,
    )
    if mark and re.search(r"\$\d+(?:\.\d+)? or less", text):
        found = find_range(text, "", mark)
    else:
        found = find_range(text, unit, mark)
    if found is not None:
        return found[0]
    if not is_over:
        return None
    exact = re.search(rf"{mark}(\d+(?:\.\d+)?){unit}" if mark else rf"(\d+(?:\.\d+)?){unit}", text)
    return Range(high=Decimal(exact[1])) if exact and (mark or unit) else None


def _drop_tier(text: str) -> str:
    return re.sub(r"[^,;:]*\d(?:\.\d+)?%[^,;:]*|\bwithin (?:the )?cap\b", " ", text)
