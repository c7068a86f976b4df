"""The code blocks of every page: Python runs as one script per page, console commands and options exist."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import all_cases
from tests.docs import pages
from tests.docs.commands import (
    is_system_command,
    list_command_names,
    list_options,
    list_system_command_options,
)

BLOCKS = {page: list(pages.parse_blocks(page)) for page in pages.list_pages()}
WITH_PYTHON = [page for page, found in BLOCKS.items() if any(block.language == "python" for block in found)]
TYPED = [
    (f"{pages.format_path(page)}:{block.line + offset}", line.removeprefix("$ "))
    for page, found in BLOCKS.items()
    for block in found
    if block.language == "console"
    for offset, line in enumerate(block.text.splitlines())
    if line.startswith("$ ")
]


@pytest.mark.parametrize("page", WITH_PYTHON, ids=pages.format_path)
def test_the_python_blocks_of_the_page_run_as_one_script(page: Path, tmp_path: Path) -> None:
    script = tmp_path / "blocks.py"
    script.write_text(_join_blocks(page), encoding="utf-8")
    work = tmp_path / "work"
    work.mkdir()

    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        cwd=work,
        env={name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, f"{pages.format_path(page)} (line numbers are the page's):\n{done.stderr}"


def test_a_block_that_does_not_run_says_why() -> None:
    """Such a block begins with `python no-run: the reason`."""
    assert [
        f"{pages.format_path(page)}:{block.line}"
        for page in WITH_PYTHON
        for block in BLOCKS[page]
        if block.language == "python" and block.note and not re.match(r"no-run: \w+", block.note)
    ] == []


@all_cases(("place", "line"), TYPED)
def test_the_console_blocks_use_existing_commands_and_options(place: str, line: str) -> None:
    for words in _split_commands(line):
        match words:
            case ["holdfast", *rest]:
                _check_holdfast(rest)
            case ["make", *targets]:
                assert {word for word in targets if "=" not in word} <= _read_make_targets()
            case _:
                pass


def _join_blocks(page: Path) -> str:
    """Join the page's Python blocks, keeping line numbers, so that a traceback points into the page."""
    lines: list[str] = []
    for block in BLOCKS[page]:
        if block.language == "python" and not block.note:
            lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    return "\n".join(lines) + "\n"


def _split_commands(line: str) -> list[list[str]]:
    """Split `a | b && c # why` into three commands, without the variables set in front of one."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set("();<>|&"):
            commands.append([])
        elif commands[-1] or not re.match(r"[A-Z_]+=", word):
            commands[-1].append(word.removeprefix(".venv/bin/"))
    return [words for words in commands if words]


def _check_holdfast(words: list[str]) -> None:
    """Fail if a `holdfast` line uses an unknown command or option."""
    if is_system_command(words):
        known = list_system_command_options(words)
        strangers = [word for word in words if word.startswith("--") and word.split("=")[0] not in known]
        assert not strangers, f"holdfast {' '.join(words)}: there is no {strangers[0]}"
        return
    command = next((word for word in words if word in list_command_names()), "")
    named = [word for word in words if not word.startswith("-")]
    assert command or not named, f"holdfast {' '.join(words)}: no such command"
    known = list_options("") | list_options(command)
    for word in words:
        assert not word.startswith("-") or word.split("=")[0] in known, f"{command} has no {word}"


def _read_make_targets() -> set[str]:
    """Return the documented targets of the Makefile."""
    makefile = (pages.ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):.*## ", makefile, flags=re.MULTILINE))
