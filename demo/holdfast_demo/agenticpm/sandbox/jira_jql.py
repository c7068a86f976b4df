"""The JQL parser of the Jira sandbox: project, updated since, keys and order; it refuses everything else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Final

VALUE: Final = r"(?:\"(?P<{0}>[^\"]*)\"|(?P<{0}_bare>[\w-]+))"
PROJECT: Final = re.compile(rf"project\s*=\s*{VALUE.format('value')}", re.IGNORECASE)
UPDATED: Final = re.compile(r"updated\s*>=\s*\"(?P<value>[^\"]*)\"", re.IGNORECASE)
KEYS: Final = re.compile(r"(?:issuekey|key)\s+in\s*\((?P<value>[^)]*)\)", re.IGNORECASE)
ORDER: Final = re.compile(r"\s+ORDER\s+BY\s+(?P<by>.+)$", re.IGNORECASE)
AND: Final = re.compile(r"\s+AND\s+", re.IGNORECASE)
TIME_FORMAT: Final = "%Y-%m-%d %H:%M"
SUPPORTED_ORDER: Final = ("updated asc", "key asc")


class InvalidJql(Exception):
    """A query that Jira refuses with 400."""


@dataclass(frozen=True)
class Jql:
    """A parsed query. `since` is a full minute, as in JQL."""

    project: str | None = None
    since: datetime | None = None
    keys: frozenset[str] | None = None

    def matches(self, issue: Mapping[str, Any], updated: datetime) -> bool:
        """Return whether an issue that was updated at this time matches the query."""
        key = str(issue["key"])
        return (
            (self.project is None or key.rpartition("-")[0] == self.project)
            and (self.since is None or updated >= self.since)
            and (self.keys is None or key in self.keys)
        )


def parse_jql(text: str, zone: tzinfo) -> Jql:
    """Parse a query. Times are in the caller's zone. Raise InvalidJql if Jira or this parser refuses it."""
    order = ORDER.search(text)
    if order is not None:
        _check_order(order["by"])
        text = text[: order.start()]
    found: dict[str, Any] = {}
    for clause in AND.split(text.strip()):
        name, value = _parse_clause(clause, zone)
        if name in found:
            raise InvalidJql(f"Error in the JQL Query: '{name}' occurs twice.")
        found[name] = value
    if not found.keys() & {"project", "keys"}:
        raise InvalidJql(
            "Unbounded JQL queries are not allowed here. Please add a search restriction to your query."
        )
    return Jql(**found)


def _parse_clause(text: str, zone: tzinfo) -> tuple[str, Any]:
    """Return the name and value of one clause. Raise InvalidJql if it is not supported."""
    if match := PROJECT.fullmatch(text):
        return "project", match["value"] or match["value_bare"]
    if match := UPDATED.fullmatch(text):
        return "since", _parse_time(match["value"], zone)
    if match := KEYS.fullmatch(text):
        return "keys", frozenset(each.strip().strip('"') for each in match["value"].split(","))
    raise InvalidJql(f"Error in the JQL Query: '{text}' is not supported.")


def _parse_time(text: str, zone: tzinfo) -> datetime:
    try:
        return datetime.strptime(text, TIME_FORMAT).replace(tzinfo=zone)
    except ValueError as error:
        message = (
            f"Date value '{text}' for field 'updated' is invalid. Valid formats include: 'yyyy-MM-dd HH:mm'."
        )
        raise InvalidJql(message) from error


def _check_order(by: str) -> None:
    """Raise InvalidJql unless the order is by updated, then by key."""
    names = tuple(" ".join(each.split()).casefold() for each in by.split(","))
    if names != SUPPORTED_ORDER[: len(names)]:
        raise InvalidJql(f"Error in the JQL Query: the order '{by}' is not supported.")
