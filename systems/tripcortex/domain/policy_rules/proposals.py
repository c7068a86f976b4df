"""Proposes the rules of a policy document: every statement about cabins, fares, notice, carriers and
approvals.

entities → blocks → vocabulary → sentences and tables → `PolicyRule` with its quote, page and section
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tripcortex.domain.policy_rules.extraction.approvers import is_refusal
from tripcortex.domain.policy_rules.extraction.carriers import (
    extract_carrier_rules,
    find_carriers,
    find_other_carriers_outcome,
)
from tripcortex.domain.policy_rules.extraction.completeness import find_gaps
from tripcortex.domain.policy_rules.extraction.definitions import build_vocabulary
from tripcortex.domain.policy_rules.extraction.drafts import Sentence
from tripcortex.domain.policy_rules.extraction.lexicon import OTHER_COST, is_prohibition
from tripcortex.domain.policy_rules.extraction.notices import find_later_approval, split_later
from tripcortex.domain.policy_rules.extraction.references import is_ruling, join_reference
from tripcortex.domain.policy_rules.extraction.scopes import (
    ParsedScope,
    find_flight_hours,
    merge_scopes,
    parse_scope,
)
from tripcortex.domain.policy_rules.extraction.sentences import read_open_table, read_sentence
from tripcortex.domain.policy_rules.extraction.statements import Block, PolicyEntity, read_blocks
from tripcortex.domain.policy_rules.extraction.tables import extract_table_rules
from tripcortex.domain.policy_rules.extraction.vocabulary import Vocabulary, normalize_document
from tripcortex.domain.policy_rules.extraction.whole_trips import find_exemption
from tripcortex.domain.policy_rules.extraction.wording import CABIN_MARK
from tripcortex.domain.policy_rules.regions import find_places
from tripcortex.domain.policy_rules.rules import (
    OTHER_NOTE,
    Effect,
    Outcome,
    PolicyRule,
    Range,
    RoutePattern,
    RuleScope,
)

__all__ = ["PolicyEntity", "propose_rules"]

_FLIGHT_TOPIC: Final = re.compile(
    r"\bflights?\b|\bair|\bfares?\b|\bcabins?\b|\bclass\b|\bseats?\b|\btickets?\b|\bairlines?\b"
    r"|\bcarriers?\b|\bbook|\badvance\b"
    r"|\bapprov|\bearly\b|\bcosts?\b|\bcaps?\b|\blimits?\b|\btravel\b|\bprohibit|\bcountr|\bdestination"
    r"|\bentitle|\blevels?\b",
    re.IGNORECASE,
)
_OTHER_TOPIC: Final = re.compile(
    r"\bhotels?\b|\blodging\b|\baccommodation\b|\bsleep|\bmeals?\b|\beating\b|\bper diem\b|\bentertain"
    r"|\bcars?\b|\brental|\bground\b"
    r"|\brail|\btrains?\b|\bautomobile|\bmileage\b|\bdriving\b|\btaxi|\bexpenses?\b|\breimburs|\bclaims?\b"
    r"|\breceipts?\b|\bmoney back\b"
    r"|\binsurance\b|\bloyalty\b|\bfrequent|\bvisas?\b|\bpassport|\bhealth\b|\bcancel|\bchanges?\b|\brefund"
    r"|\bbaggage\b|\bpersonal\b"
    r"|\bgetting around\b|\bvouchers?\b|\brecords?\b|\bafter (?:returning|the trip)|\bpleasure\b"
    r"|\bmedical\b|\bdefinitions?\b",
    re.IGNORECASE,
)


_SCOPE_TITLE: Final = re.compile(
    r"\b(?:travel|flights?|trips?|routes?|journeys?|bookings?|domestic|international|within|intra|long-haul"
    r"|short-haul"
    r"|executives?|levels?|grades?|bands?|employees)\b",
    re.IGNORECASE,
)
_NOT_SCOPE_TITLE: Final = re.compile(
    r"\b(?:carriers?|airlines?|polic(?:y|ies)|exceptions?|approv\w*|annex|security|risk|restrict\w*"
    r"|prohibit\w*|definitions?)\b",
    re.IGNORECASE,
)
_ABOVE_MAXIMUM: Final = re.compile(
    r"\b(?:above|higher than|beyond|better than)\b[^.;]*\b(?:maxim\w+|entitle\w*|class|cabin|1 stated"
    r"|stated|permitted)\b"
    r"|\bnothing (?:else|above|better|higher) (?:may|can|is|will)\b|\bno (?:other|better) (?:class|cabin)\b"
    r"|\b(?:next )?higher (?:class|cabin)\b|\bhigher than (?:their|the) entitle",
    re.IGNORECASE,
)
_LEADING: Final = re.compile(
    r"^(?:On|For|In|Within|Over|Between|Outside) (?:[^,.;:@]{4,60}?)(?=,| (?:anyone|everyone|economy"
    r"|everybody|all|@[EPBF]|the (?:cabin|class)|travel|you|we|employees|staff)\b)"
)
_CABIN_ACT: Final = re.compile(
    r"\b(?:book|fl(?:y|own|ight)|class of|permitted|allowed|reimburs|purchas|entitle|never|not)",
    re.IGNORECASE,
)
MAX_LABEL_WORDS: Final = 6
_LABEL_VERB: Final = re.compile(
    r"\b(?:is|are|may|can|cannot|must|shall|should|will|do|does|not|never|no|nope|require\w*|need\w*|book"
    r"|fly|use|only)\b",
    re.I,
)
_PROHIBITION_LIST: Final = re.compile(
    r"^(?P<lead>(?:never|not (?:permitted|allowed|booked|reimbursed)|prohibited|forbidden|we (?:never"
    r"|do not)[^:]{0,30}"
    r"|the following (?:are|is) (?:not \w+|never \w+|prohibited|forbidden"
    r"|excluded)))\b[^:]{0,30}: (?P<members>.+)$",
    re.IGNORECASE,
)
_IS_NO: Final = re.compile(r"^(?:no|never|not at all|nope)\W*$", re.IGNORECASE)
_OTHER_PEOPLE: Final = re.compile(
    r"\b(?:no|all|any|every) other (?:employees?|staff|travell?ers?|persons?|people|levels?|grades?|bands?)\b"
    r"|\b(?:everyone|everybody) else\b|\ball others\b|^(?:@[EPBF]: )?others\b",
    re.IGNORECASE,
)
_NOTHING_ELSE: Final = re.compile(
    r"\bnothing (?:else|above|better|higher)\b|\bno (?:other|higher|better) (?:class|cabin)", re.I
)
_TOPIC: Final = re.compile(r"^@[EPBF]: ")
_NUMBERING: Final = re.compile(
    r"^(?:[A-Z]\d{1,2}\.|\d+(?:\.\d+)+\.?|\d+[.)]|[A-Z][.-]\d+(?:\.\d+)*\.?|\([a-z0-9]\))\s+(?=\S)"
)
_FURTHER: Final = re.compile(
    r"\bfurther above\b|\b(?:beyond|above|over|higher than|more than|exceed(?:s|ing)) (?:that|this|it)\b"
    r"|\banything (?:more|above|higher)"
    r"|\blarger\b|\bgreater\b|\bin all other cases\b|\botherwise\b|\bfares? (?:higher|further)\b",
    re.IGNORECASE,
)


@dataclass
class _Reader:
    """A walk through the blocks of one document."""

    vocabulary: Vocabulary
    blocks: Sequence[Block]
    rules: list[PolicyRule] = field(default_factory=list)
    # Indices of rules on notice and on preferred airlines that a later sentence may complete, by section.
    open_notices: list[int] = field(default_factory=list)
    preferred: list[int] = field(default_factory=list)

    def read(self) -> list[PolicyRule]:
        for block in self.blocks:
            if block.kind == "table":
                self._read_table(block)
            elif block.kind in ("paragraph", "item"):
                self._read_text(block)
        return self.rules

    def _read_table(self, block: Block) -> None:
        if len(block.rows) < 2:
            return
        table = self._build_sentence(block.text, block)
        found = [*extract_table_rules(table, block.rows)] or [*read_open_table(table, block.rows)]
        self._add(_resolve_others(found))

    def _read_text(self, block: Block) -> None:
        """Read the sentences of a block; in an item a sentence without a cabin is about the item's cabin."""
        topic = ""
        remembered = Range()
        if block.kind == "item" and len(find_carriers(block.text)) > 1:
            # The airlines of an item and what is said of them may be different sentences.
            self._add(extract_carrier_rules(self._build_sentence(block.text, block)))
            return
        label, question = ParsedScope(RuleScope()), ""
        before: Sentence | None = None
        ruling: Sentence | None = None
        for at, original in enumerate(block.sentences):
            sentence = self._add_heading_cabin(self._build_sentence(original, block))
            plain, sentence = sentence, join_reference(sentence, before, ruling)
            before = plain
            ruling = plain if is_ruling(plain) else ruling
            sentence = replace(sentence, outer=merge_scopes(label, sentence.outer))
            if at == 0 and len(block.sentences) > 1 and _is_label(sentence.text):
                # "Zone 2." in front of sentences restricts all of them.
                label = parse_scope(sentence.text, self.vocabulary)
            if at == 0:
                label = merge_scopes(label, self._read_leading_scope(sentence))
            if block.kind == "item" and topic and not CABIN_MARK.search(sentence.text):
                sentence = replace(sentence, text=f"{topic}: {sentence.text}", is_value=False)
            if original.endswith("?"):
                question = sentence.text
                continue
            if question:
                answer = (
                    f"{question.rstrip('?')}: {sentence.text}"
                    if _IS_NO.match(sentence.text)
                    else sentence.text
                )
                sentence = replace(sentence, text=answer, about=f"{sentence.about} : {question}")
            mark = CABIN_MARK.match(sentence.text)
            topic = topic or (mark[0] if mark else "")
            sentence = self._exclude_named_levels(sentence)
            if self.vocabulary.is_definition(sentence.text):
                continue
            later, rest = split_later(sentence.text)
            is_completed = self._complete_earlier(sentence.with_text(later))
            if is_completed and rest:
                self._add(read_sentence(sentence.with_text(rest), remembered))
            elif not is_completed and not _is_other_topic(block, sentence):
                for each in _split_prohibitions(sentence):
                    self._add(read_sentence(each, remembered))
            hours = find_flight_hours(sentence.text)
            remembered = remembered if hours.is_open else hours

    def _read_leading_scope(self, sentence: Sentence) -> ParsedScope:
        """Return the trips that the first words of a paragraph name: they are those of all its sentences.

        "On a long journey anyone may travel in premium economy. Partners may travel in business class."
        """
        found = _LEADING.match(sentence.text)
        if found is None:
            return ParsedScope(RuleScope())
        scope = sentence.parse_scope(found[0]).scope
        return ParsedScope(
            RuleScope(
                routes=scope.routes,
                except_routes=scope.except_routes,
                hours=scope.hours,
                distance_km=scope.distance_km,
            )
        )

    def _add_heading_cabin(self, sentence: Sentence) -> Sentence:
        """Return the sentence with the one cabin of its heading: "Can I fly business?" – "Band D: yes"."""
        cabins = CABIN_MARK.findall(self._normalize(sentence.block.section or ""))
        is_plain = not CABIN_MARK.search(sentence.text) and "$" not in sentence.text
        if len(cabins) != 1 or cabins[0] == "@E" or not is_plain:
            return sentence
        return sentence.with_text(f"{cabins[0]}: {sentence.text}")

    def _exclude_named_levels(self, sentence: Sentence) -> Sentence:
        """Return the sentence; "no other employee" leaves out the levels that the section named before."""
        if not _OTHER_PEOPLE.search(sentence.text):
            return sentence
        named = tuple(
            dict.fromkeys(
                level
                for rule in self.rules
                if rule.section == sentence.block.section and rule.effect is Effect.max_cabin
                for level in rule.scope.levels
            )
        )
        scope = sentence.outer.scope.model_copy(update={"except_levels": named})
        return replace(sentence, outer=ParsedScope(scope, sentence.outer.problem, sentence.outer.is_other))

    def _build_sentence(self, original: str, block: Block) -> Sentence:
        titles = block.sections[1:] if len(block.sections) > 1 else block.sections
        about = self._normalize(" : ".join([*titles, *([block.lead] if block.lead not in titles else [])]))
        outer = (
            parse_scope(self._normalize(_NUMBERING.sub("", block.sections[-1])), self.vocabulary)
            if len(block.sections) > 1
            else None
        )
        outer = _keep_plain(outer, block.section or "")
        if block.kind != "paragraph" and block.lead.endswith(":"):
            lead = parse_scope(self._normalize(block.lead), self.vocabulary)
            plain = RuleScope(routes=lead.scope.routes, hours=lead.scope.hours, levels=lead.scope.levels)
            if not lead.is_other and not lead.problem:
                outer = merge_scopes(ParsedScope(plain), outer)
        is_value = block.kind == "item"
        return Sentence(
            text=self._normalize(_NUMBERING.sub("", original)), quote=original, block=block, about=about,
            outer=outer, vocabulary=self.vocabulary, is_value=is_value,
        )  # fmt: skip

    def _normalize(self, text: str) -> str:
        """Return the text in normalized form, with amounts in US dollars and authorities by who they are."""
        return normalize_document(text, self.vocabulary)

    def _add(self, found: Iterable[PolicyRule]) -> None:
        for rule in found:
            rule = self._continue_tier(rule)
            if rule.effect is Effect.notice and rule.days:
                self.open_notices.append(len(self.rules))
            elif rule.effect is Effect.preferred_carriers:
                self.preferred.append(len(self.rules))
            self.rules.append(rule)

    def _continue_tier(self, rule: PolicyRule) -> PolicyRule:
        """Return a tier "further above" without a number of its own as the fares above the tier before it."""
        if rule.effect is not Effect.overage or rule.over_percent or rule.over_usd:
            return rule
        earlier = [
            each for each in self.rules if each.effect is Effect.overage and each.section == rule.section
        ]
        if not earlier or not _FURTHER.search(rule.quote):
            return rule
        percent, usd = earlier[-1].over_percent, earlier[-1].over_usd
        above_percent = (
            Range(low=percent.high, low_included=False) if percent and percent.high is not None else None
        )
        above_usd = Range(low=usd.high, low_included=False) if usd and usd.high is not None else None
        return rule.model_copy(update={"over_percent": above_percent, "over_usd": above_usd})

    def _complete_earlier(self, sentence: Sentence) -> bool:
        """Complete earlier rules with what a later booking or another airline needs.

        Return True if it did.
        """
        later = find_later_approval(sentence)
        if later is not None and self.open_notices:
            scope = sentence.parse_scope().scope
            for index in (each for each in self.open_notices if _overlaps(self.rules[each].scope, scope)):
                if not self.rules[index].approvers:
                    self._update(index, {"outcome": later[0], "approvers": later[1]}, sentence)
            return True
        before = [rule.effect for rule in self.rules if rule.section == sentence.block.section]
        exemption = find_exemption(sentence, before[-1] if before else None)
        if exemption is not None:
            self.rules.append(exemption)
            return True
        if self._limit_cabins(sentence):
            return True
        other = find_other_carriers_outcome(sentence)
        if other is not None and self.preferred:
            scope = sentence.parse_scope().scope
            for index in (each for each in self.preferred if _overlaps(self.rules[each].scope, scope)):
                self._update(index, {"outcome": other[0], "approvers": other[1]}, sentence)
            return True
        return False

    def _limit_cabins(self, sentence: Sentence) -> bool:
        """Set what a class above the section's maximum needs, if a sentence says so without a cabin."""
        text = _TOPIC.sub("", sentence.text)
        if CABIN_MARK.search(text) or not _ABOVE_MAXIMUM.search(text):
            return False
        approval = sentence.find_approval()
        is_needed = approval is not None and approval.outcome is Outcome.approval
        if not is_needed and not (is_prohibition(text) or _NOTHING_ELSE.search(text)):
            return False
        scope = merge_scopes(sentence.parse_scope(text), sentence.outer).scope
        outcome = Outcome.approval if is_needed and not is_refusal(text) else Outcome.forbidden
        found = [
            index
            for index, rule in enumerate(self.rules)
            if rule.effect is Effect.max_cabin
            and rule.section == sentence.block.section
            and _overlaps(rule.scope, scope)
        ]
        for index in found:
            approvers = approval.approvers if approval and outcome is Outcome.approval else ()
            self._update(index, {"outcome": outcome, "approvers": approvers}, sentence)
        return bool(found)

    def _update(self, index: int, values: dict[str, object], sentence: Sentence) -> None:
        rule = self.rules[index]
        quote = rule.quote if sentence.quote in rule.quote else f"{rule.quote} {sentence.quote}"
        self.rules[index] = rule.model_copy(update={**values, "quote": quote})


