"""Operator command that asks questions of a policy file, without a store: `policies ask FILE "QUESTION"…`.

A company can try its own document before it connects anything. The passages are those that the product
returns after an upload of the same file.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, Final

from holdfast.core.errors import InvalidRequest
from holdfast.model.system import Explanation
from tripcortex.integrations.ai_models import open_embedding
from tripcortex.policies.file_search import ingest_file, open_policy_stores, search_policy
from tripcortex.policies.retrieval import RetrievedChunk
from tripcortex.settings import TripCortexSettings

MAX_SHOWN_CHARS: Final = 160


async def policies_ask(
    file: Annotated[Path, "A PDF or a Markdown file"],
    questions: Annotated[list[str], "The questions, as employees would ask them"],
) -> Any:
    """Show the passages of a policy file that answer the questions, best first. Needs no stores."""
    embedding = open_embedding(TripCortexSettings.load())
    body = await read_file(file)
    async with open_policy_stores() as stores:
        policy = await ingest_file(stores, embedding, file.name, body)
        found = [await search_policy(stores, embedding, policy.id, question) for question in questions]
    answers = [
        {"question": question, "passages": [_show_passage(each) for each in result.chunks]}
        for question, result in zip(questions, found, strict=True)
    ]
    return Explanation([line for answer in answers for line in _format_answer(answer)], answers)


async def read_file(path: Path) -> bytes:
    """Return the file's bytes. Raise `InvalidRequest` if it cannot be read."""
    try:
        return await asyncio.to_thread(path.read_bytes)
    except OSError as error:
        raise InvalidRequest(f"Could not read {path}: {error.strerror}.") from error


def _format_answer(answer: dict[str, Any]) -> list[str]:
    """Return the lines of one question and its passages, for a person."""
    lines = [answer["question"]]
    for passage in answer["passages"]:
        place = ", ".join(
            each
            for each in (f"page {passage['page']}" if passage["page"] else "", passage["section"] or "")
            if each
        )
        lines += [f"  {passage['score']:.2f}  {place}", f"        {_shorten(passage['text'])}"]
    return [*lines, *([] if answer["passages"] else ["  no passage found"])]


def _shorten(text: str) -> str:
    """Return the text on one line, cut to 160 characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= MAX_SHOWN_CHARS else f"{flat[: MAX_SHOWN_CHARS - 1].rstrip()}…"


def _show_passage(chunk: RetrievedChunk) -> dict[str, Any]:
    """Return what a person needs to find the passage in the document."""
    return {
        "text": chunk.content_text,
        "section": chunk.section_title,
        "page": chunk.source_page,
        "score": round(chunk.similarity, 4),
    }
