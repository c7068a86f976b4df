"""The changelog: its top version is the code's, its dates are in order, and other pages name its versions."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from packaging.version import Version

import holdfast
from tools.release.changelog import parse_changelog

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
CATEGORIES = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_top_version_is_the_version_of_the_code() -> None:
    assert parse_changelog(TEXT).releases[0].version == holdfast.__version__


def test_unreleased_changes_are_at_the_top() -> None:
    assert re.findall(r"^## (.+)$", TEXT, re.MULTILINE)[0] == "Unreleased"


def test_versions_and_dates_are_descending() -> None:
    for newer, older in pairwise(parse_changelog(TEXT).releases):
        assert Version(newer.version) > Version(older.version)
        assert newer.date >= older.date


def test_every_change_is_in_a_category_of_keep_a_changelog() -> None:
    assert set(re.findall(r"^### (.+)$", TEXT, re.MULTILINE)) <= CATEGORIES


def test_every_released_version_has_changes() -> None:
    for release in parse_changelog(TEXT).releases:
        assert re.search(r"^### .+\n(?:.*\n)*?- ", release.text, re.MULTILINE), release.version


def test_the_security_policy_supports_the_latest_minor_version() -> None:
    policy = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    latest = Version(holdfast.__version__)

    assert f"\n| {latest.major}.{latest.minor} | yes |\n" in policy
    assert policy.count(" | yes |") == 1
    assert f"git checkout v{latest.base_version}\n" in policy
