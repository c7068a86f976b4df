"""Rules in retrieved passages: which cabin, which fare, how many days ahead, as sentences and table rows say it.

    passage → sentences (a table's row is one, with its heads) → TextRule with the words and where they stand

`limits.py` lays them beside the machine-readable policy. Amounts of hotels, meals, receipts and fees are no fares, and an
amount in another currency is told and not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Final, Protocol

from tripcortex.model import Cabin, Citation
from tripcortex.rules.policy import Route
from tripcortex.rules.wording import (
    ANY,
    DAYS,
    HOURS,
    NUMBER,
    Span,
    amounts_of,
    cabins_of,
    number_of,
    routes_of,
    span_of,
)

QUOTE_CHARS_MAX: Final = 300
# What is longer is no plain sentence, and is not taken for a rule; nor is a question.
SENTENCE_CHARS_MAX: Final = 400

_FARE: Final = re.compile(r"\b(?:air)?fares?\b|\btickets?\b|\bflights?\b", re.IGNORECASE)
_LIMIT: Final = re.compile(
    r"\bmax(?:imum)?\b|\bat most\b|\bup to\b|\b(?:no|not) more than\b|\bexceed|\bcap(?:s|ped)?\b|\blimit|\babove\b"
    r"|\bover\b|\bmore than\b|\bunder\b|\bbelow\b|\bless than\b",
    re.IGNORECASE,
)
_OTHER_MONEY: Final = re.compile(
    r"\bhotels?\b|\blodging\b|\bnights?\b|\bmeals?\b|\bper diem\b|\breceipts?\b|\brental|\bcars?\b|\btaxi"
    r"|(?<!taxes and )\bfees?\b|\bbag(?:s|gage)?\b|\bseats?\b|\bmileage\b|\binsurance\b|\btransit\b|\btrains?\b"
    r"|\bunused\b|\blost\b|\bstolen\b|\brefund|\bcompensat|\bcancel|\bvouchers?\b|\bgifts?\b"
    r"|\bsav(?:e|es|ed|ing|ings)\b|\bcredit\b|\bdifference\b|\bdearer\b|\blowest\b|\bcheapest\b",
    re.IGNORECASE,
)
_NO_CABIN: Final = re.compile(
    r"\btrains?\b|\brail\b|\bsecond class\b|\bcars?\b|\bhotels?\b|\bbag(?:s|gage)?\b|\bchange|\bcancel|\brefund",
    re.IGNORECASE,
)
_NEVER: Final = re.compile(
    r"\bnot\b|\bnever\b|\bcannot\b|\bprohibit|\brefuse|\breject|\bforbidden\b|\bexcluded\b|\bstop: hard\b",
    re.IGNORECASE,
)
# What nobody lifts: neither "not the standard" nor "not without approval" is of these.
_FINAL: Final = re.compile(
    r"\bnever\b|\bprohibit|\bforbidden\b|\bexcluded\b|\bcannot be (?:book|approv)|\bstop: hard\b"
    r"|\bnot (?:be )?(?:book|permit|allow|authori[sz]|reimburs|accept)",
    re.IGNORECASE,
)
_LIFTED: Final = re.compile(
    r"\bunless\b|\bexcept|\bwithout\b|\bapproval\b|\bapproved? by\b|\bpre-?approv|\bif\b|\bwhen\b"
    # A condition that is not understood: "never booked to India", "not permitted for interns".
    r"|\b(?:to|for) (?!(?:be|book|any|all|flights?|travel|travell?ers?|employees?|domestic|short|long|international)\b)",
    re.IGNORECASE,
)
# Who does something, before the word that lets them or makes them. What holds for some people is no rule for all.
_SUBJECT: Final = re.compile(
    r"(?P<who>[^,;:]*?)\b(?:may|can|cannot|must|shall|should|(?:is|are) (?:not )?(?:allowed|permitted|entitled|eligible|authori[sz]ed)"
    r"(?: to)?)\b(?: not| only| also| always| never)* (?:fly|book|travel|buy|purchase|use|choose|take|reserve|spend)\b",
    re.IGNORECASE,
)
_EVERYBODY: Final = re.compile(
    r"(?:^|\b(?:all|any|every|our|the|company|each|no|hours?|flights?|haul|and|or) )(?:employees?|travell?ers?|staff|personnel|passengers?|workers?)\b"
    r"|\b(?:everyone|everybody|anyone|anybody|nobody|no one|you|we|they|people|those|one)\b|\b(?:flights?|trips?|journeys?|bookings?|travel)$",
    re.IGNORECASE,
)
_SOME: Final = (
    r"(?:(?:senior|junior|executive|board|managing) )?(?:directors?|executives?|vice[- ]presidents?|presidents?|vps?|ceos?|cfos?|ctos?"
    r"|officers?|managers?|partners?|principals?|interns?|trainees?|contractors?|consultants?|engineers?|pilots?|crews?|members?"
    r"|guests?|candidates?|c-level|leadership|management|leaders?)\b"
)
_OF_SOME: Final = re.compile(rf"\b(?:for|to|of) (?:the |our |all |any )?{_SOME}", re.IGNORECASE)
_SOME_WORD: Final = re.compile(rf"\b{_SOME}", re.IGNORECASE)
_ACTS_FOR_ANOTHER: Final = re.compile(r"\bapprov", re.IGNORECASE)
# What stands behind it is where the rule does not hold.
_EXCEPTION: Final = re.compile(r"\bunless\b|\bexcept(?:ing)?\b|\bother than\b", re.IGNORECASE)
_RULING: Final = re.compile(
    r"\brequire|\bmust\b|\bmay\b|\bshall\b|\bshould\b|\ballow(?:s|ed)?\b|\bpermit|\bauthori[sz]ed\b|\bonly\b|\bmaximum\b|\bhighest\b"
    r"|\bentitled\b|\beligible\b|\bstandard\b|\b(?:cabin|class)\b[^:;]*:",
    re.IGNORECASE,
)
_AHEAD: Final = re.compile(
    r"\bin advance\b|\bahead\b|\bbefore (?:the )?(?:departure|travel|trip|flight)|\bprior to\b|\bof departure\b"
    r"|\b(?:leaves?|flights?|travel) in\b",
    re.IGNORECASE,
)
_BOOKING: Final = re.compile(r"\bbook|\bpurchas|\bticket|\breserv|\bflights?\b|\bdeparture\b", re.IGNORECASE)
# Where only a thing is named ("tickets", "flights"), another word has to make it a rule about booking.
_BOOKS: Final = re.compile(r"\bbook|\bpurchas|\breserv|\bbuy|\bbought\b", re.IGNORECASE)
_NEEDS: Final = re.compile(
    r"\bmust\b|\brequire|\bshould\b|\bneeds?\b|\bapprov|\bat least\b|\bless than\b|\bfewer than\b|\bunder\b|\bminimum\b"
    r"|\bwithin\b",
    re.IGNORECASE,
)
# What else is done some days before a departure.
_OTHER_ACT: Final = re.compile(
    r"\bsen[dt]\b|\bdeliver|\be-?mail|\bcheck(?:ed)?[- ]in\b|\bcancel|\bchang(?:e|ed|es|ing)\b|\brefund|\bremind|\bnotif"
    r"|\bsubmit|\breceipts?\b|\bvisas?\b|\bvaccin|\bissued\b",
    re.IGNORECASE,
)
_IN_THE_PAST: Final = re.compile(r"\bwas\b|\bwere\b", re.IGNORECASE)
_REFUSED: Final = re.compile(
    r"\bnot (?:be )?(?:book|permit|allow|accept|made|possible)|\bnever\b|\bcannot be\b|\bprohibit|\brefuse|\breject"
    r"|\bstop: hard\b",
    re.IGNORECASE,
)
_APPROVED: Final = re.compile(r"\bapprov", re.IGNORECASE)
_DAYS_AHEAD: Final = re.compile(rf"{NUMBER}({DAYS}) (?:in advance|ahead|before|prior)", re.IGNORECASE)
_REMARKS: Final = re.compile(r"\b(?:remark|note|comment|example)", re.IGNORECASE)
_BARE: Final = re.compile(r"[\d,]+(?:\.\d{2})?")
_MONEY_HEAD: Final = re.compile(r"\bUSD\b|\$|\bfares?\b|\bcaps?\b|\bprices?\b", re.IGNORECASE)
_LAST_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)?\+?)(?!.*\d)")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?;])\s+|\n+(?=\s*(?:[-*•]|\d+[.)])\s)|\n{2,}")
_CLAUSE_END: Final = re.compile(r",(?!\d)\s*(?:and|while|but|or)?\s*|\s+(?:and|while|but)\s+", re.IGNORECASE)
_RULE_LINE: Final = re.compile(r"^[\s|:\-]+$")


class Passage(Protocol):
    """What was retrieved: its words, and where they stand."""

    @property
    def content_text(self) -> str | None: ...

    def citation(self) -> Citation: ...


class Kind(StrEnum):
    cabin = "cabin"
    fare = "fare"
    notice = "notice"
    preferred = "preferred"


@dataclass(frozen=True)
class TextRule:
    """One rule as a passage says it. Of the values only that of its kind is there."""

    kind: Kind
    citation: Citation
    cabin: Cabin | None = None
    max_usd: Decimal | None = None
    days: int | None = None
    percent: Decimal | None = None
    routes: frozenset[Route] = frozenset()
    hours: Span = ANY
    days_ahead: Span = ANY
    # "Never", "not permitted": no exception elsewhere in the text lifts it.
    is_absolute: bool = False
    # And no person does either.
    is_final: bool = False

    def holds(self, route: Route, hours: Decimal | None, notice_days: int) -> bool:
        """Without hours, a rule for some durations does not hold."""
        within = self.hours.is_open if hours is None else hours in self.hours
        return within and notice_days in self.days_ahead and (not self.routes or route in self.routes)

    @property
    def narrowness(self) -> int:
        return bool(self.routes) + (not self.hours.is_open) + (not self.days_ahead.is_open)


@dataclass(frozen=True)
class Sentence:
    """`about` is what it stands under: the section, of a row also the table's caption."""

    text: str
    about: str = ""
    is_row: bool = False


