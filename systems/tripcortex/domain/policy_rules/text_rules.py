"""Extracts rules on cabins, fares and notice from the sentences and table rows of retrieved passages.

    passage → sentences (a table row with its column headers is one) → TextRule with its quote and citation

`limits.py` compares them with the machine-readable policy. Amounts for hotels, meals, receipts and fees are
not fares. An amount in another currency is reported in a note and not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Final, Protocol

from tripcortex.domain.policy_rules.phrases import (
    ANY,
    DAYS,
    HOURS,
    NUMBER,
    Span,
    find_amounts,
    find_cabins,
    find_routes,
    parse_number,
    parse_span,
)
from tripcortex.domain.policy_rules.travel_policy import Route
from tripcortex.model.entities import Cabin, Citation

MAX_QUOTE_CHARS: Final = 300
# Longer text is not a plain sentence and is not read as a rule; neither is a question.
MAX_SENTENCE_CHARS: Final = 400

_FARE: Final = re.compile(r"\b(?:air)?fares?\b|\btickets?\b|\bflights?\b", re.IGNORECASE)
_LIMIT: Final = re.compile(
    r"\bmax(?:imum)?\b|\bat most\b|\bup to\b|\b(?:no|not) more than\b|\bexceed|\bcap(?:s|ped)?\b|\blimit"
    r"|\babove\b|\bover\b|\bmore than\b|\bunder\b|\bbelow\b|\bless than\b",
    re.IGNORECASE,
)
_NOT_A_FARE: Final = re.compile(
    r"\bhotels?\b|\blodging\b|\bnights?\b|\bmeals?\b|\bper diem\b|\breceipts?\b|\brental|\bcars?\b"
    r"|\btaxi|(?<!taxes and )\bfees?\b|\bbag(?:s|gage)?\b|\bseats?\b|\bmileage\b|\binsurance\b"
    r"|\btransit\b|\btrains?\b|\bunused\b|\blost\b|\bstolen\b|\brefund|\bcompensat|\bcancel"
    r"|\bvouchers?\b|\bgifts?\b|\bsav(?:e|es|ed|ing|ings)\b|\bcredit\b|\bdifference\b|\bdearer\b"
    r"|\blowest\b|\bcheapest\b",
    re.IGNORECASE,
)
_NOT_A_CABIN: Final = re.compile(
    r"\btrains?\b|\brail\b|\bsecond class\b|\bcars?\b|\bhotels?\b|\bbag(?:s|gage)?\b|\bchange|\bcancel"
    r"|\brefund",
    re.IGNORECASE,
)
_NEVER: Final = re.compile(
    r"\bnot\b|\bnever\b|\bcannot\b|\bprohibit|\brefuse|\breject|\bforbidden\b|\bexcluded\b"
    r"|\bstop: hard\b",
    re.IGNORECASE,
)
# Absolute prohibitions. "Not the standard" and "not without approval" are not among them.
_FINAL: Final = re.compile(
    r"\bnever\b|\bprohibit|\bforbidden\b|\bexcluded\b|\bcannot be (?:book|approv)|\bstop: hard\b"
    r"|\bnot (?:be )?(?:book|permit|allow|authori[sz]|reimburs|accept)",
    re.IGNORECASE,
)
_CONDITION: Final = re.compile(
    r"\bunless\b|\bexcept|\bwithout\b|\bapproval\b|\bapproved? by\b|\bpre-?approv|\bif\b|\bwhen\b"
    # A condition that is not parsed: "never booked to India", "not permitted for interns".
    r"|\b(?:to|for) (?!(?:be|book|any|all|flights?|travel|travell?ers?|employees?|domestic|short|long"
    r"|international)\b)",
    re.IGNORECASE,
)
# The subject before a modal verb. A rule for some people is not a rule for all.
_SUBJECT: Final = re.compile(
    r"(?P<who>[^,;:]*?)\b(?:may|can|cannot|must|shall|should"
    r"|(?:is|are) (?:not )?(?:allowed|permitted|entitled|eligible|authori[sz]ed)(?: to)?)\b"
    r"(?: not| only| also| always| never)* "
    r"(?:fly|book|travel|buy|purchase|use|choose|take|reserve|spend)\b",
    re.IGNORECASE,
)
_EVERYBODY: Final = re.compile(
    r"(?:^|\b(?:all|any|every|our|the|company|each|no|hours?|flights?|haul|and|or) )"
    r"(?:employees?|travell?ers?|staff|personnel|passengers?|workers?)\b"
    r"|\b(?:everyone|everybody|anyone|anybody|nobody|no one|you|we|they|people|those|one)\b"
    r"|\b(?:flights?|trips?|journeys?|bookings?|travel)$",
    re.IGNORECASE,
)
_ROLE_GROUP: Final = (
    r"(?:(?:senior|junior|executive|board|managing) )?"
    r"(?:directors?|executives?|vice[- ]presidents?|presidents?|vps?|ceos?|cfos?|ctos?|officers?"
    r"|managers?|partners?|principals?|interns?|trainees?|contractors?|consultants?|engineers?|pilots?"
    r"|crews?|members?|guests?|candidates?|c-level|leadership|management|leaders?)\b"
)
_FOR_ROLE_GROUP: Final = re.compile(rf"\b(?:for|to|of) (?:the |our |all |any )?{_ROLE_GROUP}", re.IGNORECASE)
_ROLE_WORD: Final = re.compile(rf"\b{_ROLE_GROUP}", re.IGNORECASE)
_ACTS_AS_APPROVER: Final = re.compile(r"\bapprov", re.IGNORECASE)
# The rule does not apply to the words after it.
_EXCEPTION: Final = re.compile(r"\bunless\b|\bexcept(?:ing)?\b|\bother than\b", re.IGNORECASE)
_RULE_VERB: Final = re.compile(
    r"\brequire|\bmust\b|\bmay\b|\bshall\b|\bshould\b|\ballow(?:s|ed)?\b|\bpermit|\bauthori[sz]ed\b"
    r"|\bonly\b|\bmaximum\b|\bhighest\b|\bentitled\b|\beligible\b|\bstandard\b"
    r"|\b(?:cabin|class)\b[^:;]*:",
    re.IGNORECASE,
)
_AHEAD: Final = re.compile(
    r"\bin advance\b|\bahead\b|\bbefore (?:the )?(?:departure|travel|trip|flight)|\bprior to\b"
    r"|\bof departure\b|\b(?:leaves?|flights?|travel) in\b",
    re.IGNORECASE,
)
_BOOKING: Final = re.compile(r"\bbook|\bpurchas|\bticket|\breserv|\bflights?\b|\bdeparture\b", re.IGNORECASE)
# A sentence that only names a thing ("tickets") needs one of these words to be a rule about booking.
_BOOKING_ACT: Final = re.compile(r"\bbook|\bpurchas|\breserv|\bbuy|\bbought\b", re.IGNORECASE)
_REQUIREMENT: Final = re.compile(
    r"\bmust\b|\brequire|\bshould\b|\bneeds?\b|\bapprov|\bat least\b|\bless than\b|\bfewer than\b"
    r"|\bunder\b|\bminimum\b|\bwithin\b",
    re.IGNORECASE,
)
# Other acts that happen some days before a departure.
_OTHER_ACT: Final = re.compile(
    r"\bsen[dt]\b|\bdeliver|\be-?mail|\bcheck(?:ed)?[- ]in\b|\bcancel|\bchang(?:e|ed|es|ing)\b|\brefund"
    r"|\bremind|\bnotif|\bsubmit|\breceipts?\b|\bvisas?\b|\bvaccin|\bissued\b",
    re.IGNORECASE,
)
_PAST_TENSE: Final = re.compile(r"\bwas\b|\bwere\b", re.IGNORECASE)
_REFUSAL: Final = re.compile(
    r"\bnot (?:be )?(?:book|permit|allow|accept|made|possible)|\bnever\b|\bcannot be\b|\bprohibit"
    r"|\brefuse|\breject|\bstop: hard\b",
    re.IGNORECASE,
)
_APPROVAL: Final = re.compile(r"\bapprov", re.IGNORECASE)
_DAYS_AHEAD: Final = re.compile(rf"{NUMBER}({DAYS}) (?:in advance|ahead|before|prior)", re.IGNORECASE)
_REMARKS: Final = re.compile(r"\b(?:remark|note|comment|example)", re.IGNORECASE)
_BARE_NUMBER: Final = re.compile(r"[\d,]+(?:\.\d{2})?")
_MONEY_HEADER: Final = re.compile(r"\bUSD\b|\$|\bfares?\b|\bcaps?\b|\bprices?\b", re.IGNORECASE)
_LAST_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)?\+?)(?!.*\d)")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?;])\s+|\n+(?=\s*(?:[-*•]|\d+[.)])\s)|\n{2,}")
_CLAUSE_END: Final = re.compile(r",(?!\d)\s*(?:and|while|but|or)?\s*|\s+(?:and|while|but)\s+", re.IGNORECASE)
_TABLE_DIVIDER: Final = re.compile(r"^[\s|:\-]+$")


class Passage(Protocol):
    """A retrieved passage: its text and its citation."""

    @property
    def content_text(self) -> str | None: ...

    def citation(self) -> Citation: ...


class RuleKind(StrEnum):
    """The subject of a rule that was found in the text."""

    cabin = "cabin"
    fare = "fare"
    notice = "notice"
    preferred = "preferred"


@dataclass(frozen=True)
class TextRule:
    """One rule as a passage states it. Only the value that belongs to its kind is set."""

    kind: RuleKind
    citation: Citation
    cabin: Cabin | None = None
    max_usd: Decimal | None = None
    days: int | None = None
    percent: Decimal | None = None
    routes: frozenset[Route] = frozenset()
    hours: Span = ANY
    days_ahead: Span = ANY
    # "Never", "not permitted": an exception elsewhere in the text does not lift it.
    is_absolute: bool = False
    # An approver cannot lift it either.
    is_final: bool = False

    def applies_to(self, route: Route, hours: Decimal | None, notice_days: int) -> bool:
        """Return True if the rule applies to such a flight.

        Without `hours`, a rule for some durations does not apply.
        """
        within = self.hours.is_open if hours is None else hours in self.hours
        return within and notice_days in self.days_ahead and (not self.routes or route in self.routes)

    @property
    def specificity(self) -> int:
        """Return the number of conditions that restrict the rule.

        A more specific rule overrides a general one.
        """
        return bool(self.routes) + (not self.hours.is_open) + (not self.days_ahead.is_open)


@dataclass(frozen=True)
class Sentence:
    """A sentence or table row. `about` is its context: the section title and, for a row, the caption."""

    text: str
    about: str = ""
    is_row: bool = False


@dataclass(frozen=True)
class ExtractedRules:
    """The rules found in passages, and notes on amounts that could not be compared."""

    rules: tuple[TextRule, ...] = ()
    notes: tuple[str, ...] = ()


def extract_rules(passages: Iterable[Passage]) -> ExtractedRules:
    """Extract the rules of the passages, ordered by citation, with notes on what could not be compared."""
    rules: list[TextRule] = []
    notes: list[str] = []
    for citation, text in sorted(_iter_texts(passages), key=lambda pair: (pair[0].chunk_id, pair[1])):
        for sentence in split_sentences(text, citation.section_title or ""):
            cited = citation.model_copy(update={"quote": _shorten(sentence.text)})
            rules += _extract_from_sentence(sentence, cited)
            notes += _note_foreign_amounts(sentence, cited)
    return ExtractedRules(tuple(rules), tuple(dict.fromkeys(notes)))


def _iter_texts(passages: Iterable[Passage]) -> Iterator[tuple[Citation, str]]:
    return ((passage.citation(), passage.content_text or "") for passage in passages)


# --- sentences --------------------------------------------------------------------------------------------


def split_sentences(text: str, section: str = "") -> Iterator[Sentence]:
    """Yield table rows, each as "header: cell; header: cell", then the sentences of the remaining text.

    `section` is the title of the text's section. Questions and sentences above 400 characters are skipped.
    """
    prose: list[str] = []
    table: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if "|" in line:
            if not _TABLE_DIVIDER.match(line):
                table.append([cell.strip() for cell in line.strip().strip("|").split("|")])
            continue
        yield from _split_rows(table, f"{section}: {_get_last_line(prose)}")
        table = []
        prose.append(line)
    for part in _SENTENCE_END.split("\n".join(prose)):
        words = " ".join(part.split()).lstrip("-*•# ")
        if words and len(words) <= MAX_SENTENCE_CHARS and not words.endswith("?"):
            yield Sentence(words, section)


def _get_last_line(lines: list[str]) -> str:
    """Return the last line that is not blank, or an empty string."""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _split_rows(table: list[list[str]], about: str) -> Iterator[Sentence]:
    """Yield each table row as a sentence with the headers.

    A row with several prices becomes one sentence per price. Columns of remarks are left out.
    """
    for row in table[1:]:
        cells = [
            f"{head}: {_add_unit(head, cell, about)}"
            for head, cell in zip(table[0], row, strict=False)
            if cell and not _REMARKS.search(head)
        ]
        priced = [cell for cell in cells if find_amounts(cell)]
        others = [cell for cell in cells if cell not in priced]
        for each in priced or [""]:
            yield Sentence("; ".join(filter(None, [*others, each])), about, is_row=True)


def _add_unit(head: str, cell: str, about: str) -> str:
    """Return the cell with the unit of its column header: "14+" under "Days ahead" becomes "14+ days".

    A header that contains a number, such as "14 days or more", states a condition; the unit then comes from
    the caption.
    """
    is_scope = bool(re.search(r"[0-9]", head))
    if _BARE_NUMBER.fullmatch(cell) and _MONEY_HEADER.search(about if is_scope else head):
        return f"${cell}"
    for unit in ("days", "hours"):
        if not is_scope and unit[:-1] in head.lower() and unit[:-1] not in cell.lower():
            return _LAST_NUMBER.sub(rf"\1 {unit}", cell)
    return cell


# --- rules ------------------------------------------------------------------------------------------------


def _extract_from_sentence(sentence: Sentence, cited: Citation) -> Iterator[TextRule]:
    """Yield the rules of one sentence: on fares if it has an amount, on cabins if it names one.

    Otherwise it may be on notice or preferred airlines. A sentence about some people only has no rule.
    """
    if _is_about_some_people(sentence):
        return
    if find_amounts(sentence.text):
        yield from _extract_fare_rules(sentence, cited)
    elif find_cabins(sentence.text, is_row=sentence.is_row):
        yield from _extract_cabin_rules(sentence, cited)
    else:
        yield from _extract_notice_rules(sentence, cited)
        yield from _extract_preferred_rules(sentence, cited)


def _is_about_some_people(sentence: Sentence) -> bool:
    """Return True if the sentence is about some people only, such as directors or interns."""
    if sentence.is_row:
        return bool(_ROLE_WORD.search(sentence.text)) and not _ACTS_AS_APPROVER.search(sentence.text)
    if _FOR_ROLE_GROUP.search(sentence.text) and not _ACTS_AS_APPROVER.search(sentence.text):
        return True
    subjects = (each for part in _CLAUSE_END.split(sentence.text) for each in _SUBJECT.finditer(part))
    actors = [each["who"].strip() for each in subjects]
    return any(who and (_ROLE_WORD.search(who) or not _EVERYBODY.search(who)) for who in actors)


@dataclass(frozen=True)
class _Scope:
    """The flights that a clause applies to."""

    routes: frozenset[Route]
    hours: Span
    days_ahead: Span


def _parse_scope(clause: str, about: str) -> _Scope | None:
    """Return the clause's scope, or None if its exception is too complex to be expressed as a scope."""
    found = _EXCEPTION.search(clause)
    head, exception = (clause[: found.start()], clause[found.end() :]) if found else (clause, "")
    if not exception or find_cabins(exception) or find_amounts(exception):
        return _parse_plain_scope(clause, about)
    plain, lifted = _parse_plain_scope(head, about), _parse_plain_scope(exception, "")
    ends = [not lifted.hours.is_open, not lifted.days_ahead.is_open, bool(lifted.routes)]
    if not any(ends):
        return plain
    if sum(ends) > 1:
        return None
    if lifted.routes:
        left = (plain.routes or frozenset(Route)) - lifted.routes
        return replace(plain, routes=left) if left else None
    if ends[0]:
        outside = lifted.hours.complement if plain.hours.is_open else None
        return replace(plain, hours=outside) if outside else None
    outside = lifted.days_ahead.complement if plain.days_ahead.is_open else None
    return replace(plain, days_ahead=outside) if outside else None


