"""`holdfast new`: create a folder with a system of your own, from a template that runs and has tests.

The template is the folder `templates/system`. Each file is copied without its suffix `.txt`, and placeholders
such as `{{name}}` are replaced in its path and its text.
"""

from __future__ import annotations

import importlib.util
import json
import keyword
import re
import shlex
import shutil
import sys
import unicodedata
from collections.abc import Collection, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from holdfast import __version__
from holdfast.cli.usage_error import UsageError
from holdfast.core.errors import SettingsError
from holdfast.core.rng import make_hex_token

TEMPLATE: Final = Path(__file__).parents[1] / "templates" / "system"
# With it, the files are neither packages nor modules of Holdfast, and the wheel contains them.
TEMPLATE_SUFFIX: Final = ".txt"
# The template's name of a file that starts with a dot, which a wheel leaves out.
DOT: Final = "dot_"

NAME_FORMAT: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
MAX_NAME_CHARACTERS: Final = 40
# The new system and its tools need these, also if they are not installed yet.
IMPORTED_NAMES: Final = frozenset(
    {
        "anyio",
        "fastapi",
        "httptools",
        "httpx2",
        "mypy",
        "pluggy",
        "pydantic",
        "pytest",
        "ruff",
        "starlette",
        "tests",
        "uvicorn",
        "uvloop",
    }
)


def new(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the system and its package.")],
    path: Annotated[
        Path, typer.Option("--path", metavar="DIR", help="Create the folder NAME in this folder.")
    ] = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="Print the paths of the files as JSON.")] = False,
) -> None:
    """Create a new system from a template, with tests."""
    target = path / name
    _check_name(name)
    _check_target(path, target)
    root: Any = ctx.find_root()
    _check_is_free(name, root.command.list_commands(root))
    files = render_template(name)
    _write_folder(target, files)
    if as_json:
        typer.echo(json.dumps([str(target / file) for file in files], indent=2))
    else:
        _print_next_steps(target, files)


def render_template(name: str) -> dict[str, str]:
    """Return the text of each file of a system with this name, by its path in the system's folder."""
    major, minor, *_ = __version__.split(".")
    values = {
        "name": name,
        "title": name.replace("_", " ").capitalize(),
        "distribution": name.replace("_", "-"),
        "requirement": f"holdfast-state[api]>={__version__},<{major}.{int(minor) + 1}",
    }
    files: dict[str, str] = {}
    for file in sorted(TEMPLATE.rglob(f"*{TEMPLATE_SUFFIX}")):
        path = file.relative_to(TEMPLATE).as_posix().removesuffix(TEMPLATE_SUFFIX).replace(DOT, ".")
        files[_fill(path, values)] = _fill(file.read_text(encoding="utf-8"), values)
    return files


def _fill(text: str, values: Mapping[str, str]) -> str:
    """Return the text with its placeholders replaced."""
    for placeholder, value in values.items():
        text = text.replace("{{" + placeholder + "}}", value)
    return text


def _check_name(name: str) -> None:
    """Raise `UsageError` if the name is not one that every system may have."""
    if not NAME_FORMAT.fullmatch(name) or len(name) > MAX_NAME_CHARACTERS:
        raise UsageError(
            f"Invalid name {name!r}: expected a Python package name, up to {MAX_NAME_CHARACTERS} lower-case "
            f"letters, digits and single underscores, starting with a letter.{_suggest(name)}"
        )
    if keyword.iskeyword(name):
        raise UsageError(f"Invalid name {name!r}: it is a keyword of Python. Choose another name.")
    if name in sys.stdlib_module_names or name in IMPORTED_NAMES or name.startswith("holdfast"):
        raise UsageError(
            f"Invalid name {name!r}: the system would hide another module of that name. Choose another name."
        )


def _suggest(name: str) -> str:
    """Return a sentence with the nearest valid name, or nothing if there is none."""
    # "é" is split into "e" and an accent, which is dropped.
    plain = "".join(each for each in unicodedata.normalize("NFKD", name) if not unicodedata.combining(each))
    nearest = re.sub(r"[^a-z0-9]+", "_", plain.lower()).strip("_")
    is_valid = plain.isascii() and NAME_FORMAT.fullmatch(nearest) and len(nearest) <= MAX_NAME_CHARACTERS
    return f" Try {nearest}." if is_valid else ""


def _check_target(path: Path, target: Path) -> None:
    """Raise `SettingsError` if the parent folder is missing or something is at the target's path."""
    if not path.is_dir():
        raise SettingsError(f"Folder not found: {path}. Create it, or choose another folder with --path.")
    if target.exists() or target.is_symlink():
        raise SettingsError(
            f"{target} already exists: choose another name, move it, or choose another folder with --path."
        )


def _check_is_free(name: str, commands: Collection[str]) -> None:
    """Raise `SettingsError` if a command, a system, a module or a distribution has this name already.

    `commands` are the names of all commands, the installed systems among them.
    """
    installed = {re.sub(r"[-_.]+", "_", each.name).lower() for each in distributions() if each.name}
    if name in commands:
        taken_by = f"`holdfast {name}` is a command or an installed system"
    elif importlib.util.find_spec(name) is not None:
        taken_by = f"the module {name} is installed"
    elif name in installed:
        taken_by = f"the distribution {name.replace('_', '-')} is installed"
    else:
        return
    raise SettingsError(f"The name {name!r} is taken: {taken_by}. Choose another name.")


def _write_folder(target: Path, files: Mapping[str, str]) -> None:
    """Write the files into a temporary folder and rename it, so that a failure leaves nothing behind."""
    temporary = target.with_name(f".{target.name}.{make_hex_token(4)}")
    try:
        for path, text in files.items():
            file = temporary / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        temporary.rename(target)
    except OSError as error:
        raise SettingsError(
            f"Failed to write {error.filename or target} ({error.strerror}): "
            "choose a folder that you may write to with --path."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _print_next_steps(target: Path, files: Mapping[str, str]) -> None:
    """Print the files and the commands to type next."""
    lines = [
        *(str(target / file) for file in files),
        "",
        f"Created the system {target.name}. Next:",
        f"  cd {shlex.quote(str(target))}",
        "  pip install -e '.[dev]'",
        "  pytest",
        f"  holdfast check {target.name}",
        f"  holdfast run {target.name}",
    ]
    typer.echo("\n".join(lines))