@dataclass(frozen=True)
class Read:
    rules: tuple[TextRule, ...] = ()
    notes: tuple[str, ...] = ()


def read(passages: Iterable[Passage]) -> Read:
    """What the passages rule, in the order of their citations, and what could not be compared."""
    rules: list[TextRule] = []
    notes: list[str] = []
    for citation, text in sorted(_texts(passages), key=lambda pair: (pair[0].chunk_id, pair[1])):
        for sentence in sentences(text, citation.section_title or ""):
            cited = citation.model_copy(update={"quote": _short(sentence.text)})
            rules += _rules(sentence, cited)
            notes += _foreign(sentence, cited)
    return Read(tuple(rules), tuple(dict.fromkeys(notes)))


def _texts(passages: Iterable[Passage]) -> Iterator[tuple[Citation, str]]:
    return ((passage.citation(), passage.content_text or "") for passage in passages)


# --- sentences -----------------------------------------------------------------------------------------------------


def sentences(text: str, section: str = "") -> Iterator[Sentence]:
    """Rows of tables, each as "head: cell; head: cell", then the sentences of the rest."""
    prose: list[str] = []
    table: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if "|" in line:
            if not _RULE_LINE.match(line):
                table.append([cell.strip() for cell in line.strip().strip("|").split("|")])
            continue
        yield from _rows(table, f"{section}: {_last_line(prose)}")
        table = []
        prose.append(line)
    for part in _SENTENCE_END.split("\n".join(prose)):
        words = " ".join(part.split()).lstrip("-*•# ")
        if words and len(words) <= SENTENCE_CHARS_MAX and not words.endswith("?"):
            yield Sentence(words, section)


