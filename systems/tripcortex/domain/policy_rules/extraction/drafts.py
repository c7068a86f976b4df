"""The rules that are being read from one sentence.

Their source, and their scope in the context of the section.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Final

from tripcortex.domain.policy_rules.extraction.approvers import Approval, drop_approvers, find_approval
from tripcortex.domain.policy_rules.extraction.scopes import ParsedScope, merge_scopes, parse_scope
from tripcortex.domain.policy_rules.extraction.statements import Block, shorten
from tripcortex.domain.policy_rules.extraction.vocabulary import Vocabulary
from tripcortex.domain.policy_rules.rules import OTHER_NOTE, Effect, PolicyRule, RuleScope


@dataclass(frozen=True)
class Sentence:
    """A sentence or a row of a table in normalized form, with its original words and its context.

    `about` is what introduces it in normalized form: the headings, the lead of a list, the header of a table.
    """

    text: str
    quote: str
    block: Block
    about: str
    outer: ParsedScope
    vocabulary: Vocabulary
    # Of a row: the normalized words that state its scope, and those that state its approvers.
    key: str = ""
    value: str = ""
    is_value: bool = False
    group: str = ""

    def with_text(self, text: str) -> Sentence:
        return replace(self, text=text)

    def parse_scope(self, text: str | None = None) -> ParsedScope:
        """Return the scope of the sentence, or of a part of it; who approves is not part of it."""
        stated = self.text if text is None else text
        tail = _VALUE.search(stated) if self.is_value else None
        if tail and not find_approval(stated) and find_approval(tail[1], is_value=True):
            stated = stated[: tail.start(1)]
        return parse_scope(self.key or drop_approvers(stated), self.vocabulary)

    def find_approval(self, text: str | None = None) -> Approval | None:
        """Return the approval that the sentence asks for or waives; of a row, what its value says."""
        if self.value:
            return find_approval(self.value, is_value=True)
        stated = self.text if text is None else text
        found = find_approval(stated)
        if found is None and self.is_value:
            tail = _VALUE.search(stated)
            return find_approval(tail[1], is_value=True) if tail else None
        return found


def build_rule(
    sentence: Sentence, effect: Effect, scope: ParsedScope, *, text: str = "", **values: Any
) -> PolicyRule:
    """Return the rule of a sentence within the context's scope.

    A condition that was not understood is noted.
    """
    merged = merge_scopes(scope, sentence.outer)
    is_complete = values.pop("is_complete", True) and not merged.problem
    notes = tuple(values.pop("notes", ()))
    if merged.problem:
        notes = (*notes, f"The condition “{shorten(merged.problem)}” was not understood.")
    scope_value = RuleScope.model_validate(dict(merged.scope) | values.pop("scope_values", {}))
    if merged.is_other:
        notes = (*notes, OTHER_NOTE)
    return PolicyRule(
        text=text or shorten(sentence.quote),
        effect=effect,
        scope=scope_value,
        quote=shorten(sentence.quote),
        page=sentence.block.page,
        section=sentence.block.section,
        is_complete=is_complete,
        notes=notes,
        group=sentence.group,
        **values,
    )


# The value of an item such as "More than 25% over: team lead and Finance".
_VALUE: Final = re.compile(r".*(?:: | - )([^:]{2,60})$")