def _parse_plain_scope(text: str, about: str) -> _Scope:
    """Return the scope of a text without an exception; the routes may come from its context `about`."""
    return _Scope(find_routes(text) or find_routes(about), parse_span(text, HOURS), parse_span(text, DAYS))


def _extract_fare_rules(sentence: Sentence, cited: Citation) -> Iterator[TextRule]:
    """Yield the price limits of a sentence about fares, one per clause with one amount in US dollars."""
    if not _is_about_fares(sentence):
        return
    clauses = _split_clauses(sentence.text, lambda clause: len(find_amounts(clause)) == 1)
    for clause in clauses:
        amount, *more = find_amounts(clause)
        scope = _parse_scope(clause, sentence.about)
        if scope is None:
            continue
        rule = TextRule(
            RuleKind.fare,
            cited,
            max_usd=amount.value,
            routes=scope.routes,
            hours=scope.hours,
            days_ahead=scope.days_ahead,
        )
        # If there are several amounts, one without a condition is ambiguous and is skipped.
        if amount.currency is not None and not more and (len(clauses) == 1 or rule.specificity):
            yield rule


def _is_about_fares(sentence: Sentence) -> bool:
    """Return whether the sentence and its context name a fare and a limit, and no other cost."""
    whole = f"{sentence.about}: {sentence.text}"
    return bool(_FARE.search(whole) and _LIMIT.search(whole) and not _NOT_A_FARE.search(whole))


