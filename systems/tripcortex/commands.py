"""What operators do on the command line: `holdfast tripcortex policies upload FILE`, `… policies list`, `… policies try "…"`, `… circuit`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

from holdfast import Command, Listing, Page, Stores
from holdfast.errors import InvalidRequest
from tripcortex.knowledge import patterns as policies
from tripcortex.knowledge.ingesting import ingest
from tripcortex.knowledge.retrieving import retrieve
from tripcortex.knowledge.uploading import Upload, upload
from tripcortex.models import open_embedding
from tripcortex.portal.circuit import PortalCircuit
from tripcortex.rules.policy import TravelPolicy
from tripcortex.settings import TripCortexSettings

COLUMNS: Final = (
    "file_name",
    "edition",
    "status",
    "serves",
    "total_pages",
    "total_chunks",
    "error_message",
    "id",
)

Progress = Callable[[str, int, int], None]


async def policies_upload(
    stores: Stores,
    file: Annotated[Path, "A PDF or a Markdown file"],
    rules: Annotated[Path | None, "The same policy for programs, as JSON"] = None,
    progress: Progress | None = None,
) -> Any:
    """Upload a policy and read it, here and now."""
    embedding = open_embedding(TripCortexSettings.load())
    told = None if rules is None else _checked(await _read(rules))
    kept = await upload(stores, Upload(file.name, await _read(file), "operator", told), wakes=False)

    def on_batch(chunks: int, page: int | None, pages: int | None) -> None:
        if progress is not None and page is not None and pages is not None:
            progress(f"{file.name}, {chunks} chunks", page, pages)

    policy = await ingest(stores, kept.id, None, embedding, progress=on_batch)
    return policy.model_dump(mode="json", include=set(COLUMNS))


async def policies_list(stores: Stores) -> Any:
    """All editions of all policies, and which serve."""
    found = await stores.run(policies.policies())
    return Listing(Page(tuple(each.model_dump(mode="json", include=set(COLUMNS)) for each in found)), COLUMNS)


async def policies_try(stores: Stores, question: Annotated[str, "As an employee would ask it"]) -> Any:
    """What a question finds in the policies, and where it stands."""
    found = await retrieve(stores, open_embedding(TripCortexSettings.load()), question)
    shown = [
        {
            "similarity": round(each.similarity, 3),
            "page": each.source_page,
            "section": each.section_title,
            "text": " ".join(each.content_text.split())[:100],
        }
        for each in found.chunks
    ]
    return Listing(Page(tuple(shown)), ("similarity", "page", "section", "text"))


async def circuit(stores: Stores) -> Any:
    """Whether the travel portal may be called."""
    found = await PortalCircuit().standing(stores)
    shown = found.model_dump(mode="json", exclude_none=True)
    # Kept as seconds, of which 0 is never; a person reads a moment.
    for name in ("last_failure_time", "probe_until", "ttl"):
        if name in shown:
            shown[name] = _moment(shown[name]) if shown[name] else None
    return shown


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _checked(rules: bytes) -> dict[str, Any]:
    """As they are kept, once it is sure that they can be used."""
    TravelPolicy.read(rules)
    told: dict[str, Any] = json.loads(rules)
    return told


async def _read(path: Path) -> bytes:
    try:
        return await asyncio.to_thread(path.read_bytes)
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}.") from error


COMMANDS: Final = {
    "policies upload": Command(policies_upload, "ingester"),
    "policies list": Command(policies_list, "support"),
    "policies try": Command(policies_try, "support"),
    "circuit": Command(circuit, "support"),
}