def _last_line(lines: list[str]) -> str:
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _rows(table: list[list[str]], about: str) -> Iterator[Sentence]:
    for row in table[1:]:
        cells = [
            f"{head}: {_in_unit(head, cell, about)}"
            for head, cell in zip(table[0], row, strict=False)
            if cell and not _REMARKS.search(head)
        ]
        priced = [cell for cell in cells if amounts_of(cell)]
        others = [cell for cell in cells if cell not in priced]
        for each in priced or [""]:
            yield Sentence("; ".join(filter(None, [*others, each])), about, is_row=True)


def _in_unit(head: str, cell: str, about: str) -> str:
    """The cell with the unit that its head has: "14+" under "Days ahead" is "14+ days". A head with a number in it, such as
    "14 days or more", says for what a cell holds; what is in the cell, the caption says."""
    is_scope = bool(re.search(r"[0-9]", head))
    if _BARE.fullmatch(cell) and _MONEY_HEAD.search(about if is_scope else head):
        return f"${cell}"
    for unit in ("days", "hours"):
        if not is_scope and unit[:-1] in head.lower() and unit[:-1] not in cell.lower():
            return _LAST_NUMBER.sub(rf"\1 {unit}", cell)
    return cell


# --- rules ---------------------------------------------------------------------------------------------------------


