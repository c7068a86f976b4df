"""The Claude writer: a language model that chooses words in an artefact, and nothing else.

    rules' draft → ask the model for texts, in a form → validate → set into the draft → validate_content

The rules' draft is the skeleton. `WORDINGS` names the texts that the model may write; the tool's form has
these and the names of their entries, and no other field. So no number, status, id, date or reference comes
from the model. An answer with extra fields, an unknown entry, a link, an address or markup is refused as a
whole: a model that was manipulated in one place is not trusted in another. The model gets the reason and one
more attempt; then the rules' draft is used, and its `writer` says so. Nothing here stores or sends anything:
a writer returns a `Draft`.

The same facts are not sent twice within one process: the existing words stay.
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

from agenticpm.domain.contents import ArtefactType, to_stored, validate_content
from agenticpm.domain.tickets import Draft, Writer, Writing
from agenticpm.integrations.claude.prompt_data import build_prompt_data
from agenticpm.integrations.claude.wording import (
    WORDINGS,
    Wording,
    build_tool,
    index_by_key,
    is_plain,
    validate_words,
)
from holdfast.ai import DataBlock, Reasoner, ToolUse, strip_invisible
from holdfast.core.errors import HoldfastError, RetryLater

ArtefactKey: TypeAlias = tuple[str, str, str]

# Includes thinking tokens, for models that always think.
MAX_TOKENS: Final = 4_000
MAX_ATTEMPTS: Final = 2
# Pause after a failure, unless the service states its own retry time.
PAUSE_S: Final = 60.0
MAX_REASON_CHARS: Final = 200
INSTRUCTIONS: Final = """\
You write the words of a project's artefact for its team: short, plain, in English, no praise, no guesses. The draft has
every number, date, status and name right: use these, contradict none, and add no others. Leave out what the data does not
say. You need not fill what the draft already says well. Plain sentences only: no links, no addresses, no markup."""  # noqa: E501


@dataclass
class ClaudeWriter:
    """A `Writer` that lets a language model choose words; on any failure it returns the fallback's draft."""

    reasoner: Reasoner
    fallback: Writer
    name: str = "claude"
    # Fingerprints of the last draft sent to the model and of its result, by project and artefact type.
    _known_drafts: dict[ArtefactKey, frozenset[str]] = field(default_factory=dict, repr=False)
    _paused_until: datetime | None = field(default=None, repr=False)

    async def write(self, writing: Writing) -> Draft:
        """Return the fallback's draft with the model's words.

        The model is not called for a type without writable texts, for facts it has already worded, or while
        it is paused after a failure.
        """
        draft = await self.fallback.write(writing)
        type = ArtefactType(writing.type)
        skeleton = to_stored(validate_content(type, draft.content))
        words = WORDINGS.get(type)
        if words is None or not _has_writable_text(words, skeleton, writing.previous):
            return draft
        if _compute_fingerprint(words, skeleton) in self._known_drafts.get(_get_artefact_key(writing), ()):
            content = _apply_words(words, skeleton, writing.previous or {})
            return Draft(
                content=to_stored(validate_content(type, content)),
                writer=f"{self.name} (kept)",
                facts=draft.facts,
            )
        if self._paused_until is not None and writing.now < self._paused_until:
            return _fall_back(draft, Decimal(0), "is paused after a failure")
        return await self._write_with_model(writing, skeleton, draft)

    async def _write_with_model(self, writing: Writing, skeleton: dict[str, Any], draft: Draft) -> Draft:
        """Ask the model up to twice. After a failed call, pause; after two invalid answers, use the draft."""
        usd, wrong = Decimal(0), ""
        for _ in range(MAX_ATTEMPTS):
            try:
                answer = await self._ask(writing, skeleton, wrong)
            except HoldfastError as error:
                self._paused_until = writing.now + _get_pause(error)
                return _fall_back(draft, usd, f"failed: {error}")
            usd += answer.usage.usd
            try:
                content = _build_content(writing, skeleton, answer)
            except ValueError as error:
                wrong = str(error)
                continue
            self._remember(writing, skeleton, content)
            return Draft(content=content, usd=usd, writer=f"{self.name} ({answer.model})", facts=draft.facts)
        self._remember(writing, skeleton)
        return _fall_back(draft, usd, f"refused: {wrong}")

    async def _ask(self, writing: Writing, skeleton: Mapping[str, Any], wrong: str) -> ToolUse:
        """Send one request; `wrong` is why the last answer was refused, or empty."""
        data = build_prompt_data(writing, skeleton)
        if wrong:
            data.append(DataBlock("why your last answer was refused", wrong))
        return await self.reasoner.use_tool(
            instructions=INSTRUCTIONS,
            data=data,
            tool=build_tool(ArtefactType(writing.type)),
            tokens_max=MAX_TOKENS,
        )

    def _remember(self, writing: Writing, *contents: Mapping[str, Any]) -> None:
        """Remember the fingerprints of the draft and its result, so that equal facts are not sent again.

        The result counts too, because a fallback may start from the words already written.
        """
        words = WORDINGS[ArtefactType(writing.type)]
        self._known_drafts[_get_artefact_key(writing)] = frozenset(
            _compute_fingerprint(words, each) for each in contents
        )


