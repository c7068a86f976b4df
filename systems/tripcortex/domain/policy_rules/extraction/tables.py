"""Reads rules from tables.

The scope of a row and of a column's header together, and the value of their cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from tripcortex.domain.policy_rules.extraction.approvers import Approval, find_approval
from tripcortex.domain.policy_rules.extraction.definitions import LEVEL_HEADER
from tripcortex.domain.policy_rules.extraction.drafts import Sentence, build_rule
from tripcortex.domain.policy_rules.extraction.fares import FARE_WORDS, find_basis
from tripcortex.domain.policy_rules.extraction.lexicon import INCLUDED, OTHER_COST, is_prohibition
from tripcortex.domain.policy_rules.extraction.notices import _AHEAD as AHEAD
from tripcortex.domain.policy_rules.extraction.plain_words import find_odd_words
from tripcortex.domain.policy_rules.extraction.route_scopes import OTHER_ROUTES
from tripcortex.domain.policy_rules.extraction.scopes import ParsedScope, find_days, merge_scopes, parse_scope
from tripcortex.domain.policy_rules.extraction.vocabulary import Vocabulary, is_title, normalize_document
from tripcortex.domain.policy_rules.extraction.wording import find_cabins
from tripcortex.domain.policy_rules.regions import find_places
from tripcortex.domain.policy_rules.rules import Effect, Outcome, PolicyRule, RoutePattern, RuleScope
from tripcortex.model.entities import Cabin

_MONEY: Final = re.compile(
    r"^[^\w¤]*(?:up to |max(?:imum)?\.? |at most )?\$?(\d+(?:\.\d+)?)\b(?!%| days| hours)"
)
_MONEY_HEADER: Final = re.compile(
    r"\bcaps?\b|\blimits?\b|\bceiling|\bmax|\bcosts?\b|\bfares?\b|\bprice|\$|\bUSD\b|\ballowance"
    r"|\bbudget|\bamount",
    re.I,
)
_APPROVAL_HEADER: Final = re.compile(
    r"\bapprov|\bsign-?off|\bauthori[sz]|\bif exceeded|\bexception|\bby whom\b|\bescalat|\brequired\b"
    r"|\bneeded\b",
    re.I,
)
_LATE_HEADER: Final = re.compile(
    r"\blate|\bless than|\bshort notice|\bbelow|\bif less|\bnot met|\bshorter", re.I
)
_EXCEED_HEADER: Final = re.compile(r"\bexceed|\babove|\bover\b|\bhigher", re.I)
_REMARK_HEADER: Final = re.compile(
    r"\bsla\b|\bnotes?\b|\bremarks?\b|\bexamples?\b|\bturnaround|\bcomment|\bresponse|\bservice level"
    r"|\btime ?line",
    re.I,
)
_CODE_HEADER: Final = re.compile(
    r"^\W*(?:zone|code|ref(?:erence)?|no\.?|#|id|item|row|line|route code|category)\W*$", re.I
)
_FROM_HEADER: Final = re.compile(r"^\W*(?:from|origin|departure|start)\b", re.I)
_TO_HEADER: Final = re.compile(r"^\W*(?:to|destination|arrival|end)\b", re.I)
_CAP_LEAD: Final = re.compile(r"\b(?:caps?|ceilings?|limits?|maxim\w+|fares?|allowances?|amounts?)\b", re.I)
_EMPTY: Final = re.compile(r"^[\s–—\-/.]*$|^n/?a$", re.IGNORECASE)
_NO: Final = re.compile(
    r"^\W*(?:no|none|not (?:permitted|allowed|available|authori[sz]ed)|never|prohibited|forbidden|✗|✘|x"
    r"|×|❌)\b"
    r"|^\W*[✗✘×❌]",
    re.I,
)
_ANY: Final = re.compile("")
_YES: Final = re.compile(r"^\W*(?:yes|permitted|allowed|ok|available|✓|✔|✅)\b|^\W*[✓✔✅]", re.I)


@dataclass(frozen=True)
class Column:
    """A column: its header, its normalized cells, and what it holds."""

    header: str
    kind: str
    scope: ParsedScope
    cabins: tuple[Cabin, ...]


def extract_table_rules(table: Sentence, rows: Sequence[Sequence[str]]) -> Iterator[PolicyRule]:
    """Yield the rules of a table with a header. `table` has the caption as `about`."""
    header = [normalize_document(cell, table.vocabulary, is_cell=True) for cell in rows[0]]
    body = [
        [normalize_document(cell, table.vocabulary, is_cell=True) for cell in row]
        + [""] * (len(header) - len(row))
        for row in rows[1:]
    ]
    is_pair = any(_FROM_HEADER.search(each) for each in header) and any(
        _TO_HEADER.search(each) for each in header
    )
    has_row_cabins = sum(bool(find_cabins(row[0])) for row in body) * 2 > len(body)
    lead = find_cabins(normalize_document(table.block.lead, table.vocabulary, is_cell=True))
    columns = [
        _classify(
            header[at],
            [row[at] for row in body],
            at,
            table,
            is_pair=is_pair,
            has_row_cabins=has_row_cabins,
            lead=lead,
        )
        for at in range(len(header))
    ]
    if not _is_about_flights(table, columns, body):
        return
    group = f"{table.block.page}:{table.block.section}:{rows[0]}"
    for cells, row in zip(body, rows[1:], strict=True):
        if len(cells) > 1 and table.vocabulary.is_definition(cells[1]):
            continue
        quote = " | ".join(cell for cell in row if cell)
        yield from _Row(_with_row(table, quote, group), columns, cells).read()


def _with_row(table: Sentence, quote: str, group: str) -> Sentence:
    return Sentence(
        text=quote, quote=quote, block=table.block, about=table.about, outer=table.outer,
        vocabulary=table.vocabulary, is_value=True, group=group,
    )  # fmt: skip


def _is_about_flights(table: Sentence, columns: Sequence[Column], body: Sequence[Sequence[str]]) -> bool:
    """Return False for tables of hotels, meals and other costs."""
    headers = " ".join(column.header for column in columns)
    words = INCLUDED.sub(" ", f"{table.about} {headers}")
    own = INCLUDED.sub(" ", f"{' '.join(table.block.sections[-1:])} {headers}")
    if OTHER_COST.search(own) and not re.search(
        r"\bflights?\b|\bair\b|\bfares?\b|\bcabin|\bround[- ]trip|\bone[- ]way|\beconomy\b|@[EPBF]"
        r"|\btickets?\b",
        own,
        re.IGNORECASE,
    ):
        return False
    has_cabins = any(find_cabins(cell) for row in body for cell in row)
    return has_cabins or not (OTHER_COST.search(words) and not FARE_WORDS.search(own))


def _is_outcome(cell: str) -> bool:
    """Return True if a cell says yes, no, or who approves."""
    return bool(_NO.match(cell) or _YES.match(cell) or find_approval(cell, is_value=True))


def _classify(
    header: str,
    cells: list[str],
    at: int,
    table: Sentence,
    *,
    is_pair: bool,
    has_row_cabins: bool,
    lead: list[Cabin],
) -> Column:
    """Return the column with its kind: scope, level, amount, cabin, days, approval, remark."""
    filled = [cell for cell in cells if cell and not _EMPTY.match(cell)]
    scope = parse_scope(header, table.vocabulary) if at else ParsedScope(RuleScope())
    cabins = tuple(find_cabins(header)) if at else ()
    if at and not cabins and not has_row_cabins and filled and all(_is_outcome(cell) for cell in filled):
        # "Business is regulated as follows:" in front of the table.
        cabins = tuple(lead) if len(lead) == 1 else ()

    def most(test: re.Pattern[str]) -> bool:
        return bool(filled) and sum(1 for cell in filled if test.search(cell)) * 2 > len(filled)

    kind = "scope"
    if is_pair and (_FROM_HEADER.search(header) or _TO_HEADER.search(header)):
        kind = "from" if _FROM_HEADER.search(header) else "to"
    elif _REMARK_HEADER.search(header) and at:
        kind = "remark"
    elif (
        at and most(_MONEY) and (most(re.compile(r"[$¤]")) or _MONEY_HEADER.search(f"{header} {table.about}"))
    ):
        kind = "amount"
    elif at and sum(1 for cell in filled if find_cabins(cell)) * 2 > len(filled):
        kind = "cabin"
    elif at and filled and all(_is_outcome(cell) for cell in filled) and (cabins or has_row_cabins):
        kind = "cabin_matrix"
    elif (
        at
        and filled
        and (
            _APPROVAL_HEADER.search(header)
            or sum(1 for c in filled if find_approval(c, is_value=True)) * 2 > len(filled)
        )
    ):
        kind = "approval"
    elif at and most(re.compile(r"\d+ days")) and not LEVEL_HEADER.search(header):
        kind = "days"
    elif LEVEL_HEADER.search(header) and any(
        is_title(part) or re.search(r"\d|\b[A-H]\b", part)
        for cell in filled
        for part in re.split(r"[,/]| and ", cell)
    ):
        kind = "level"
    return Column(header, kind, scope, cabins)


@dataclass(frozen=True)
class _Row:
    """One row with its columns."""

    sentence: Sentence
    columns: Sequence[Column]
    cells: Sequence[str]

    def read(self) -> Iterator[PolicyRule]:
        """Yield the rules of the row: of each value, or of the row as a whole if it has only an approver."""
        scope = self._scope()
        values = [
            (column, cell)
            for column, cell in zip(self.columns, self.cells, strict=False)
            if not _EMPTY.match(cell)
        ]
        has_value = False
        has_days = any(column.kind == "days" for column in self.columns)
        for column, cell in values:
            is_tier = column.kind == "approval" and not find_days(cell).is_open and has_days
            if column.kind in ("amount", "cabin", "cabin_matrix", "days") or is_tier:
                has_value = True
                yield from self._read_cell(column, cell, _join(scope, column.scope))
        if not has_value:
            yield from self._read_approvals(scope, values)

    def _scope(self) -> ParsedScope:
        """Return the scope that the row's scope cells and level cells state."""
        merged = ParsedScope(RuleScope())
        for column, cell in zip(self.columns, self.cells, strict=False):
            if column.kind == "level":
                merged = merge_scopes(merged, self._read_levels(cell))
            elif column.kind in ("from", "to"):
                merged = merge_scopes(merged, _drop_routes(parse_scope(cell, self.sentence.vocabulary)))
            elif column.kind == "scope" and not _EMPTY.match(cell):
                merged = _join(merged, self._read_scope(column, cell))
        return merge_scopes(self._read_ends(), merged)

    def _read_ends(self) -> ParsedScope:
        """Return the route between the places of a column "From" and those of a column "To"."""
        ends: dict[str, tuple[str, ...]] = {}
        problem, is_other = "", False
        for column, cell in zip(self.columns, self.cells, strict=False):
            if column.kind in ("from", "to"):
                ends[column.kind] = tuple(
                    dict.fromkeys(t for place in find_places(cell) for t in place.tokens)
                )
                is_other = is_other or bool(OTHER_ROUTES.search(cell))
                problem = problem or ("" if ends[column.kind] or is_other else cell)
        if not any(ends.values()):
            return ParsedScope(RuleScope(), problem, is_other)
        route = RoutePattern(one=ends.get("from", ()), other=ends.get("to", ()))
        return ParsedScope(RuleScope(routes=(route,)), problem, is_other)

    def _read_scope(self, column: Column, cell: str) -> ParsedScope:
        parsed = parse_scope(cell, self.sentence.vocabulary)
        if parsed.scope == RuleScope() and not (parsed.is_other or parsed.problem or find_cabins(cell)):
            parsed = ParsedScope(RuleScope(), find_odd_words(cell, self.sentence.vocabulary))
        if _CODE_HEADER.search(column.header):
            # "B1" is the code of the row, not a level.
            return ParsedScope(
                parsed.scope.model_copy(update={"levels": ()}), parsed.problem, parsed.is_other
            )
        return parsed

    def _read_levels(self, cell: str) -> ParsedScope:
        """Return the levels of a cell: a range, or a list of names."""
        parsed = parse_scope(cell, self.sentence.vocabulary)
        if parsed.scope.levels or re.search(r"\b(?:all|any|every)", cell, re.IGNORECASE):
            return ParsedScope(RuleScope(levels=parsed.scope.levels))
        names = [each.strip() for each in re.split(r",|/|;| and | or ", cell) if each.strip()]
        expanded = tuple(name for each in names for name in self.sentence.vocabulary.expand_level(each))
        return ParsedScope(RuleScope(levels=tuple(dict.fromkeys(expanded))))

    def _read_cell(self, column: Column, cell: str, scope: ParsedScope) -> Iterator[PolicyRule]:
        if column.kind == "amount":
            yield from self._read_amount(column, cell, scope)
        elif column.kind == "cabin":
            yield from self._read_cabin(cell, scope)
        elif column.kind == "cabin_matrix":
            yield from self._read_matrix(column, cell, scope)
        else:
            yield from self._read_days(column, cell, scope)

    def _read_amount(self, column: Column, cell: str, scope: ParsedScope) -> Iterator[PolicyRule]:
        """Yield the cap of a cell, with the approvers of the row for a fare above it."""
        about = f"{self.sentence.about} {column.header}"
        amount = _MONEY.search(cell)
        if amount is None or (
            not FARE_WORDS.search(f"{about} {' '.join(c.header for c in self.columns)}")
            and not _MONEY_HEADER.search(about)
            and not (column.cabins or find_basis(column.header))
        ):
            return
        own = tuple(find_cabins(" ".join(self._texts("scope"))))
        section = f"limit : {self.sentence.block.section or ''}"
        leads = (self.sentence.block.lead, section)
        stated = (find_cabins(_get_cap_lead(lead, self.sentence.vocabulary)) for lead in leads)
        cabins = column.cabins or own or tuple(next((each for each in stated if each), []))
        approval = self._find_approval(_EXCEED_HEADER) or self._find_approval(_APPROVAL_HEADER)
        usd = Decimal(amount[1])
        if "$" not in cell:
            usd = self.sentence.vocabulary.money.convert_bare(usd)
        yield build_rule(
            self.sentence, Effect.fare_cap, scope, amount_usd=usd,
            basis=find_basis(cell) or find_basis(column.header) or find_basis(" ".join(self._texts("scope")))
            or find_basis(self.sentence.about) or self.sentence.vocabulary.basis,
            one_way_percent=self.sentence.vocabulary.one_way_percent,
            approvers=approval.approvers if approval else (),
            scope_values={"cabins": cabins} if cabins else {},
        )  # fmt: skip

    def _read_cabin(self, cell: str, scope: ParsedScope) -> Iterator[PolicyRule]:
        """Yield the best cabin of a cell; a cabin "with approval" needs it."""
        conditional: list[Cabin] = []
        for part in re.split(r"[;,(]|\bor\b(?= @)", cell):
            approval = find_approval(part)
            cabins = [each for each in find_cabins(part) if each is not Cabin.economy]
            own = merge_scopes(parse_scope(part, self.sentence.vocabulary), scope)
            if approval and approval.outcome is Outcome.approval and cabins:
                conditional += cabins
                yield build_rule(
                    self.sentence, Effect.cabin_outcome, own, cabin=cabins[0], outcome=Outcome.approval,
                    approvers=approval.approvers, scope_values={"cabins": tuple(cabins)},
                )  # fmt: skip
        free = [cabin for cabin in find_cabins(cell) if cabin not in conditional]
        if free and not is_prohibition(cell):
            parsed = parse_scope(cell, self.sentence.vocabulary)
            yield build_rule(self.sentence, Effect.max_cabin, merge_scopes(parsed, scope), cabin=free[-1])

    def _read_matrix(self, column: Column, cell: str, scope: ParsedScope) -> Iterator[PolicyRule]:
        """Yield what the cabin of the header needs: yes, no, or an approval."""
        cabins = column.cabins or tuple(find_cabins(" ".join(self._texts("scope"))))
        if cabins == (Cabin.economy,) and not _NO.match(cell):
            yield build_rule(self.sentence, Effect.max_cabin, scope, cabin=Cabin.economy)
        cabins = tuple(each for each in cabins if each is not Cabin.economy)
        if not cabins:
            return
        approval = find_approval(cell, is_value=True)
        approvers: tuple[str, ...] = ()
        if _NO.match(cell) and not (approval and approval.outcome is Outcome.approval):
            outcome = Outcome.forbidden
        elif approval and approval.outcome is Outcome.approval and not _YES.match(cell):
            outcome, approvers = Outcome.approval, approval.approvers
        else:
            yield build_rule(self.sentence, Effect.max_cabin, scope, cabin=cabins[-1])
            return
        yield build_rule(
            self.sentence, Effect.cabin_outcome, scope, cabin=cabins[0], outcome=outcome,
            approvers=approvers, scope_values={"cabins": cabins},
        )  # fmt: skip

    def _read_days(self, column: Column, cell: str, scope: ParsedScope) -> Iterator[PolicyRule]:
        """Yield the notice of a cell; in a column of approvers, what the days of the cell need."""
        span = find_days(cell)
        approval = find_approval(cell, is_value=True)
        if approval and approval.outcome is Outcome.approval and not span.is_open:
            yield build_rule(
                self.sentence, Effect.notice, scope, outcome=Outcome.approval, approvers=approval.approvers,
                scope_values={"days_ahead": span},
            )  # fmt: skip
            return
        bare = re.search(r"(\d+) days", cell)
        low = span.low if span.low is not None else Decimal(bare[1]) if bare and span.is_open else None
        if low is None:
            return
        late = (
            self._find_approval(_LATE_HEADER)
            or self._find_approval(_APPROVAL_HEADER)
            or self._find_approval(_ANY)
        )
        yield build_rule(
            self.sentence, Effect.notice, scope, days=int(low), outcome=Outcome.approval,
            approvers=late.approvers if late and late.outcome is Outcome.approval else (),
        )  # fmt: skip

    def _read_approvals(self, scope: ParsedScope, values: list[tuple[Column, str]]) -> Iterator[PolicyRule]:
        """Yield the rules of a row whose only value is an approval: the row's key says of what."""
        from tripcortex.domain.policy_rules.extraction.sentences import read_row

        approvals = [(column, cell) for column, cell in values if column.kind == "approval"]
        keys = ", ".join(cell for column, cell in values if column.kind in ("scope", "level", "from", "to"))
        headers = " ".join(column.header for column in self.columns)
        if keys and any(column.scope.scope.levels for column, _ in approvals):
            # Each column of approvers is for one level.
            for column, cell in approvals:
                outer = merge_scopes(column.scope, self.sentence.outer)
                yield from read_row(replace(self.sentence, outer=outer), keys, cell, headers)
        elif keys:
            yield from read_row(self.sentence, keys, "; ".join(cell for _, cell in approvals), headers)

    def _find_approval(self, header: re.Pattern[str]) -> Approval | None:
        """Return what the row's approval column with this header says."""
        for column, cell in zip(self.columns, self.cells, strict=False):
            if column.kind == "approval" and header.search(column.header):
                found = find_approval(cell, is_value=True)
                if found:
                    return found
        return None

    def _texts(self, kind: str) -> list[str]:
        return [cell for column, cell in zip(self.columns, self.cells, strict=False) if column.kind == kind]


def _get_cap_lead(lead: str, vocabulary: Vocabulary) -> str:
    """Return the normalized lead of a table if it introduces caps ("ceilings for an economy seat")."""
    return normalize_document(lead, vocabulary) if _CAP_LEAD.search(lead) else ""


def _drop_routes(parsed: ParsedScope) -> ParsedScope:
    scope = parsed.scope.model_copy(update={"routes": (), "except_routes": (), "levels": ()})
    return ParsedScope(scope, parsed.problem)


def _join(scope: ParsedScope, other: ParsedScope) -> ParsedScope:
    """Return both scopes together.

    Routes of a row and of a header restrict each other only if one has none.
    """
    return merge_scopes(scope, other)


__all__ = ["AHEAD", "extract_table_rules"]
