"""Measure intents and plans on a file of sentences with their expected outcomes.

    python -m tests.systems.tripcortex.unit.planner.measure FILE.jsonl [--list]

Each line is `{"sentence", "home", "now", "expected": {"intent", "plan", "ask", "ask_about"}}`. Only counts
are printed; `--list` adds each sentence that went wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from tripcortex.api.planning_command import read_request
from tripcortex.domain.planner import Question, Refusal, SentencePlanner

# The parts of a plan that must be equal. Carriers are compared as a set, prices as numbers.
FIELDS: Final = ("origin", "destination", "depart", "return", "cabin", "max_price", "carriers")
# Names of the planner's parts in the records.
PARTS: Final = {
    "depart": "departure_date",
    "date": "departure_date",
    "dates": "departure_date",
    "return": "return_date",
    "cabin": "cabin_class",
    "max_price": "budget",
}


@dataclass(frozen=True)
class Measured:
    """The outcome of one record: the group that it belongs to, what happened, and details of a mistake."""

    group: str
    verdict: str
    intent: str
    expected_intent: str
    detail: str
    record: dict[str, Any]


async def measure(record: dict[str, Any]) -> Measured:
    """Plan one record's sentence and compare the outcome with the expected one."""
    expected = record["expected"]
    now = datetime.fromisoformat(record["now"])
    reading = await read_request(SentencePlanner(), record["sentence"], record["home"], now)
    group, (verdict, detail) = _judge(expected, reading)
    if expected["intent"] != reading.intent.value:
        detail = f"intent {reading.intent.value} instead of {expected['intent']}; {detail}"
    return Measured(group, verdict, reading.intent.value, expected["intent"], detail, record)


def _judge(expected: dict[str, Any], reading: Any) -> tuple[str, tuple[str, str]]:
    """Return the record's group, the verdict and its details."""
    shown, question = reading.to_json(), reading.outcome
    text = shown["question"] or ""
    if expected["intent"] != "book":
        verdict = "planned" if shown["plan"] else "asked" if text else "no plan"
        return "not book", (verdict, text)
    if expected["plan"]:
        if shown["plan"] is None:
            return "complete", ("asked" if isinstance(question, Question) else "refused", text)
        wrong = list(_compare(expected["plan"], shown["plan"]))
        return "complete", ("wrong" if wrong else "right", ", ".join(wrong))
    if shown["plan"]:
        return "to ask", ("planned", json.dumps(shown["plan"]))
    about = expected.get("ask_about")
    part = PARTS.get(about or "", about)
    if isinstance(question, Question) and (about is None or part in question.missing):
        return "to ask", ("right", text)
    if about is None and isinstance(question, Refusal):
        # Another language, several travellers: the refusal asks the employee to say something else.
        return "to ask", ("right", text)
    if isinstance(question, Question):
        return "to ask", ("misleading", f"about {question.missing} instead of {about}: {text}")
    return "to ask", ("refused" if text else "not asked", f"{about}: {text}")


def _compare(expected: dict[str, Any], shown: dict[str, Any]) -> Iterator[str]:
    """Yield each difference of two plans."""
    for name in FIELDS:
        one, other = expected.get(name), shown[name]
        is_same = sorted(one or []) == sorted(other) if name == "carriers" else one == other
        if not is_same:
            yield f"{name} {other} instead of {one}"


def _print_counts(results: list[Measured]) -> None:
    for group in ("complete", "to ask", "not book"):
        verdicts = Counter(each.verdict for each in results if each.group == group)
        total = sum(verdicts.values())
        shares = ", ".join(f"{name} {count} ({count / total:.1%})" for name, count in verdicts.most_common())
        print(f"{group:9} {total:4}: {shares}")  # noqa: T201
    print("intents (expected → found):")  # noqa: T201
    found = Counter((each.expected_intent, each.intent) for each in results)
    for (expected, intent), count in sorted(found.items()):
        print(f"  {expected:7} → {intent:7} {count:4}{'' if expected == intent else '  wrong'}")  # noqa: T201


_GOOD: Final = {("complete", "right"), ("to ask", "right"), ("not book", "no plan")}


def main() -> None:
    """Measure the file that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--list", action="store_true", help="show each sentence that went wrong")
    given = parser.parse_args()
    lines = [each for each in given.file.read_text("utf-8").splitlines() if each.strip()]
    results = [asyncio.run(measure(json.loads(each))) for each in lines]
    _print_counts(results)
    if given.list:
        for each in results:
            if (each.group, each.verdict) not in _GOOD or each.intent != each.expected_intent:
                print(_format_mistake(each))  # noqa: T201


def _format_mistake(result: Measured) -> str:
    """Return two lines about a sentence that went wrong."""
    record = result.record
    sure = "" if record.get("certain", True) else " (uncertain)"
    about = f"home {record['home']}, now {record['now']}"
    return f"- [{result.group}: {result.verdict}]{sure} {record['sentence']!r} ({about})\n    {result.detail}"


if __name__ == "__main__":
    main()