def _extract_cabin_rules(sentence: Sentence, cited: Citation) -> Iterator[TextRule]:
    """Yield the best cabin per clause; for a prohibition, the cabin below the prohibited one."""
    text = sentence.text
    is_ruling = _RULE_VERB.search(text) or _NEVER.search(text)
    if not is_ruling or _NOT_A_CABIN.search(f"{sentence.about}: {text}"):
        return
    for clause in _split_clauses(text, _has_cabin_and_hours):
        named = find_cabins(clause, is_row=sentence.is_row)
        is_never = bool(_NEVER.search(clause))
        cabin = _get_cabin_below(named) if is_never else named[-1]
        scope = _parse_scope(clause, sentence.about)
        if cabin is not None and scope is not None:
            yield TextRule(
                RuleKind.cabin,
                cited,
                cabin=cabin,
                routes=scope.routes,
                hours=scope.hours,
                is_absolute=is_never,
                is_final=bool(_FINAL.search(clause)) and not _CONDITION.search(text),
            )


def _has_cabin_and_hours(clause: str) -> bool:
    """Return whether the clause names a cabin and a span of hours."""
    return bool(find_cabins(clause)) and not parse_span(clause, HOURS).is_open


def _get_cabin_below(named: list[Cabin]) -> Cabin | None:
    """Return the best cabin that remains if these are excluded, or None. Economy is never excluded."""
    excluded = [cabin for cabin in named if cabin is not Cabin.economy]
    return list(Cabin)[excluded[0].rank - 1] if excluded else None


