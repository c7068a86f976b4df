"""Measure the judgement of trips by the rules that are read from policies, against expected verdicts.

    python -m benchmarks.tripcortex.policy_judgements FOLDER [--list]

The folder has one folder per policy with `policy.md`, `policy.pdf` and `trips.json`: a list of objects with
`trip`, `verdict` and `approvers`. Every proposed rule counts as confirmed. Without `--list` only counts are
printed.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

from tripcortex.documents import open_parser
from tripcortex.domain.policy_rules.judgement import Judgement, Trip, judge_trip
from tripcortex.domain.policy_rules.proposals import propose_rules
from tripcortex.domain.policy_rules.rules import Outcome, PolicyRule

COLUMNS: Final = (
    "trips",
    "expected",
    "wider",
    "allowed_wrongly",
    "stricter",
    "compliant",
    "passed",
    "approvals",
    "approvers",
)


def read_rules(path: Path) -> tuple[PolicyRule, ...]:
    """Return the rules of a policy file."""
    body = path.read_bytes()
    return propose_rules(open_parser(path.name, body).parse(body, path.name))


def count(case: dict[str, Any], judgement: Judgement) -> Counter[str]:
    """Return the counts of one trip by the names in `COLUMNS`."""
    expected = Outcome(case["verdict"])
    found: Counter[str] = Counter(trips=1)
    found["expected"] = judgement.verdict is expected
    found["wider"] = judgement.verdict.rank < expected.rank
    found["allowed_wrongly"] = judgement.verdict is Outcome.allowed and expected is not Outcome.allowed
    found["stricter"] = judgement.verdict.rank > expected.rank
    found["compliant"] = expected is Outcome.allowed
    found["passed"] = expected is judgement.verdict is Outcome.allowed
    if expected is judgement.verdict is Outcome.approval:
        found["approvals"] = 1
        found["approvers"] = normalize(judgement.approvers) == normalize(case["approvers"])
    return found


def normalize(approvers: Any) -> set[str]:
    """Return the approvers for comparison: lower case, without articles and punctuation."""
    return {
        re.sub(r"\b(?:the|a|an|your|their|of|department|line|one)\b|[^a-z0-9 ]", "", each.casefold()).strip()
        for each in approvers
    }


def main() -> None:
    """Measure each policy, in Markdown and as PDF."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--list", action="store_true", help="print each trip that is judged differently")
    options.add_argument("--only", default="", help="a part of the names of the policies to measure")
    options.add_argument("--format", default="md,pdf")
    chosen = options.parse_args()
    for suffix in chosen.format.split(","):
        total: Counter[str] = Counter()
        print(f"{suffix:24}", *(f"{column:>9.9}" for column in COLUMNS))
        for folder in sorted(each.parent for each in chosen.folder.glob("*/trips.json")):
            if chosen.only in folder.name and (folder / f"policy.{suffix}").exists():
                total += measure(folder, suffix, is_listed=chosen.list)
        print_counts("total", total)


def measure(folder: Path, suffix: str, *, is_listed: bool) -> Counter[str]:
    """Measure one policy and print its counts."""
    rules = read_rules(folder / f"policy.{suffix}")
    found: Counter[str] = Counter()
    for case in json.loads((folder / "trips.json").read_text()):
        judgement = judge_trip(rules, Trip.model_validate(case["trip"]))
        counts = count(case, judgement)
        found += counts
        is_off = not counts["expected"] or counts["approvals"] > counts["approvers"]
        if is_listed and is_off:
            print_case(case, judgement)
    print_counts(folder.name, found)
    return found


def print_counts(name: str, counts: Counter[str]) -> None:
    print(f"{name:24.24}", *(f"{counts[column]:>9}" for column in COLUMNS), flush=True)


def print_case(case: dict[str, Any], judgement: Judgement) -> None:
    """Print a trip that is judged differently, with the reasons of both sides."""
    trip = case["trip"]
    mark = "" if case.get("certain", True) else " (uncertain)"
    print("   ", " ".join(str(value) for value in trip.values()))
    print(f"      expected {case['verdict']} {case['approvers']}{mark}: {case['why']}")
    print(
        f"      judged   {judgement.verdict} {list(judgement.approvers)} uncovered "
        f"{list(judgement.uncovered)}"
    )
    for breach in judgement.breaches:
        quote = breach.citation.quote if breach.citation else ""
        print(f"        {breach.severity} {breach.code} {breach.approvers}: {(quote or '')[:150]}")


if __name__ == "__main__":
    main()
