"""Measure the intent classifier on texts it was not trained on.

python -m richpanel.api.intent_accuracy              the intents, by five-fold cross-validation
python -m richpanel.api.intent_accuracy FILE.csv     your own set, with the columns text and category
python -m richpanel.api.intent_accuracy --train      train the model of the intents again, after a change
                                                     of the examples
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

from holdfast.ai import Accuracy, Example, measure_accuracy, open_sentence_embedder
from holdfast.core.errors import InvalidRequest
from richpanel.domain.intents import (
    EXAMPLES_NOTE,
    MODEL_FILE,
    hash_examples,
    load_examples,
    prepare_text,
    train_intent_model,
)


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
    if list(arguments) == ["--train"]:
        train_model(Path(__file__).parents[1] / MODEL_FILE)
        return
    chosen = load_labelled(Path(arguments[0])) if arguments else load_examples()
    found = measure_accuracy(chosen, prepare=prepare_text, embedder=open_sentence_embedder())
    sys.stdout.write(format_report(found))


def train_model(file: Path) -> None:
    """Train the model on the examples and write it into the file."""
    examples = load_examples()
    train_intent_model(examples).save(file, {EXAMPLES_NOTE: hash_examples(examples)})
    sys.stdout.write(f"Trained on {len(examples)} examples: {file.name}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
