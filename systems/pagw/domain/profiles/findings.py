"""What a check found: findings with the FHIRPath of their elements, without any content of the resource."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pagw.domain.fhir.outcomes import Code, Severity

# A path while it is being walked: the path above, the name, and the index in an array or -1.
At = tuple[Any, str, int] | None

# More findings help nobody, and each takes time.
MAX_FINDINGS: Final = 200


@dataclass(frozen=True, slots=True)
class Finding:
    """One deviation from a profile. `expressions` are the FHIRPaths of the elements, usually one."""

    severity: Severity
    code: Code
    text: str
    expressions: tuple[str, ...]


class TooManyFindings(Exception):
    """Ends a check that found `MAX_FINDINGS` deviations."""


@dataclass
class Findings:
    """Collects findings, each once."""

    _found: dict[tuple[str, str], Finding] = field(default_factory=dict)
    _unchecked: dict[str, dict[str, None]] = field(default_factory=dict)
    # How many errors were added so far, repeated ones included.
    errors: int = 0

    def add_error(self, code: Code, at: At, text: str) -> None:
        """Add an error. Raise `TooManyFindings` if there are too many."""
        self.errors += 1
        self._add("error", code, at, text)

    def add_warning(self, code: Code, at: At, text: str) -> None:
        """Add a warning. Raise `TooManyFindings` if there are too many."""
        self._add("warning", code, at, text)

    def add_unchecked_code(self, at: At, value_set: str) -> None:
        """Remember that a code could not be checked: one warning per value set names all paths."""
        self._unchecked.setdefault(value_set, {})[format_path(at)] = None

    def __iter__(self) -> Iterator[Finding]:
        yield from self._found.values()
        for value_set, paths in self._unchecked.items():
            text = f"the codes of value set {value_set} cannot be listed, so they are not checked"
            yield Finding("warning", "not-supported", text, tuple(paths))

    def _add(self, severity: Severity, code: Code, at: At, text: str) -> None:
        path = format_path(at)
        self._found.setdefault((path, text), Finding(severity, code, text, (path,)))
        if len(self._found) >= MAX_FINDINGS:
            raise TooManyFindings


def format_path(at: At) -> str:
    """Return the FHIRPath of an element, for example `Bundle.entry[0].resource.ofType(Claim).item[0]`."""
    parts: list[str] = []
    while at is not None:
        at, name, index = at
        parts.append(name if index < 0 else f"{name}[{index}]")
    return ".".join(reversed(parts))