def propose_rules(entities: Iterable[PolicyEntity]) -> tuple[PolicyRule, ...]:
    """Return the rules that the document states, in reading order, each with its quote, page and section.

    If the document is not complete, no rule permits anything: all of them are incomplete.
    """
    blocks = read_blocks(entities)
    rules = _Reader(build_vocabulary(blocks), blocks).read()
    rules = [*_resolve_by_section(rules)]
    gaps = find_gaps(blocks)
    if gaps:
        rules = [
            rule.model_copy(update={"is_complete": False, "notes": (*rule.notes, *gaps)}) for rule in rules
        ]
        rules += [_build_gap(gap) for gap in gaps]
    return tuple({rule.rule_id: rule for rule in (each.with_id() for each in rules)}.values())


def _build_gap(gap: str) -> PolicyRule:
    """Return the statement that the document is not whole, which an administrator may reject."""
    return PolicyRule(text=gap, effect=Effect.unknown, subject="document", is_complete=False, notes=(gap,))


def _keep_plain(scope: ParsedScope | None, title: str) -> ParsedScope:
    """Return the scope of a heading: its routes, hours and levels.

    What was not understood of it does not matter.
    """
    if scope is None or scope.is_other or not _SCOPE_TITLE.search(title) or _NOT_SCOPE_TITLE.search(title):
        return ParsedScope(RuleScope())
    return ParsedScope(
        RuleScope(routes=scope.scope.routes, hours=scope.scope.hours, levels=scope.scope.levels)
    )


