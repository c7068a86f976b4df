"""Measure the review of projects against labels: recall and precision of signals, and of RAID proposals.

    python -m benchmarks.agenticpm.review_cases FOLDER [--list] [--only even|odd]

The folder has one folder per project with `issues.json`, `sprints.json`, `mails`, `now.txt` and
`labels.json`: `{"health", "signals": [{"kind", "ticket"}], "raid": [{"kind", "ticket", "quote"}]}`. A signal
or proposal is right if a label has its kind and ticket; each label counts once. `--list` names what was
missed and what was wrong.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agenticpm.api.review_command import read_project, to_json
from agenticpm.domain.review.review import review

Fact = tuple[str, str | None]


@dataclass
class Score:
    """Counts of right, missed and wrong facts."""

    right: int = 0
    missed: int = 0
    wrong: int = 0
    details: list[str] = field(default_factory=list)

    @property
    def recall(self) -> float:
        return self.right / (self.right + self.missed) if self.right + self.missed else 1.0

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    def add(self, case: str, found: list[dict[str, Any]], expected: list[dict[str, Any]], text: str) -> None:
        """Compare what was found in a case with its labels."""
        has, wants = _count(found), _count(expected)
        self.right += (has & wants).total()
        self.missed += (wants - has).total()
        self.wrong += (has - wants).total()
        texts = {_get_fact(each): str(each.get(text) or "") for each in (*expected, *found)}
        for mark, facts in (("missed", wants - has), ("wrong", has - wants)):
            for fact in sorted(facts.elements(), key=str):
                self.details.append(f"{case}: {mark} {fact[0]} {fact[1]} {texts[fact]}")


def list_cases(folder: Path, only: str | None = None) -> Iterator[Path]:
    """Yield the folders of the cases; the even or the odd numbers only, if asked."""
    for each in sorted(folder.iterdir()):
        number = int(each.name.split("-")[0]) if each.name.split("-")[0].isdigit() else 0
        if (each / "labels.json").exists() and only in (None, "odd" if number % 2 else "even"):
            yield each


def run_case(case: Path) -> dict[str, Any]:
    """Return the review of a case as the command prints it."""
    sprints, mails = case / "sprints.json", case / "mails"
    project = read_project(
        case / "issues.json",
        sprints if sprints.exists() else None,
        mails if mails.is_dir() else None,
    )
    now = datetime.fromisoformat((case / "now.txt").read_text().strip().replace("Z", "+00:00"))
    return to_json(review(project, now if now.tzinfo else now.replace(tzinfo=UTC)))


def _count(facts: Iterable[dict[str, Any]]) -> Counter[Fact]:
    return Counter(_get_fact(each) for each in facts)


def _get_fact(fact: dict[str, Any]) -> Fact:
    return str(fact["kind"]), fact.get("ticket")


def main() -> None:
    """Measure all cases of a folder and print the totals."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--list", action="store_true", help="name what was missed and what was wrong")
    parser.add_argument("--only", choices=("even", "odd"), help="measure a part of the cases")
    options = parser.parse_args()
    signals, raid = Score(), Score()
    cases = list(list_cases(options.folder, options.only))
    healthy = 0
    for case in cases:
        labels, found = json.loads((case / "labels.json").read_text()), run_case(case)
        signals.add(case.name, found["signals"], labels["signals"], "evidence")
        raid.add(case.name, found["raid"], labels["raid"], "quote")
        is_equal = found["health"] == labels["health"]
        healthy += is_equal
        if not is_equal:
            signals.details.append(f"{case.name}: health {found['health']} instead of {labels['health']}")
    for name, score in (("signals", signals), ("raid", raid)):
        print(
            f"{name}: recall {score.recall:.3f} precision {score.precision:.3f} "
            f"(right {score.right}, missed {score.missed}, wrong {score.wrong})"
        )
    print(f"health: {healthy} of {len(cases)}")
    if options.list:
        print("\n".join(signals.details + raid.details))


if __name__ == "__main__":
    main()
