"""Rules in retrieved passages: which cabin, which fare, how many days ahead, as sentences and table rows say it.

    passage → sentences (a table's row is one, with its heads) → TextRule with the words and where they stand

`limits.py` lays them beside the machine-readable policy. Amounts of hotels, meals, receipts and fees are no fares, and an
amount in another currency is told and not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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
    routes_of,
    span_of,
)

QUOTE_CHARS_MAX: Final = 300

_FARE: Final = re.compile(r"\b(?:air)?fares?\b|\btickets?\b|\bflights?\b", re.IGNORECASE)
_LIMIT: Final = re.compile(
    r"\bmax(?:imum)?\b|\bat most\b|\bup to\b|\b(?:no|not) more than\b|\bexceed|\bcap(?:s|ped)?\b|\blimit|\babove\b"
    r"|\bover\b|\bmore than\b|\bunder\b|\bbelow\b|\bless than\b",
    re.IGNORECASE,
)
_OTHER_MONEY: Final = re.compile(
    r"\bhotels?\b|\blodging\b|\bnights?\b|\bmeals?\b|\bper diem\b|\breceipts?\b|\brental|\bcars?\b|\btaxi|\bfees?\b"
    r"|\bbag(?:s|gage)?\b|\bmileage\b|\binsurance\b|\btransit\b|\bsav(?:e|ed|ing|ings)\b|\bcredit\b|\bdifference\b"
    r"|\bdearer\b|\blowest\b|\bcheapest\b",
    re.IGNORECASE,
)
_RULING: Final = re.compile(
    r"\brequire|\bmust\b|\bmay\b|\bshall\b|\bshould\b|\ballow|\bpermit|\bauthori[sz]ed\b|\bonly\b|\bmaximum\b|\bhighest\b"
    r"|\bentitled\b|\beligible\b|\bstandard\b|\bcannot\b|\bnot\b|\bnever\b|\bprohibit|\b(?:cabin|class)\b[^:;]*:",
    re.IGNORECASE,
)
_NEVER: Final = re.compile(
    r"\bnot\b|\bnever\b|\bcannot\b|\bcan't\b|\bprohibit|\brefus|\breject|\bforbidden\b|\bexcluded\b", re.IGNORECASE
)
_BOOKING: Final = re.compile(r"\bbook|\bpurchas|\breserv|\bticket|\bflights?\b|\btravel\b", re.IGNORECASE)
_AHEAD: Final = re.compile(r"\badvance\b|\bahead\b|\bbefore\b|\bprior to\b|\bof departure\b", re.IGNORECASE)
_DAYS_AHEAD: Final = re.compile(rf"{NUMBER}({DAYS}) (?:in advance|ahead|before|prior)", re.IGNORECASE)
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

    def holds(self, route: Route, hours: Decimal | None, notice_days: int) -> bool:
        """Without hours, a rule for some durations does not hold."""
        within = self.hours.is_open if hours is None else hours in self.hours
        return within and notice_days in self.days_ahead and (not self.routes or route in self.routes)

    @property
    def narrowness(self) -> int:
        return bool(self.routes) + (not self.hours.is_open) + (not self.days_ahead.is_open)


@dataclass(frozen=True)
class Sentence:
    text: str
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
        for sentence in sentences(text):
            cited = citation.model_copy(update={"quote": _short(sentence.text)})
            rules += _rules(sentence, cited)
            notes += _foreign(sentence, cited)
    return Read(tuple(rules), tuple(dict.fromkeys(notes)))


def _texts(passages: Iterable[Passage]) -> Iterator[tuple[Citation, str]]:
    return ((passage.citation(), passage.content_text or "") for passage in passages)


# --- sentences -----------------------------------------------------------------------------------------------------


def sentences(text: str) -> Iterator[Sentence]:
    """Sentences in their order; of a table a sentence per row, "head: cell; head: cell"."""
    prose: list[str] = []
    table: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.count("|") >= 1 and not _RULE_LINE.match(line):
            table.append([cell.strip() for cell in line.strip().strip("|").split("|")])
        elif not (table and _RULE_LINE.match(line) and line.strip()):
            yield from _rows(table)
            table = []
            prose.append(line)
    for part in _SENTENCE_END.split("\n".join(prose)):
        if words := " ".join(part.split()).lstrip("-*•# "):
            yield Sentence(words)


def _rows(table: list[list[str]]) -> Iterator[Sentence]:
    for row in table[1:]:
        cells = [f"{head}: {_in_unit(head, cell)}" for head, cell in zip(table[0], row, strict=False) if cell]
        priced = [cell for cell in cells if amounts_of(cell)]
        if len(priced) <= 1:
            yield Sentence("; ".join(cells), is_row=True)
        else:
            others = [cell for cell in cells if cell not in priced]
            yield from (Sentence("; ".join([*others, cell]), is_row=True) for cell in priced)


def _in_unit(head: str, cell: str) -> str:
    """The cell with the unit that its head has: "14+" under "Days ahead" is "14+ days"."""
    number = re.compile(r"(\d+(?:\.\d+)?\+?)(?!.*\d)")
    for unit, mark in ((r"\bdays?\b", "days"), (r"\bhours?\b", "hours")):
        if re.search(unit, head, re.IGNORECASE) and not re.search(unit, cell, re.IGNORECASE):
            return number.sub(rf"\1 {mark}", cell)
    if re.search(r"\bUSD\b|\$|\bfare|\bcap\b|\bprice", head) and re.fullmatch(r"[\d,]+(?:\.\d{2})?", cell):
        return f"${cell}"
    return cell


# --- rules ---------------------------------------------------------------------------------------------------------


def _rules(sentence: Sentence, cited: Citation) -> Iterator[TextRule]:
    """A sentence with an amount is about money and nothing else."""
    if amounts_of(sentence.text):
        yield from _fares(sentence, cited)
    elif cabins_of(sentence.text, is_row=sentence.is_row):
        yield from _cabins(sentence, cited)
    else:
        yield from _notice(sentence, cited)
        yield from _preferred(sentence, cited)


def _fares(sentence: Sentence, cited: Citation) -> Iterator[TextRule]:
    if not _is_about_fares(sentence, cited):
        return
    clauses = _clauses(sentence.text, lambda clause: len(amounts_of(clause)) == 1)
    for clause in clauses:
        (amount, *_) = amounts_of(clause)
        scope = routes_of(clause), span_of(clause, DAYS)
        if len(clauses) > 1 and not scope[0] and scope[1].is_open:
            continue
        if amount.currency is not None:
            routes = scope[0] or routes_of(cited.section_title or "")
            yield TextRule(
                Kind.fare,
                cited,
                max_usd=amount.value,
                routes=routes,
                days_ahead=scope[1],
                hours=span_of(clause, HOURS),
            )


def _is_about_fares(sentence: Sentence, cited: Citation) -> bool:
    about = f"{cited.section_title or ''}: {sentence.text}"
    return bool(_FARE.search(about) and _LIMIT.search(about) and not _OTHER_MONEY.search(sentence.text))


def _cabins(sentence: Sentence, cited: Citation) -> Iterator[TextRule]:
    if not _RULING.search(sentence.text):
        return
    for clause in _clauses(sentence.text, lambda clause: _is_cabin_and_hours(clause)):
        named = cabins_of(clause, is_row=sentence.is_row)
        is_never = bool(_NEVER.search(clause))
        cabin = _below(named) if is_never else max(named, key=lambda cabin: cabin.rank)
        if cabin is not None:
            yield TextRule(
                Kind.cabin,
                cited,
                cabin=cabin,
                routes=routes_of(clause) or routes_of(cited.section_title or ""),
                hours=span_of(clause, HOURS),
                is_absolute=is_never,
            )


def _is_cabin_and_hours(clause: str) -> bool:
    return bool(cabins_of(clause)) and not span_of(clause, HOURS).is_open


def _below(named: list[Cabin]) -> Cabin | None:
    """The best cabin that is left where these are excluded. Economy is never excluded."""
    excluded = [cabin for cabin in named if cabin is not Cabin.economy]
    return list(Cabin)[excluded[0].rank - 1] if excluded else None


def _notice(sentence: Sentence, cited: Citation) -> Iterator[TextRule]:
    text = sentence.text
    if not (_BOOKING.search(text) and _AHEAD.search(text)):
        return
    days = _days_wanted(text)
    if days is not None:
        yield TextRule(
            Kind.notice,
            cited,
            days=days,
            routes=routes_of(text),
            is_absolute=bool(_NEVER.search(text)),
        )


def _days_wanted(text: str) -> int | None:
    """ "At least 14 days ahead" and "less than 14 days ahead needs approval" want the same."""
    span = span_of(text, DAYS)
    if span.low is not None and span.high is not None:
        return None
    if span.low is not None:
        return int(span.low) if span.low_included else None
    if span.high is not None:
        return int(span.high) + (1 if span.high_included else 0)
    found = _DAYS_AHEAD.search(text)
    if found is None:
        return None
    exact = span_of(f"at least {found[1]}{found[2]}", DAYS)
    return int(exact.low) if exact.low is not None else None


def _preferred(sentence: Sentence, cited: Citation) -> Iterator[TextRule]:
    found = re.search(rf"\bwithin {NUMBER} ?(?:%|percent|per cent)", sentence.text, re.IGNORECASE)
    if found and re.search(r"\bprefer", sentence.text, re.IGNORECASE) and found[1][0].isdigit():
        yield TextRule(Kind.preferred, cited, percent=Decimal(found[1]))


def _foreign(sentence: Sentence, cited: Citation) -> Iterator[str]:
    if _is_about_fares(sentence, cited) and any(
        amount.currency is None for amount in amounts_of(sentence.text)
    ):
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
