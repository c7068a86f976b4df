"""The tutorial can be followed: its files are written, its commands typed, in an empty folder, from top to bottom.

Only what needs a network is left out: the virtual environment is the one the tests run in, and `pip install -e .`
becomes a record of the entry point that the page's own `pyproject.toml` declares. A line of output on the page must
come out of its command; an ellipsis stands for whatever is between.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from itertools import takewhile
from pathlib import Path

import httpx
import pytest

from tests.docs import pages

PAGE = pages.DOCS / "tutorial.md"
BLOCKS = list(pages.blocks(PAGE))
FILE_OF_BLOCK = re.compile(r"(?:no-run: )?the file (\S+)")
# They need a package index, or make what the test has already.
NOT_TYPED_HERE = ("pip install", "python3 -m venv")
SERVERS = ("holdfast run", "holdfast serve", "holdfast up")
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
SECONDS_MAX = 120


class Reader:
    """Somebody who does what the page says. `env` and `folder` are those of their terminal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HOLDFAST_", "AWS_", "PYTEST_"))
        }
        self.env |= {"HOLDFAST_API_PORT": "0", "HOLDFAST_SERVE_PORT": "0", "COLUMNS": "200"}
        self.env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._servers: list[subprocess.Popen[str]] = []
        # Where the page says that a server answers, and where it does: any free port will do.
        self._addresses: dict[str, str] = {}

    def write(self, name: str, block: pages.Block) -> None:
        path = self.folder / name
        if block.language != "diff":
            path.write_text(block.text, encoding="utf-8")
            return
        text = path.read_text(encoding="utf-8")
        for hunk in block.text.split("@@\n"):
            before, after = _sides(hunk)
            assert text.count(before) == 1, f"{_place(block)}: these lines are not once in {name}:\n{before}"
            text = text.replace(before, after)
        path.write_text(text, encoding="utf-8")

    def type_in(self, block: pages.Block) -> None:
        lines = block.text.splitlines()
        for number, line in enumerate(lines):
            if line.startswith("$ "):
                shown = list(takewhile(lambda each: not each.startswith("$ "), lines[number + 1 :]))
                self._type_line(line.removeprefix("$ "), shown, f"{PAGE.name}:{block.line + number}: {line}")

    def _type_line(self, line: str, shown: list[str], place: str) -> None:
        for page_address, address in self._addresses.items():
            line = line.replace(page_address, address)
        if line.startswith(SERVERS):
            self._start(line, shown, place)
        elif line.startswith("pip install -e"):
            self._install()
        elif line.startswith(("export ", "unset ")):
            self._set(shlex.split(line))
        elif line.startswith("curl "):
            _assert_shown(shown, _fetched(shlex.split(line)), place)
        elif not line.startswith(NOT_TYPED_HERE):
            done = self.run(line)
            assert done.returncode == 0, f"{place}\n{done.stdout}{done.stderr}"
            _assert_shown(shown, done.stdout, place)
            if changed := re.search(r"&& cd (\S+)$", line):
                self.folder /= changed[1]

    def run(self, line: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", line],
            cwd=self.folder,
            env=self.env | variables,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )

    def _set(self, words: list[str]) -> None:
        if words[0] == "unset":
            del self.env[words[1]]
        else:
            self.env |= dict(word.split("=", 1) for word in words[1:])

    def _install(self) -> None:
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
        self.env["PYTHONPATH"] = os.pathsep.join([str(record.parent), str(self.folder)])

    def _start(self, line: str, shown: list[str], place: str) -> None:
        self.stop()
        process = subprocess.Popen(
            shlex.split(line),
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._servers.append(process)
        assert process.stdout is not None
        said = ""
        for each in shown:
            wanted = _as_pattern(ADDRESS.sub("ADDRESS", each)).replace("ADDRESS", f"({ADDRESS.pattern})")
            while not (found := re.search(wanted, said)):
                heard = process.stdout.readline()
                assert heard, f"{place}\nended before it said {each!r}:\n{said}"
                said += heard
            self._addresses |= dict(zip(ADDRESS.findall(each), found.groups(), strict=True))

    def stop(self) -> None:
        while self._servers:
            with self._servers.pop() as process:
                process.send_signal(signal.SIGINT)
                said = process.communicate(timeout=SECONDS_MAX)[0]
                assert process.returncode == 0, said


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """Somebody who has followed the page to its end."""
    reader = Reader(tmp_path_factory.mktemp("tutorial"))
    try:
        for block in BLOCKS:
            if named := FILE_OF_BLOCK.fullmatch(block.note):
                reader.write(named[1], block)
            elif block.language == "console":
                reader.type_in(block)
    finally:
        reader.stop()
    return reader


def test_every_block_of_the_page_is_a_file_or_is_typed() -> None:
    for block in BLOCKS:
        known = FILE_OF_BLOCK.fullmatch(block.note) or block.language in {"console", "json"}
        assert known, f"{_place(block)}: nothing tries this block"


def test_the_page_can_be_followed_from_an_empty_folder_to_holdfast_up(reader: Reader) -> None:
    written = {path.name for path in (reader.folder / "build").iterdir()}

    assert written == {"docs", "cloudformation", "terraform", "iam"}
    assert all(any(path.iterdir()) for path in (reader.folder / "build").iterdir())


def test_what_a_client_is_told_to_start_is_what_the_page_starts() -> None:
    (server,) = (
        json.loads(block.text)["mcpServers"]["parcels"] for block in BLOCKS if block.language == "json"
    )

    typed = shlex.join([server["command"], *server["args"]])
    assert any(typed in block.text for block in BLOCKS if block.language == "console")


def test_the_script_run_again_finds_the_parcel_there(reader: Reader) -> None:
    again = reader.run("python try_it.py")

    assert again.returncode == 1
    assert "ConditionFailed" in again.stderr


def test_the_mended_file_of_rejects_is_imported_as_it_is(reader: Reader) -> None:
    mended = (reader.folder / "monday.csv.rejects.csv").read_text(encoding="utf-8").replace("heavy", "700")
    (reader.folder / "mended.csv").write_text(mended, encoding="utf-8")

    done = reader.run("holdfast import parcels Parcels mended.csv --strict")

    assert done.returncode == 0, done.stderr


def test_a_rate_without_its_volume_is_an_error_of_the_design(reader: Reader, tmp_path: Path) -> None:
    declared = (reader.folder / "parcels" / "__init__.py").read_text(encoding="utf-8")
    without = re.sub(r' *"import": Volume.*\n', "", declared)
    _copy(reader.folder / "parcels", tmp_path / "parcels")
    (tmp_path / "parcels" / "__init__.py").write_text(without, encoding="utf-8")

    path = reader.env["PYTHONPATH"].replace(str(reader.folder), str(tmp_path))
    done = reader.run(f"cd {shlex.quote(str(tmp_path))} && holdfast check parcels", PYTHONPATH=path)

    assert without != declared
    assert done.returncode == 1
    assert "import" in done.stdout


def test_the_policy_of_the_intake_cannot_read(reader: Reader) -> None:
    (policy,) = (reader.folder / "build" / "iam").glob("*intake*")

    statements = json.loads(policy.read_text(encoding="utf-8"))["Statement"]
    actions = {action for each in statements for action in each["Action"]}
    assert actions
    assert not {f"dynamodb:{name}" for name in ("GetItem", "BatchGetItem", "Query", "Scan")} & actions


@pytest.mark.parametrize("mistake", re.findall(r"`([^`]+)`", pages.sections(PAGE, 2)["13. Types"])[:2])
def test_the_mistakes_that_the_page_names_fail_in_the_type_check(reader: Reader, mistake: str) -> None:
    known = "from parcels.model import Parcel, ParcelId, RoundId\nfrom parcels.patterns import parcel\n"
    wrong = reader.folder / "wrong.py"
    wrong.write_text(f"{known}parcel_id = ParcelId('P-1')\n{mistake}\n", encoding="utf-8")

    done = reader.run("mypy wrong.py")

    assert done.returncode == 1
    assert re.findall(r"^wrong\.py:(\d+): error", done.stdout, flags=re.MULTILINE) == ["4"]


def _sides(hunk: str) -> tuple[str, str]:
    """The lines that a hunk finds, and the lines it leaves in their place."""
    lines = [line if line else " " for line in hunk.splitlines()]
    before = [line[1:] for line in lines if line[0] in " -"]
    after = [line[1:] for line in lines if line[0] in " +"]
    return "\n".join(before) + "\n", "\n".join(after) + "\n"


def _fetched(words: list[str]) -> str:
    """What `curl` would print."""
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
    for line in shown:
        assert re.search(_as_pattern(line), said), f"{place}\nsaid\n{said}\nand the page shows\n{line}"


def _as_pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split("…"))


def _place(block: pages.Block) -> str:
    return f"{PAGE.name}:{block.line}"


def _copy(source: Path, target: Path) -> None:
    target.mkdir()
    for path in source.glob("*.py"):
        (target / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