def _split_prohibitions(sentence: Sentence) -> Iterator[Sentence]:
    """Yield one sentence for each member of a list of prohibitions: "Never: first class, travel to Yemen"."""
    found = _PROHIBITION_LIST.match(sentence.text)
    if not found:
        yield sentence
        return
    members: list[str] = []
    for part in re.split(r"[,;]\s+(?:and |or )?", found["members"]):
        is_plain_place = bool(members) and bool(find_places(part)) and len(part.split()) <= 3
        if is_plain_place:
            members[-1] = f"{members[-1]}, {part}"
        else:
            members.append(part)
    for member in members:
        yield sentence.with_text(f"{found['lead']}: {member}")


def _is_label(text: str) -> bool:
    """Return True if a first sentence is only a name of what follows."""
    return len(text.split()) <= MAX_LABEL_WORDS and not _LABEL_VERB.search(text)


def _overlaps(scope: RuleScope, stated: RuleScope) -> bool:
    """Return True if a sentence about routes and levels is about the trips of a rule."""
    is_route = not stated.routes or any(
        route in stated.routes or any(_is_like(route, other) for other in stated.routes)
        for route in scope.routes
    )
    is_level = not stated.levels or not scope.levels or bool(set(stated.levels) & set(scope.levels))
    return is_route and is_level


