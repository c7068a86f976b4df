"""How often the intent classifier is right on what it has not seen.

python -m richpanel.measuring              the intents, in five parts
python -m richpanel.measuring FILE.csv     a set of your own, with the columns text and category
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

from holdfast.ai import Accuracy, Example, measure
from holdfast.errors import InvalidRequest
from richpanel.intents import examples, prepared


def labelled(file: Path) -> tuple[Example, ...]:
    """Examples from a table with the columns `text` and `category`."""
    with file.open(encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    if not rows or not {"text", "category"} <= rows[0].keys():
        raise InvalidRequest(f"{file} has no rows with the columns text and category.")
    return tuple(Example(row["text"], row["category"]) for row in rows)


def report(found: Accuracy) -> str:
    return (
        f"{found.table()}\n\nRight on {found.of_all:.1%} of {len(found.outcomes)} texts it was not trained on. It "
        f"declined to say on {found.declined:.1%}; of what it said, {found.of_given:.1%} was right.\n"
    )


def main(arguments: Sequence[str]) -> None:
    chosen = labelled(Path(arguments[0])) if arguments else examples()
    sys.stdout.write(report(measure(chosen, prepare=prepared)))


if __name__ == "__main__":
    main(sys.argv[1:])