def _rules(sentence: Sentence, cited: Citation) -> Iterator[TextRule]:
    """A sentence with an amount is about money and nothing else, one with a cabin about cabins."""
    if _is_of_some(sentence):
        return
    if amounts_of(sentence.text):
        yield from _fares(sentence, cited)
    elif cabins_of(sentence.text, is_row=sentence.is_row):
        yield from _cabins(sentence, cited)
    else:
        yield from _notice(sentence, cited)
        yield from _preferred(sentence, cited)


def _is_of_some(sentence: Sentence) -> bool:
    """It speaks of directors, or interns: whatever it lets them do or not, it says nothing of everybody."""
    if sentence.is_row:
        return bool(_SOME_WORD.search(sentence.text)) and not _ACTS_FOR_ANOTHER.search(sentence.text)
    if _OF_SOME.search(sentence.text) and not _ACTS_FOR_ANOTHER.search(sentence.text):
        return True
    subjects = (each for part in _CLAUSE_END.split(sentence.text) for each in _SUBJECT.finditer(part))
    whos = [each["who"].strip() for each in subjects]
    return any(who and (_SOME_WORD.search(who) or not _EVERYBODY.search(who)) for who in whos)


@dataclass(frozen=True)
class _Scope:
    """For which flights a clause holds."""

    routes: frozenset[Route]
    hours: Span
    days_ahead: Span


def _scope(clause: str, about: str) -> _Scope | None:
    """None where an exception is more than one plain condition: all but it cannot be said."""
    found = _EXCEPTION.search(clause)
    head, exception = (clause[: found.start()], clause[found.end() :]) if found else (clause, "")
    if not exception or cabins_of(exception) or amounts_of(exception):
        return _scope_of(clause, about)
    plain, lifted = _scope_of(head, about), _scope_of(exception, "")
    ends = [not lifted.hours.is_open, not lifted.days_ahead.is_open, bool(lifted.routes)]
    if not any(ends):
        return plain
    if sum(ends) > 1:
        return None
    if lifted.routes:
        left = (plain.routes or frozenset(Route)) - lifted.routes
        return replace(plain, routes=left) if left else None
    if ends[0]:
        outside = lifted.hours.outside if plain.hours.is_open else None
        return replace(plain, hours=outside) if outside else None
    outside = lifted.days_ahead.outside if plain.days_ahead.is_open else None
    return replace(plain, days_ahead=outside) if outside else None


def _scope_of(text: str, about: str) -> _Scope:
    return _Scope(routes_of(text) or routes_of(about), span_of(text, HOURS), span_of(text, DAYS))


def _fares(sentence: Sentence, cited: Citation) -> Iterator[TextRule]:
    if not _is_about_fares(sentence):
        return
    clauses = _clauses(sentence.text, lambda clause: len(amounts_of(clause)) == 1)
    for clause in clauses:
        amount, *more = amounts_of(clause)
        scope = _scope(clause, sentence.about)
        if scope is None:
            continue
        rule = TextRule(
            Kind.fare,
            cited,
            max_usd=amount.value,
            routes=scope.routes,
            hours=scope.hours,
            days_ahead=scope.days_ahead,
        )
        # Of several amounts, one that says not for what is none to hold anybody to.
        if amount.currency is not None and not more and (len(clauses) == 1 or rule.narrowness):
            yield rule