def _extract_notice_rules(sentence: Sentence, cited: Citation) -> Iterator[TextRule]:
    """Yield the days of notice that a sentence about booking requires."""
    text = sentence.text
    days = _parse_required_days(text) if _is_about_notice(text) else None
    if days is not None:
        is_refused = bool(_REFUSAL.search(text) and not _APPROVAL.search(text))
        yield TextRule(RuleKind.notice, cited, days=days, routes=find_routes(text), is_absolute=is_refused)


def _is_about_notice(text: str) -> bool:
    """Return whether the text is a rule about how long before departure to book."""
    is_about = _AHEAD.search(text) and _BOOKING.search(text)
    is_other = _PAST_TENSE.search(text) or _OTHER_ACT.search(text)
    is_rule = _BOOKING_ACT.search(text) or _REQUIREMENT.search(text) or _REFUSAL.search(text)
    return bool(is_about and is_rule and not is_other)


def _parse_required_days(text: str) -> int | None:
    """Return the required days of notice, or None.

    "At least 14 days ahead" and "less than 14 days ahead needs approval" require the same.
    """
    exact = _DAYS_AHEAD.search(text)
    span = parse_span(text, DAYS)
    if span.is_open and exact:
        span = parse_span(f"at least {exact[1]}{exact[2]}", DAYS)
    if span.low is not None:
        # A window and "not more than a year ahead" are not required notices.
        return int(span.low) if span.high is None and span.low_included else None
    return None if span.high is None else int(span.high) + span.high_included


