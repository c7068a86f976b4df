"""Measure how messages are read and routed, against labels that people wrote.

    python -m benchmarks.richpanel.mail_reading [FOLDER] [--list] [--only REGEX]

FOLDER has messages (`.eml`, or `.json` with subject and text) and `labels.jsonl`, one object per line: file,
own_text, language, automatic, intent (null: out of scope), safety, order_numbers, may_reply, certain. Without
FOLDER, the cases in `benchmarks/richpanel/cases/in_view` are measured. Only totals are printed; `--list`
prints each difference.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from richpanel.api.read_command import read_file
from richpanel.domain.intents import get_intent_classifier
from richpanel.domain.language import HOME_LANGUAGE
from richpanel.domain.routing import RISK_INTENTS, TEAMS, Team

IN_VIEW: Final = Path(__file__).parent / "cases" / "in_view"


@dataclass(frozen=True)
class Case:
    """One labelled message, and what the middleware reads in it."""

    label: dict[str, Any]
    found: dict[str, Any]

    @property
    def file(self) -> str:
        return str(self.label["file"])

    @property
    def is_risk(self) -> bool:
        return bool(self.label["safety"]) or self.label["intent"] in RISK_INTENTS

    @property
    def is_automatic(self) -> bool:
        return self.label["automatic"] is not None

    @property
    def is_home_language(self) -> bool:
        return bool(self.label["language"] == HOME_LANGUAGE)

    @property
    def wanted_team(self) -> Team:
        """The right team: risk for a risk, triage for what is out of scope or in another language."""
        if self.is_risk:
            return Team.risk
        if self.is_automatic or self.label["intent"] is None or not self.is_home_language:
            return Team.triage
        return TEAMS[self.label["intent"]]


def load_cases(folder: Path) -> list[Case]:
    """Load the labels of a folder and read each of its messages."""
    classifier = get_intent_classifier()
    lines = (folder / "labels.jsonl").read_text("utf-8").splitlines()
    labels = [json.loads(line) for line in lines if line.strip()]
    return [Case(each, read_file(folder / each["file"], classifier).to_json()) for each in labels]


def judge(case: Case) -> Iterator[tuple[str, bool | str]]:
    """Yield the checks that apply to a case, each with its result."""
    label, found = case.label, case.found
    yield "automatic mail", found["automatic"] == label["automatic"]
    yield "never replies where it may not", label["may_reply"] or not found["would_reply"]
    if case.is_automatic:
        return
    yield "own text", _normalise(found["text"]) == _normalise(label["own_text"])
    yield "language", found["language"] == label["language"]
    yield "order numbers", found["order_numbers"] == label["order_numbers"]
    language = "" if case.is_home_language else " (other languages)"
    is_risk = found["team"] == Team.risk
    if case.is_risk:
        yield f"risk to the risk team{language}", is_risk
        return
    yield f"no false risk{language}", not is_risk
    if not case.is_home_language:
        yield "other language to a person", found["team"] == Team.triage and not found["would_reply"]
    elif label["intent"] is None:
        yield "out of scope abstained", found["team"] == Team.triage
    else:
        yield "in scope", _judge_team(found["team"], case.wanted_team)


def _judge_team(team: str, wanted: Team) -> str:
    """Return `right`, `wrong`, or `abstained` for a message that went to triage and should not have."""
    if team == wanted:
        return "right"
    return "abstained" if team == Team.triage else "wrong"


def _normalise(text: str) -> str:
    return " ".join(text.split())


def format_totals(cases: list[Case]) -> str:
    """Return one line per check: how many cases passed, or the share of each result."""
    results: dict[str, Counter[bool | str]] = {}
    for case in cases:
        for name, result in judge(case):
            results.setdefault(name, Counter())[result] += 1
    lines = [f"{len(cases)} messages"]
    for name, counts in results.items():
        total = counts.total()
        shares = (
            f"{counts[True]} of {total} ({counts[True] / total:.1%})"
            if counts.keys() <= {True, False}
            else ", ".join(f"{each} {counts[each] / total:.1%}" for each in ("right", "wrong", "abstained"))
            + f" of {total}"
        )
        lines.append(f"{name:44} {shares}")
    return "\n".join(lines)


def list_differences(cases: list[Case], only: str) -> Iterator[str]:
    """Yield a line for each check that a case failed, if the check's name matches."""
    for case in cases:
        for name, result in judge(case):
            if result is not True and result != "right" and re.search(only, name):
                wanted = {
                    key: case.label[key] for key in ("language", "automatic", "intent", "order_numbers")
                }
                own = _normalise(case.label["own_text"])
                yield f"{case.file} {name}: {result}\n  wanted {wanted} {own!r}\n  found {case.found}"


def main() -> None:
    """Read the arguments, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=IN_VIEW)
    parser.add_argument("--list", action="store_true", help="print each difference")
    parser.add_argument("--only", default="", help="with --list: only checks whose name matches")
    arguments = parser.parse_args()
    cases = load_cases(arguments.folder)
    if arguments.list:
        sys.stdout.write("".join(f"{line}\n" for line in list_differences(cases, arguments.only)))
    sys.stdout.write(format_totals(cases) + "\n")


if __name__ == "__main__":
    main()
