"""Follow a tutorial as a reader does: write its files, type its commands, compare the output with the page.

Only what needs a network is left out: the virtual environment is the one the tests run in, and `pip install
-e` becomes a record of the entry point that the project's `pyproject.toml` declares. A line of output on the
page must come out of its command; an ellipsis matches any text. A quoted block must be in its file.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import tomllib
from itertools import takewhile
from pathlib import Path

import httpx

from tests.docs import pages

FILE_OF_BLOCK = re.compile(r"(?:no-run: )?the file (\S+)")
QUOTED_FILE = re.compile(r"no-run: from the file (\S+)")
# They need a package index, or make what the test has already.
NOT_TYPED_HERE = ("pip install", "python3 -m venv")
SERVERS = ("holdfast run", "holdfast serve", "holdfast up")
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
MAX_SECONDS = 120


def follow(page: Path, folder: Path) -> Reader:
    """Follow the page to its end in an empty folder and return the reader."""
    reader = Reader(folder)
    try:
        for block in pages.parse_blocks(page):
            if named := FILE_OF_BLOCK.fullmatch(block.note):
                reader.write(named[1], block)
            elif quoted := QUOTED_FILE.fullmatch(block.note):
                reader.compare(quoted[1], block)
            elif block.language == "console":
                reader.type_in(block)
    finally:
        reader.stop()
    return reader


class Reader:
    """A reader who follows a page. `env` and `folder` are those of the terminal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HOLDFAST_", "AWS_", "PYTEST_"))
        }
        ports = {f"HOLDFAST_{each}_PORT": "0" for each in ("API", "SERVE", "CONSOLE")}
        self.env |= ports | {"COLUMNS": "200"}
        self.env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        # The running servers by their command: a reader stops `holdfast run` before running it again.
        self._servers: dict[str, subprocess.Popen[str]] = {}
        # Where the page says that a server answers, and where it does: any free port will do.
        self._addresses: dict[str, str] = {}

    def write(self, name: str, block: pages.Block) -> None:
        """Write the file of a block, or apply the block to the file if it is a diff."""
        path = self.folder / name
        if block.language != "diff":
            path.write_text(block.text, encoding="utf-8")
            return
        text = path.read_text(encoding="utf-8")
        for hunk in block.text.split("@@\n"):
            before, after = _split_hunk(hunk)
            assert text.count(before) == 1, (
                f"{_describe_location(block)}: these lines are not once in {name}:\n{before}"
            )
            text = text.replace(before, after)
        path.write_text(text, encoding="utf-8")

    def compare(self, name: str, block: pages.Block) -> None:
        """Fail if the file does not contain the text of the block."""
        text = (self.folder / name).read_text(encoding="utf-8")
        assert block.text in text, f"{_describe_location(block)}: {name} does not contain these lines"

    def type_in(self, block: pages.Block) -> None:
        """Type each command of a console block and check the output that follows it on the page."""
        lines = block.text.splitlines()
        for number, line in enumerate(lines):
            if line.startswith("$ "):
                shown = list(takewhile(lambda each: not each.startswith("$ "), lines[number + 1 :]))
                self._type_line(
                    line.removeprefix("$ "), shown, f"{block.page.name}:{block.line + number}: {line}"
                )

    def _type_line(self, line: str, shown: list[str], place: str) -> None:
        """Run, start, install, set or fetch as the line says; `shown` is the output on the page."""
        for page_address, address in self._addresses.items():
            line = line.replace(page_address, address)
        if line.startswith(SERVERS):
            self._start(line, shown, place)
        elif line.startswith("pip install -e"):
            self._install()
        elif line.startswith(("export ", "unset ")):
            self._set(shlex.split(line))
        elif line.startswith("curl "):
            _assert_shown(shown, _fetch(shlex.split(line)), place)
        elif not line.startswith(NOT_TYPED_HERE):
            done = self.run(line)
            assert done.returncode == 0, f"{place}\n{done.stdout}{done.stderr}"
            _assert_shown(shown, done.stdout, place)
            if changed := re.search(r"(?:^|&& )cd (\S+)$", line):
                self.folder /= changed[1]

    def run(self, line: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a shell command in the folder, with the reader's environment and these variables."""
        return subprocess.run(
            ["sh", "-c", line],
            cwd=self.folder,
            env=self.env | variables,
            capture_output=True,
            text=True,
            timeout=MAX_SECONDS,
            check=False,
        )

    def _set(self, words: list[str]) -> None:
        """Do what `export` or `unset` does."""
        if words[0] == "unset":
            del self.env[words[1]]
        else:
            self.env |= dict(word.split("=", 1) for word in words[1:])

    def _install(self) -> None:
        """Record the entry points of the folder's pyproject.toml, as an editable install does."""
        project = tomllib.loads((self.folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        name, version = project["name"], project["version"]
        record = self.folder.parent / "installed" / f"{name}-{version}.dist-info"
        record.mkdir(parents=True)
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (record / "METADATA").write_text(metadata, encoding="utf-8")
        groups = project["entry-points"].items()
        points = [
            f"[{group}]\n" + "".join(f"{n} = {v}\n" for n, v in named.items()) for group, named in groups
        ]
        (record / "entry_points.txt").write_text("\n".join(points), encoding="utf-8")
        code = self.folder / "src" if (self.folder / "src").is_dir() else self.folder
        paths = [str(record.parent), str(code), os.environ.get("PYTHONPATH", "")]
        self.env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))

    def _start(self, line: str, shown: list[str], place: str) -> None:
        """Start a server, wait until it has printed the lines of the page, and note its real addresses."""
        command = " ".join(line.split()[:2])
        self.stop(command)
        process = subprocess.Popen(
            shlex.split(line),
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._servers[command] = process
        assert process.stdout is not None
        said = ""
        # A server that stays silent is killed, so that the read below ends.
        limit = threading.Timer(MAX_SECONDS, process.kill)
        limit.start()
        for each in shown:
            wanted = _make_pattern(ADDRESS.sub("ADDRESS", each)).replace("ADDRESS", f"({ADDRESS.pattern})")
            while not (found := re.search(wanted, said)):
                heard = process.stdout.readline()
                assert heard, f"{place}\nended before it said {each!r}:\n{said}"
                said += heard
            self._addresses |= dict(zip(ADDRESS.findall(each), found.groups(), strict=True))
        limit.cancel()

    def stop(self, *commands: str) -> None:
        """Interrupt these servers, or all without an argument; fail if one does not exit with 0."""
        for command in commands or list(self._servers):
            if process := self._servers.pop(command, None):
                with process:
                    process.send_signal(signal.SIGINT)
                    said = process.communicate(timeout=MAX_SECONDS)[0]
                    assert process.returncode == 0, said


def _split_hunk(hunk: str) -> tuple[str, str]:
    """Return the lines that a hunk removes, and the lines that replace them."""
    lines = [line if line else " " for line in hunk.splitlines()]
    before = [line[1:] for line in lines if line[0] in " -"]
    after = [line[1:] for line in lines if line[0] in " +"]
    return "\n".join(before) + "\n", "\n".join(after) + "\n"


def _fetch(words: list[str]) -> str:
    """Make the request of a `curl` command and return the body."""
    method, headers, body, url = "GET", dict[str, str](), "", ""
    rest = iter(words[1:])
    for word in rest:
        match word:
            case "-s":
                pass
            case "-X":
                method = next(rest)
            case "-H":
                name, value = next(rest).split(": ", 1)
                headers[name] = value
            case "-d":
                body = next(rest)
            case _:
                url = word
    return httpx.request(method, url, headers=headers, content=body).text


def _assert_shown(shown: list[str], said: str, place: str) -> None:
    """Fail if a line of the page is not in the output; `place` is where on the page."""
    for line in shown:
        assert re.search(_make_pattern(line), said), f"{place}\nsaid\n{said}\nand the page shows\n{line}"


def _make_pattern(line: str) -> str:
    """Return a regular expression for a line of the page; an ellipsis matches any text."""
    return ".*".join(re.escape(part) for part in line.split("…"))


def _describe_location(block: pages.Block) -> str:
    return f"{block.page.name}:{block.line}"
