"""A language model in the place of a writer: it may choose words, and nothing else.

    the rules' draft → words asked of the model, in a form → checked → set into the draft → checked_content

The rules' draft is the skeleton. `WORDS` says which of its texts the model may write; the tool's form has these and the
names of the entries they are of, and no other field. So no number, status, id, date or reference is ever the model's. An
answer that has more than the form, names an entry that is not there, or brings a link, an address or markup is refused
whole: a model that was talked into one thing is not trusted with the rest. It is told why, once; then the rules' draft is
taken, and says so. Nothing here stores or sends anything: a writer gives back a `Draft`.

The same facts are not asked about twice, as long as the process lives: the words that are there stay.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from typing import Any, Final, TypeAlias

from agenticpm.claude_facts import facts
from agenticpm.claude_words import WORDS, Words, checked_words, entries_by_key, is_plain, tool_for
from agenticpm.contents import ArtefactType, checked_content, plain
from agenticpm.tickets import Draft, Writer, Writing
from holdfast.ai import DataBlock, Reasoner, ToolUse, seen
from holdfast.errors import HoldfastError, RetryLater

Place: TypeAlias = tuple[str, str, str]

# What a model thinks counts too, where it cannot be kept from it.
TOKENS_MAX: Final = 4_000
ATTEMPTS: Final = 2
# After a failure nobody is asked for so long, where the other side did not say for how long.
PAUSE_S: Final = 60.0
REASON_CHARS_MAX: Final = 200
INSTRUCTIONS: Final = """\
You write the words of a project's artefact for its team: short, plain, in English, no praise, no guesses. The draft has
every number, date, status and name right: use these, contradict none, and add no others. Leave out what the data does not
say. You need not fill what the draft already says well. Plain sentences only: no links, no addresses, no markup."""


@dataclass
class ClaudeWriter:
    """Writes with a reasoner; whatever goes wrong, the fallback's draft is what comes back."""

    reasoner: Reasoner
    fallback: Writer
    name: str = "claude"
    # By project and type: the draft that was last asked about, and what became of it, by their fingerprints.
    _asked: dict[Place, frozenset[str]] = field(default_factory=dict, repr=False)
    _quiet_until: datetime | None = field(default=None, repr=False)

    async def write(self, writing: Writing) -> Draft:
        draft = await self.fallback.write(writing)
        type = ArtefactType(writing.type)
        skeleton = plain(checked_content(type, draft.content))
        words = WORDS.get(type)
        if words is None or not _has_room(words, skeleton, writing.previous):
            return draft
        if _fingerprint(words, skeleton) in self._asked.get(_place(writing), ()):
            kept = _with_words(words, skeleton, writing.previous or {})
            return Draft(
                content=plain(checked_content(type, kept)), writer=f"{self.name} (kept)", facts=draft.facts
            )
        if self._quiet_until is not None and writing.now < self._quiet_until:
            return _rules(draft, Decimal(0), "is not asked before the pause is over")
        return await self._written(writing, skeleton, draft)

    async def _written(self, writing: Writing, skeleton: dict[str, Any], draft: Draft) -> Draft:
        usd, wrong = Decimal(0), ""
        for _ in range(ATTEMPTS):
            try:
                answer = await self._ask(writing, skeleton, wrong)
            except HoldfastError as error:
                self._quiet_until = writing.now + _pause(error)
                return _rules(draft, usd, f"failed: {error}")
            usd += answer.usage.usd
            try:
                content = _content(writing, skeleton, answer)
            except ValueError as error:
                wrong = str(error)
                continue
            self._remember(writing, skeleton, content)
            return Draft(content=content, usd=usd, writer=f"{self.name} ({answer.model})", facts=draft.facts)
        self._remember(writing, skeleton)
        return _rules(draft, usd, f"refused: {wrong}")

    async def _ask(self, writing: Writing, skeleton: Mapping[str, Any], wrong: str) -> ToolUse:
        data = facts(writing, skeleton)
        if wrong:
            data.append(DataBlock("why your last answer was refused", wrong))
        return await self.reasoner.use_tool(
            instructions=INSTRUCTIONS,
            data=data,
            tool=tool_for(ArtefactType(writing.type)),
            tokens_max=TOKENS_MAX,
        )

    def _remember(self, writing: Writing, *contents: Mapping[str, Any]) -> None:
        """Also what came of it: a fallback may begin with the words that stand there."""
        words = WORDS[ArtefactType(writing.type)]
        self._asked[_place(writing)] = frozenset(_fingerprint(words, each) for each in contents)


def _place(writing: Writing) -> Place:
    return writing.snapshot.source, writing.snapshot.project_key, writing.type


# --- from an answer to a content ---------------------------------------------------------------------------------


def _content(writing: Writing, skeleton: dict[str, Any], answer: ToolUse) -> dict[str, Any]:
    """The skeleton with the model's words in it, or ValueError: with nothing of them."""
    if answer.input is None:
        raise ValueError(answer.reason)
    type = ArtefactType(writing.type)
    given = checked_words(type, answer.input, skeleton, writing.previous)
    return plain(checked_content(type, _with_words(WORDS[type], skeleton, given)))


def _with_words(words: Words, skeleton: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The skeleton, with those texts of `given` that are words, each where it belongs. All else is the skeleton's."""
    content = deepcopy(dict(skeleton))
    for name in words.texts:
        if given.get(name) is not None:
            content[name] = given[name]
    for name, entries in words.lists.items():
        found = entries_by_key(entries, given.get(name) or [])
        for entry in content[name]:
            for word in entries.words:
                text = found.get(entries.key_of(entry), {}).get(word)
                entry[word] = entry[word] if text is None else text
    return content


def _rules(draft: Draft, usd: Decimal, why: str) -> Draft:
    """The reason is kept in an event, and may quote the model: as words, or not at all."""
    told = " ".join(seen(why).split())[:REASON_CHARS_MAX]
    if not is_plain(told):
        told = "refused: what it gave cannot be quoted"
    return draft.model_copy(update={"usd": draft.usd + usd, "writer": f"{draft.writer} (claude {told})"})


def _pause(error: HoldfastError) -> timedelta:
    wanted = error.retry_after_s if isinstance(error, RetryLater) else None
    return timedelta(seconds=PAUSE_S if wanted is None else wanted)


# --- what there is to write --------------------------------------------------------------------------------------


def _has_room(words: Words, skeleton: Mapping[str, Any], previous: Mapping[str, Any] | None) -> bool:
    return bool(words.texts) or any(
        entries.is_open(entry, name, previous)
        for name, entries in words.lists.items()
        for entry in skeleton[name]
    )


def _fingerprint(words: Words, content: Mapping[str, Any]) -> str:
    lasting = {name: value for name, value in content.items() if name not in words.passing}
    return sha256(json.dumps(lasting, sort_keys=True, default=str).encode()).hexdigest()
