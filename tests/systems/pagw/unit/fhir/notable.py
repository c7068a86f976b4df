"""Issues without those that every request of real codes has."""

from __future__ import annotations

from collections.abc import Iterable

from pagw.domain.fhir.outcomes import Issue


def select_notable(issues: Iterable[Issue]) -> list[Issue]:
    """Return the issues but for the warnings that a value set, such as X12's, cannot be listed."""
    return [each for each in issues if each.is_error or "cannot be listed" not in each.diagnostics]