def _extract_preferred_rules(sentence: Sentence, cited: Citation) -> Iterator[TextRule]:
    """Yield the percentage within which a preferred airline may exceed the lowest fare."""
    found = re.search(rf"\bwithin {NUMBER} ?(?:%|percent|per cent)", sentence.text, re.IGNORECASE)
    if found and re.search(r"\bprefer", f"{sentence.about}: {sentence.text}", re.IGNORECASE):
        yield TextRule(RuleKind.preferred, cited, percent=parse_number(found[1]))


def _note_foreign_amounts(sentence: Sentence, cited: Citation) -> Iterator[str]:
    """Yield a note if a sentence about fares has an amount in another currency."""
    if _is_about_fares(sentence) and any(each.currency is None for each in find_amounts(sentence.text)):
        yield f"An amount in a currency other than USD was not compared: “{cited.quote}”."


def _split_clauses(text: str, is_whole: _ClausePredicate) -> list[str]:
    """Split a sentence into clauses that satisfy `is_whole`; other parts are joined with the next one."""
    whole: list[str] = []
    begun = ""
    for part in _CLAUSE_END.split(text):
        begun = f"{begun}, {part}" if begun else part
        if is_whole(begun):
            whole.append(begun)
            begun = ""
    if len(whole) < 2:
        return [text]
    return [*whole[:-1], f"{whole[-1]}, {begun}"] if begun else whole


class _ClausePredicate(Protocol):
    def __call__(self, clause: str, /) -> bool: ...


def _shorten(text: str) -> str:
    """Cut the text to 300 characters."""
    return text if len(text) <= MAX_QUOTE_CHARS else f"{text[: MAX_QUOTE_CHARS - 1]}…"
