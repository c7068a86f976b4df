"""Freeze the outer surface: every name that others rely on, as lists of lines in `golden/`.

    python -m tests.repo.surface --write        write the lists from the code as it is now
    python -m tests.repo.surface                print what differs from the lists

One function collects each list. A line names a thing as outsiders see it, so renaming code changes no
line, unless the code derives an outer name from a Python name. It does so for access patterns, tools,
operation ids, schemas and errors.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from tests.repo import data_lists, folder_lists, operator_lists, python_lists, web_lists

GOLDEN: Final = Path(__file__).parent / "golden"
MAX_LINES_SHOWN: Final = 40
HOW_TO_ACCEPT: Final = (
    "If this is on purpose, run `.venv/bin/python -m tests.repo.surface --write` "
    "and add a line to CHANGELOG.md."
)

LISTS: Final[dict[str, Callable[[], Iterable[str]]]] = {
    "commands": operator_lists.list_commands,
    "distribution": operator_lists.list_distribution,
    "metrics": operator_lists.list_metrics,
    "patterns": operator_lists.list_patterns,
    "python_names": python_lists.list_python_names,
    "settings": operator_lists.list_settings,
    "systems": operator_lists.list_system_parts,
    "errors": web_lists.list_errors,
    "mcp_tools": web_lists.list_mcp_tools,
    "openapi": web_lists.list_openapi,
    "openapi_names": web_lists.list_openapi_names,
    "wire_operations": web_lists.list_wire_operations,
    "cached_values": data_lists.list_cached_values,
    "cursors": data_lists.list_cursors,
    "documents": data_lists.list_documents,
    "enumerations": data_lists.list_enumerations,
    "flows": data_lists.list_flows,
    "objects": data_lists.list_objects,
    "queues": data_lists.list_queues,
    "stored_records": data_lists.list_stored_records,
    "tables": data_lists.list_tables,
    # These share one data folder that takes seconds to fill; next to each other, one test process runs them
    # all.
    "command_answers": folder_lists.list_command_answers,
    "data_files": folder_lists.list_data_files,
    "derived_files": folder_lists.list_derived_files,
    "retention": folder_lists.list_retention,
    "sql_schemas": folder_lists.list_sql_schemas,
}


def collect(name: str) -> list[str]:
    """Return a list from the code as it is now: sorted, each line once."""
    return sorted(set(LISTS[name]()))


def read_golden(name: str) -> list[str]:
    """Return a list as it was frozen."""
    lines: list[str] = json.loads(_find_file(name).read_text(encoding="utf-8"))
    return lines


def write_golden() -> list[str]:
    """Write every list to its file, delete the files of lists that are gone, and return the changed lists."""
    changed = []
    for file in GOLDEN.glob("*.json"):
        if file.stem not in LISTS:
            file.unlink()
    for name in LISTS:
        text = f"{json.dumps(collect(name), indent=0, ensure_ascii=False)}\n"
        file = _find_file(name)
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
            changed.append(name)
    return changed


def describe_difference(name: str) -> str | None:
    """Describe the lines that were removed from a list and added to it; return None if there are none."""
    frozen, current = set(read_golden(name)), set(collect(name))
    if frozen == current:
        return None
    paragraphs = [
        f"The outer surface changed: {name} differs from tests/repo/golden/{name}.json.",
        *_describe_lines("Removed", frozen - current),
        *_describe_lines("Added", current - frozen),
        HOW_TO_ACCEPT,
    ]
    return "\n\n".join(paragraphs)


def _describe_lines(what: str, lines: set[str]) -> Iterable[str]:
    """Yield one paragraph with the first lines and the number of all; nothing if there are none."""
    if lines:
        shown = [f"  {line}" for line in sorted(lines)[:MAX_LINES_SHOWN]]
        more = [f"  … and {len(lines) - MAX_LINES_SHOWN} more"] if len(lines) > MAX_LINES_SHOWN else []
        yield "\n".join([f"{what} ({len(lines)}):", *shown, *more])


def _find_file(name: str) -> Path:
    return GOLDEN / f"{name}.json"


def main(arguments: list[str]) -> int:
    """Write the lists, or print the differences and return 1 if there are any."""
    if arguments == ["--write"]:
        changed = write_golden()
        sys.stdout.write(f"Changed lists: {', '.join(changed) or 'none'}\n")
        return 0
    differences = [text for name in LISTS if (text := describe_difference(name))]
    sys.stdout.writelines(f"{text}\n\n" for text in differences)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