def _is_like(route: RoutePattern, other: RoutePattern) -> bool:
    """Return True if both routes are domestic, or both are international, and the other names no places."""
    is_inland = bool(route.one) and route.one == route.other
    kind = route.is_domestic if route.is_domestic is not None else (True if is_inland else None)
    return not other.one and not other.other and kind is not None and kind is other.is_domestic


def _is_other_topic(block: Block, sentence: Sentence) -> bool:
    """Return True in a section about hotels, cars or claims, unless the sentence itself is about flights."""
    title = block.section or ""
    is_other = bool(_OTHER_TOPIC.search(title)) and not _FLIGHT_TOPIC.search(title)
    is_own = re.search(
        r"\bflights?\b|\bfly\b|\bair(?:fares?|lines?| travel)\b|\bfares?\b", sentence.text, re.IGNORECASE
    )
    return (
        is_other
        and not (is_own and not OTHER_COST.search(sentence.text))
        and not (CABIN_MARK.search(sentence.text) and _CABIN_ACT.search(sentence.text))
    )


def _resolve_by_section(rules: list[PolicyRule]) -> Iterator[PolicyRule]:
    """Yield the rules.

    Of sentences, "any other destination" excludes what the section says of the same subject.
    """
    for rule in rules:
        if OTHER_NOTE not in rule.notes or rule.group:
            yield rule
            continue
        siblings = [
            each
            for each in rules
            if each.effect is rule.effect and each.section == rule.section and OTHER_NOTE not in each.notes
        ]
        named = tuple(dict.fromkeys(route for each in siblings for route in each.scope.routes))
        excepted: tuple[RoutePattern, ...] = (*rule.scope.except_routes, *named)
        yield rule.model_copy(update={"scope": rule.scope.model_copy(update={"except_routes": excepted})})


def _resolve_others(rules: list[PolicyRule]) -> Iterator[PolicyRule]:
    """Yield the rules of a table; "all other routes" excludes the routes of the other rows."""
    named = tuple(
        dict.fromkeys(route for rule in rules if OTHER_NOTE not in rule.notes for route in rule.scope.routes)
    )
    for rule in rules:
        if OTHER_NOTE in rule.notes:
            excepted: tuple[RoutePattern, ...] = (*rule.scope.except_routes, *named)
            yield rule.model_copy(update={"scope": rule.scope.model_copy(update={"except_routes": excepted})})
        else:
            yield rule
