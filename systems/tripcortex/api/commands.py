"""Operator commands of Trip Cortex: upload, list and ask policies, and show the portal's circuit breaker.

`holdfast tripcortex policies upload FILE`, `… policies list`, `… policies ask FILE "…"`, `… policies judge
FILE`, `… circuit`, and the commands of the modules next to this one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

from holdfast import Page, Stores
from holdfast.model.system import Command, Listing
from tripcortex.api.directory_commands import DIRECTORY_COMMANDS
from tripcortex.api.judge_command import policies_judge
from tripcortex.api.planning_command import PLANNING_COMMANDS
from tripcortex.api.policy_commands import policies_ask, read_file
from tripcortex.api.rule_commands import RULE_COMMANDS
from tripcortex.domain.policy_rules.travel_policy import TravelPolicy
from tripcortex.integrations.ai_models import open_embedding
from tripcortex.integrations.portal.circuit import BREAKER, PORTAL_CIRCUIT
from tripcortex.model.policies import patterns as policies
from tripcortex.policies.ingestion import ingest
from tripcortex.policies.rule_review import count_rules
from tripcortex.policies.uploads import Upload, upload
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
    rules: Annotated[Path | None, "The policy's rules in machine-readable form, as JSON"] = None,
    progress: Progress | None = None,
) -> Any:
    """Upload a policy and ingest it immediately."""
    embedding = open_embedding(TripCortexSettings.load())
    parsed = None if rules is None else _parse_rules(await read_file(rules))
    stored = await upload(stores, Upload(file.name, await read_file(file), "operator", parsed), wakes=False)

    def on_batch(chunks: int, page: int | None, pages: int | None) -> None:
        if progress is not None and page is not None and pages is not None:
            progress(f"{file.name}, {chunks} chunks", page, pages)

    policy = await ingest(stores, stored.id, None, embedding, progress=on_batch)
    counted = await count_rules(stores, policy.id)
    return policy.model_dump(mode="json", include=set(COLUMNS)) | {"rules": counted}


async def policies_list(stores: Stores) -> Any:
    """List all editions of all policies, and which of them are in service."""
    found = await stores.run(policies.policies())
    return Listing(Page(tuple(each.model_dump(mode="json", include=set(COLUMNS)) for each in found)), COLUMNS)


async def circuit(stores: Stores) -> Any:
    """Show whether the circuit breaker allows calls to the travel portal."""
    found = await BREAKER.get_circuit(stores, PORTAL_CIRCUIT)
    shown = found.model_dump(mode="json", exclude_none=True)
    # Stored as epoch seconds, 0 for never; shown as a time.
    for name in ("last_failure_time", "probe_until", "ttl"):
        if name in shown:
            shown[name] = _format_time(shown[name]) if shown[name] else None
    return shown


def _format_time(seconds: int) -> str:
    """Format epoch seconds as ISO 8601 in UTC with a trailing Z."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _parse_rules(rules: bytes) -> dict[str, Any]:
    """Check that the bytes are a valid `TravelPolicy`; return the JSON as given, as it is stored."""
    TravelPolicy.parse(rules)
    parsed: dict[str, Any] = json.loads(rules)
    return parsed


COMMANDS: Final = {
    "policies upload": Command(policies_upload, "ingester"),
    "policies list": Command(policies_list, "support"),
    "policies ask": Command(policies_ask, needs_stores=False),
    "policies judge": Command(policies_judge, needs_stores=False),
    **RULE_COMMANDS,
    "circuit": Command(circuit, "support"),
    **PLANNING_COMMANDS,
    **DIRECTORY_COMMANDS,
}
