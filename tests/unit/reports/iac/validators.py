"""Validators of generated files: cfn-lint, an HCL parser, and the rules of Terraform's formatter."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import hcl2
from cfnlint.config import ConfigMixIn
from cfnlint.decode.decode import decode_str
from cfnlint.runner import Runner


def find_lint_errors(text: str) -> list[str]:
    """Return what cfn-lint reports for a template, each as its rule and message."""
    template, errors = decode_str(text)
    found = errors or _load_linter().validate_template(template)
    return [f"{each.rule.id} {each.message}" for each in found]


@cache
def _load_linter() -> Runner:
    """Load the rules once: they take longer than a small template."""
    return Runner(ConfigMixIn(regions=["us-east-1", "eu-central-1"]))


@cache
def parse_hcl(text: str) -> dict[str, Any]:
    """Parse the file and unquote its texts."""
    parsed: Any = hcl2.loads(text)
    found: dict[str, Any] = _unquote(parsed)
    return found


def _unquote(value: Any) -> Any:
    """Remove the quotes and block markers that the parser leaves in names and texts."""
    if isinstance(value, dict):
        return {_unquote(name): _unquote(inner) for name, inner in value.items() if name != "__is_block__"}
    if isinstance(value, list):
        return [_unquote(inner) for inner in value]
    return json.loads(value) if isinstance(value, str) and re.fullmatch(r'".*"', value) else value


def get_resources(text: str, type: str) -> dict[str, dict[str, Any]]:
    """Return the resources of a type in a file, by name."""
    found = [each[type] for each in parse_hcl(text)["resource"] if type in each]
    return {name: body for each in found for name, body in each.items()}


def find_format_errors(text: str) -> list[str]:
    """List what a formatter would change: indent, alignment, blank lines, trailing spaces."""
    lines = text.splitlines()
    found = [line for line in lines if line != line.rstrip()]
    depth = 0
    for number, line in enumerate(lines):
        depth -= line.strip()[:1] in ("}", "]")
        if line and not line.startswith("#") and len(line) - len(line.lstrip()) != 2 * depth:
            found.append(f"{number + 1}: indent of {line!r}")
        after = lines[number + 1].strip() if number + 1 < len(lines) else "}"
        if line.strip() in ("}", "]") and after not in ("", "}", "]"):
            found.append(f"{number + 1}: no blank line after {line!r}")
        depth += line.endswith(("{", "["))
    return found + [
        f"alignment of {run}" for run in _group_assignments(lines) if len({at for at, _ in run}) > 1
    ]


def _group_assignments(lines: list[str]) -> list[list[tuple[int, str]]]:
    """Group adjacent one-line assignments, with the column of their sign."""
    runs: list[list[tuple[int, str]]] = [[]]
    for line in lines:
        assigned = re.match(r"( *[\w]+ +)= .*[^\[{]$", line)
        if assigned:
            runs[-1].append((len(assigned[1]), line))
        else:
            runs.append([])
    return runs
