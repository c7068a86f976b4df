"""Find the custom fields of a Jira export: sprint, story points, flag and epic differ on each site.

A field is found by the `names` of the export, by the names in the changelogs, or else by the shape of its
values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_POINTS: Final = re.compile(
    r"^(?:story ?points?(?: estimate)?|points?|sp|estimate \(?points\)?|aufwand(?:spunkte)?|storypunkte"
    r"|puntos(?: de historia)?|points d'effort|punti)$",
    re.IGNORECASE,
)
_FLAGGED: Final = re.compile(
    r"^(?:flagged|markiert|marqué|marcad[oa]|impediment|contrassegnato)$", re.IGNORECASE
)
_SPRINT: Final = re.compile(r"^(?:sprints?|iteration)$", re.IGNORECASE)
_EPIC: Final = re.compile(r"^(?:epic(?: link)?|epos-verknüpfung|parent link)$", re.IGNORECASE)
_CRITERIA: Final = re.compile(
    r"^(?:acceptance criteria|akzeptanzkriterien|abnahmekriterien|definition of done"
    r"|crit[eè]res d'acceptation"
    r"|criterios de aceptaci[oó]n)$",
    re.IGNORECASE,
)
_FLAG_VALUES: Final = (
    "impediment",
    "hindernis",
    "obstacle",
    "impedimento",
    "flagged",
    "blocked",
    "empêchement",
)
_KEY: Final = re.compile(r"^[A-Z][A-Z0-9_]+-\d+$")
_JAVA_SPRINT: Final = re.compile(r"\bstate=\w+.*\bname=", re.DOTALL)
MAX_POINTS: Final = 200


@dataclass(frozen=True, slots=True)
class ExportFields:
    """The ids of the custom fields that a review reads."""

    sprint: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    flagged: tuple[str, ...] = ()
    epic: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()


def find_fields(issues: Sequence[Mapping[str, Any]], names: Mapping[str, Any]) -> ExportFields:
    """Return the custom fields of an export; those found by name come first."""
    named = {**_collect_changelog_names(issues), **{id: str(name) for id, name in names.items()}}

    def find(pattern: re.Pattern[str], has_shape: Callable[[Any], bool]) -> tuple[str, ...]:
        by_name = [
            id for id, name in named.items() if pattern.match(name.strip()) and id.startswith("custom")
        ]
        by_shape = [
            id for id in _list_custom(issues) if id not in named and _has_shape(issues, id, has_shape)
        ]
        return tuple(dict.fromkeys(by_name + by_shape))

    points = tuple(id for id, name in named.items() if _POINTS.match(name.strip()))
    return ExportFields(
        sprint=find(_SPRINT, _is_sprint),
        points=points or _guess_points(issues, named),
        flagged=find(_FLAGGED, _is_flag),
        epic=find(_EPIC, lambda value: isinstance(value, str) and bool(_KEY.match(value))),
        criteria=find(_CRITERIA, lambda value: False),
    )


def _collect_changelog_names(issues: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the names of the custom fields in the changelogs, by id."""
    found = {}
    for item in _list_changed_fields(issues):
        id, name = item.get("fieldId"), item.get("field")
        if isinstance(id, str) and id.startswith("customfield_") and isinstance(name, str):
            found[id] = name
    return found


def _list_changed_fields(issues: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for issue in issues:
        changelog = issue.get("changelog")
        histories = changelog.get("histories") if isinstance(changelog, dict) else None
        for each in histories if isinstance(histories, list) else ():
            items = each.get("items") if isinstance(each, dict) else None
            yield from (item for item in items or () if isinstance(item, dict))


def _list_custom(issues: Iterable[Mapping[str, Any]]) -> list[str]:
    """List the ids of all custom fields that have a value somewhere."""
    counted = Counter(
        id
        for issue in issues
        for id, value in (issue.get("fields") or {}).items()
        if id.startswith("customfield_") and value not in (None, [], "")
    )
    return [id for id, _ in counted.most_common()]


def _list_values(issues: Iterable[Mapping[str, Any]], id: str) -> list[Any]:
    values = [(issue.get("fields") or {}).get(id) for issue in issues]
    return [each for each in values if each not in (None, [], "")]


def _has_shape(issues: Sequence[Mapping[str, Any]], id: str, has_shape: Callable[[Any], bool]) -> bool:
    values = _list_values(issues, id)
    return bool(values) and all(has_shape(each) for each in values)


def _is_sprint(value: Any) -> bool:
    """Return whether a value is a list of sprints: objects, or texts of Java objects on older servers."""
    if not isinstance(value, list):
        return False
    return all(
        (isinstance(each, dict) and "name" in each and ("state" in each or "boardId" in each))
        or (isinstance(each, str) and bool(_JAVA_SPRINT.search(each)))
        for each in value
    )


def _is_flag(value: Any) -> bool:
    """Return whether a value is a list of chosen options that say that a ticket is flagged."""
    if not isinstance(value, list):
        return False
    return all(
        isinstance(each, dict) and str(each.get("value", "")).strip().casefold() in _FLAG_VALUES
        for each in value
    )


def _guess_points(issues: Sequence[Mapping[str, Any]], named: Mapping[str, str]) -> tuple[str, ...]:
    """Return the most used unnamed field with small numbers, if any."""
    for id in _list_custom(issues):
        if id not in named and _has_shape(issues, id, _is_small_number):
            return (id,)
    return ()


def _is_small_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_POINTS