def _is_about_fares(sentence: Sentence) -> bool:
    whole = f"{sentence.about}: {sentence.text}"
    return bool(_FARE.search(whole) and _LIMIT.search(whole) and not _OTHER_MONEY.search(whole))


def _cabins(sentence: Sentence, cited: Citation) -> Iterator[TextRule]:
    text = sentence.text
    is_ruling = _RULING.search(text) or _NEVER.search(text)
    if not is_ruling or _NO_CABIN.search(f"{sentence.about}: {text}"):
        return
    for clause in _clauses(text, _has_cabin_and_hours):
        named = cabins_of(clause, is_row=sentence.is_row)
        is_never = bool(_NEVER.search(clause))
        cabin = _below(named) if is_never else named[-1]
        scope = _scope(clause, sentence.about)
        if cabin is not None and scope is not None:
            yield TextRule(
                Kind.cabin,
                cited,
                cabin=cabin,
                routes=scope.routes,
                hours=scope.hours,
                is_absolute=is_never,
                is_final=bool(_FINAL.search(clause)) and not _LIFTED.search(text),
            )


def _has_cabin_and_hours(clause: str) -> bool:
    return bool(cabins_of(clause)) and not span_of(clause, HOURS).is_open


def _below(named: list[Cabin]) -> Cabin | None:
    """The best cabin that is left where these are excluded. Economy is never excluded."""
    excluded = [cabin for cabin in named if cabin is not Cabin.economy]
    return list(Cabin)[excluded[0].rank - 1] if excluded else None


def _notice(sentence: Sentence, cited: Citation) -> Iterator[TextRule]:
    text = sentence.text
    days = _days_wanted(text) if _is_about_notice(text) else None
    if days is not None:
        is_refused = bool(_REFUSED.search(text) and not _APPROVED.search(text))
        yield TextRule(Kind.notice, cited, days=days, routes=routes_of(text), is_absolute=is_refused)


def _is_about_notice(text: str) -> bool:
    is_about = _AHEAD.search(text) and _BOOKING.search(text)
    is_other = _IN_THE_PAST.search(text) or _OTHER_ACT.search(text)
    is_rule = _BOOKS.search(text) or _NEEDS.search(text) or _REFUSED.search(text)
    return bool(is_about and is_rule and not is_other)


def _days_wanted(text: str) -> int | None:
    """ "At least 14 days ahead" and "less than 14 days ahead needs approval" want the same."""
    exact = _DAYS_AHEAD.search(text)
    span = span_of(text, DAYS)
    if span.is_open and exact:
        span = span_of(f"at least {exact[1]}{exact[2]}", DAYS)
    if span.low is not None:
        # Neither a window nor "not more than a year ahead" is a notice to keep.
        return int(span.low) if span.high is None and span.low_included else None
    return None if span.high is None else int(span.high) + span.high_included


def _preferred(sentence: Sentence, cited: Citation) -> Iterator[TextRule]:
    found = re.search(rf"\bwithin {NUMBER} ?(?:%|percent|per cent)", sentence.text, re.IGNORECASE)
    if found and re.search(r"\bprefer", f"{sentence.about}: {sentence.text}", re.IGNORECASE):
        yield TextRule(Kind.preferred, cited, percent=number_of(found[1]))


def _foreign(sentence: Sentence, cited: Citation) -> Iterator[str]:
    if _is_about_fares(sentence) and any(each.currency is None for each in amounts_of(sentence.text)):
        yield f"An amount in another currency than USD was not compared: “{cited.quote}”."


def _clauses(text: str, is_whole: _Test) -> list[str]:
    """The parts of a sentence that say something of their own; a part that does not goes with the next that does."""
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


class _Test(Protocol):
    def __call__(self, clause: str, /) -> bool: ...


def _short(text: str) -> str:
    return text if len(text) <= QUOTE_CHARS_MAX else f"{text[: QUOTE_CHARS_MAX - 1]}…"
