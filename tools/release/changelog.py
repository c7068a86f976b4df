"""Read the versions in CHANGELOG.md: each with its number, its date and its text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Final

HEADING: Final = re.compile(r"^## (?P<title>.+)$", re.MULTILINE)
RELEASE: Final = re.compile(r"\[?(?P<version>\d+\.\d+\.\d+\S*?)\]? - (?P<date>\d{4}-\d{2}-\d{2})")


@dataclass(frozen=True, slots=True)
class Release:
    """One released version."""

    version: str
    date: date
    text: str


@dataclass(frozen=True, slots=True)
class Changelog:
    """The text under "Unreleased", and the released versions in the order of the file."""

    unreleased: str
    releases: tuple[Release, ...]

    def find(self, version: str) -> Release | None:
        """Return the release with this version, or None."""
        return next((each for each in self.releases if each.version == version), None)


def parse_changelog(text: str) -> Changelog:
    """Parse a changelog.

    Raise `ValueError` for a heading that is neither "Unreleased" nor a version with its date.
    """
    parts = HEADING.split(text)
    unreleased = ""
    releases = []
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        heading = RELEASE.fullmatch(title.strip())
        if heading:
            day = date.fromisoformat(heading["date"])
            releases.append(Release(heading["version"], day, body.strip()))
        elif title.strip() in ("Unreleased", "[Unreleased]"):
            unreleased = body.strip()
        else:
            raise ValueError(
                f"Invalid heading '## {title}' in CHANGELOG.md: expected '## Unreleased' "
                f"or '## 1.2.3 - 2026-01-31'."
            )
    return Changelog(unreleased, tuple(releases))
