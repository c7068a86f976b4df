"""The operator command that reviews a Jira export, without an account and without any store.

`holdfast agenticpm review FILE.json [--sprints FILE.json] [--mails FOLDER] [--now ISO] --json`
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

from agenticpm.domain.reading.raid_reader import RaidKind
from agenticpm.domain.review.findings import Proposal, ReviewSignal
from agenticpm.domain.review.records import Mail, ProjectRecord
from agenticpm.domain.review.review import Review, review
from agenticpm.integrations.jira.export_parser import collect_sprints, parse_search_result, parse_sprints
from agenticpm.integrations.mail_files import parse_mail
from holdfast.core.clock import SystemClock
from holdfast.core.errors import InvalidRequest
from holdfast.model.system import Command, Explanation

MAX_EXPORT_BYTES: Final = 256 * 1024 * 1024
MAX_MAIL_BYTES: Final = 32 * 1024 * 1024


async def review_export(
    file: Annotated[Path, "A Jira search result as JSON, with changelog and comments expanded"],
    sprints: Annotated[Path | None, "A JSON file with the sprints of the board"] = None,
    mails: Annotated[Path | None, "A folder with mails as .eml files"] = None,
    now: Annotated[str | None, "The time of the review, in ISO 8601; default: now"] = None,
) -> Any:
    """Review a Jira export: signals, health and proposed RAID items. Writes nothing."""
    project = read_project(file, sprints, mails)
    found = review(project, _parse_now(now))
    return Explanation(tuple(format_lines(found)), to_json(found))


def read_project(file: Path, sprints: Path | None = None, mails: Path | None = None) -> ProjectRecord:
    """Read the records of a project from files. Raise InvalidRequest, with the file, for what is not one."""
    body = _read_json(file)
    items, stages = parse_search_result(body, str(file))
    listed = collect_sprints(body) if sprints is None else parse_sprints(_read_json(sprints), str(sprints))
    return ProjectRecord(tuple(items), tuple(listed), tuple(_read_mails(mails)), stages)


def to_json(found: Review) -> dict[str, Any]:
    """Return a review as JSON. Decisions are not part of RAID."""
    raid = [each for each in found.proposals if each.kind is not RaidKind.decision]
    return {
        "health": found.health.value,
        "signals": [_format_signal(each) for each in found.signals],
        "raid": [_format_proposal(each) for each in raid],
    }


def format_lines(found: Review) -> Iterator[str]:
    """Yield a review as lines for a person."""
    yield f"Health: {found.health}"
    yield ""
    yield f"Signals: {len(found.signals) or 'none'}"
    for signal in found.signals:
        yield f"  [{signal.severity}] {signal.kind}: {signal.evidence}"
    yield ""
    yield f"Proposals for the logs: {len(found.proposals) or 'none'}"
    for proposal in found.proposals:
        yield f"  {proposal.kind} ({proposal.source}): “{proposal.quote}”"


def _format_signal(signal: ReviewSignal) -> dict[str, Any]:
    return {
        "kind": signal.kind.value,
        "severity": signal.severity.value,
        "ticket": signal.ticket,
        "evidence": signal.evidence,
    }


def _format_proposal(proposal: Proposal) -> dict[str, Any]:
    return {
        "kind": proposal.kind.value,
        "title": proposal.title,
        "quote": proposal.quote,
        "ticket": proposal.ticket,
    }


def _parse_now(text: str | None) -> datetime:
    """Return the time, in UTC without a zone; the current time without a text."""
    if text is None:
        return datetime.fromtimestamp(SystemClock().now(), UTC)
    try:
        found = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        raise InvalidRequest(
            f"Invalid --now {text!r:.40}: expected a time in ISO 8601, such as 2026-02-03T09:00:00+00:00."
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _read_json(file: Path) -> Any:
    try:
        return json.loads(_read_bytes(file, MAX_EXPORT_BYTES))
    except (ValueError, RecursionError):
        raise InvalidRequest(f"Invalid {file}: expected JSON. Export it again.") from None


def _read_mails(folder: Path | None) -> Iterable[Mail]:
    if folder is None:
        return []
    if not folder.is_dir():
        raise InvalidRequest(f"Invalid --mails {folder}: expected a folder with .eml files.")
    files = sorted(each for each in folder.iterdir() if each.suffix.lower() == ".eml")
    return [parse_mail(_read_bytes(each, MAX_MAIL_BYTES), each.name) for each in files]


def _read_bytes(file: Path, max_bytes: int) -> bytes:
    """Return the content of a file. Raise InvalidRequest if it cannot be read or is too large."""
    try:
        if file.stat().st_size > max_bytes:
            raise InvalidRequest(f"{file} has more than {max_bytes} bytes. Export fewer issues.")
        return file.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"Cannot read {file}: {error.strerror or 'it is not a file'}.") from None


REVIEW_COMMANDS: Final = {"review": Command(review_export, needs_stores=False)}
