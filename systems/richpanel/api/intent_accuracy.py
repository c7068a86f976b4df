"""Measure the intent classifier on texts it was not trained on.

python -m richpanel.api.intent_accuracy              the intents, by five-fold cross-validation
python -m richpanel.api.intent_accuracy FILE.csv     your own set, with the columns text and category
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

from holdfast.ai import Accuracy, Example, measure_accuracy
from holdfast.core.errors import InvalidRequest
from richpanel.domain.intents import load_examples, prepare_text


def load_labelled(file: Path) -> tuple[Example, ...]:
    """Load examples from a CSV file with the columns `text` and `category`. Raise `InvalidRequest` without
    them.
    """
    with file.open(encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    if not rows or not {"text", "category"} <= rows[0].keys():
        raise InvalidRequest(f"Invalid file {file}: expected rows with the columns text and category.")
    return tuple(Example(row["text"], row["category"]) for row in rows)


def format_report(found: Accuracy) -> str:
    """Format the accuracy as a table and a summary."""
    return (
        f"{found.to_markdown()}\n\nRight on {found.overall:.1%} of {len(found.outcomes)} texts it was not "
        "trained "
        f"on. It declined {found.unknown_share:.1%}; of the rest, {found.when_known:.1%} were right.\n"
    )


def main(arguments: Sequence[str]) -> None:
    """Measure the file in `arguments`, or the intents' own examples, and print the report."""
    chosen = load_labelled(Path(arguments[0])) if arguments else load_examples()
    sys.stdout.write(format_report(measure_accuracy(chosen, prepare=prepare_text)))


if __name__ == "__main__":
    main(sys.argv[1:])