def _get_artefact_key(writing: Writing) -> ArtefactKey:
    return writing.snapshot.source, writing.snapshot.project_key, writing.type


# --- content from an answer ---------------------------------------------------------------------------------


def _build_content(writing: Writing, skeleton: dict[str, Any], answer: ToolUse) -> dict[str, Any]:
    """Return the skeleton with the model's texts. Raise ValueError if any of them is invalid."""
    if answer.input is None:
        raise ValueError(answer.reason)
    type = ArtefactType(writing.type)
    given = validate_words(type, answer.input, skeleton, writing.previous)
    return to_stored(validate_content(type, _apply_words(WORDINGS[type], skeleton, given)))


def _apply_words(words: Wording, skeleton: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the skeleton with the writable texts of `given` in their places, and nothing else of it."""
    content = deepcopy(dict(skeleton))
    for name in words.texts:
        if given.get(name) is not None:
            content[name] = given[name]
    for name, entries in words.lists.items():
        found = index_by_key(entries, given.get(name) or [])
        for entry in content[name]:
            for word in entries.words:
                text = found.get(entries.get_key(entry), {}).get(word)
                entry[word] = entry[word] if text is None else text
    return content


def _fall_back(draft: Draft, usd: Decimal, why: str) -> Draft:
    """Return the fallback's draft with the price and the reason in `writer`.

    An event stores the reason, so a text of the model is quoted only if it is plain.
    """
    reason = " ".join(strip_invisible(why).split())[:MAX_REASON_CHARS]
    if not is_plain(reason):
        reason = "refused: its answer is not plain text"
    return draft.model_copy(update={"usd": draft.usd + usd, "writer": f"{draft.writer} (claude {reason})"})


def _get_pause(error: HoldfastError) -> timedelta:
    """Return how long to pause after the error: what the service asks for, or 60 seconds."""
    wanted = error.retry_after_s if isinstance(error, RetryLater) else None
    return timedelta(seconds=PAUSE_S if wanted is None else wanted)


# --- writable texts --------------------------------------------------------------------------------------


def _has_writable_text(
    words: Wording, skeleton: Mapping[str, Any], previous: Mapping[str, Any] | None
) -> bool:
    """Return whether the model may write any text of this draft."""
    return bool(words.texts) or any(
        entries.is_writable(entry, name, previous)
        for name, entries in words.lists.items()
        for entry in skeleton[name]
    )


def _compute_fingerprint(words: Wording, content: Mapping[str, Any]) -> str:
    """Return a hash of the content without its volatile fields."""
    lasting = {name: value for name, value in content.items() if name not in words.volatile}
    return sha256(json.dumps(lasting, sort_keys=True, default=str).encode()).hexdigest()
