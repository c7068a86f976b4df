"""`python -m tripcortex.parsing FILE`: what a document is taken apart into, for a person to look at."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .opening import opened
from .pdf import PAGES_MAX
from .ports import DocumentRefused, ParsedEntity, Progress


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _arguments(arguments)
    try:
        body = asked.file.read_bytes()
        parser = opened(asked.file.name, body, pages_max=asked.pages_max)
        entities = parser.parse(body, asked.file.name, progress=_progress())
        _shown_as_json(entities) if asked.json else _shown_as_table(entities)
    except (DocumentRefused, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tripcortex.parsing", description="Takes a policy document apart."
    )
    parser.add_argument("file", type=Path, help="a PDF or a Markdown file")
    parser.add_argument("--json", action="store_true", help="one entity on each line, whole")
    parser.add_argument("--pages-max", type=int, default=PAGES_MAX, help="more pages than this are refused")
    return parser.parse_args(arguments)


def _progress() -> Progress | None:
    if not sys.stderr.isatty():
        return None

    def told(page: int, pages: int) -> None:
        sys.stderr.write(f"\rpage {page} of {pages}" + ("\n" if page == pages else ""))

    return told


def _shown_as_table(entities: Iterator[ParsedEntity]) -> None:
    table = Table("no.", "page", "kind", "section", "text")
    for entity in entities:
        table.add_row(
            str(entity.reading_order),
            str(entity.page or ""),
            entity.subtype,
            entity.section_title or "",
            entity.text,
            end_section=True,
        )
    Console().print(table)


def _shown_as_json(entities: Iterator[ParsedEntity]) -> None:
    for entity in entities:
        sys.stdout.write(json.dumps(_as_json(entity), ensure_ascii=False) + "\n")


def _as_json(entity: ParsedEntity) -> dict[str, Any]:
    return {
        "reading_order": entity.reading_order,
        "page": entity.page,
        "content_type": entity.content_type,
        "subtype": entity.subtype,
        "section_title": entity.section_title,
        "entity_id": entity.entity_id,
        "text": entity.text,
        "crop_bytes": len(entity.crop) if entity.crop else 0,
        "metadata": entity.metadata(),
    }


if __name__ == "__main__":
    sys.exit(main())
