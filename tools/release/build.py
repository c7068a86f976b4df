"""Build the files of a release into dist/: a wheel of each project, an SBOM and SHA256SUMS.

    python -m tools.release.build

The same source gives the same bytes, in any folder, at any time and in any environment. The wheels are built
from the committed files, in a temporary folder, with the date that the changelog has for the version.
setuptools must be installed; nothing is downloaded.
"""

from __future__ import annotations

import ast
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from packaging.version import Version

from tools.release.changelog import Release, parse_changelog
from tools.release.sbom import build_sbom, read_licences, read_lock, read_metadata, read_wheels

ROOT: Final = Path(__file__).parents[2]
PROJECTS: Final = ("pyproject.toml", "systems/*/pyproject.toml", "demo/pyproject.toml")
# Left by builds and by Python; only seen outside a git checkout.
NO_SOURCE: Final = (".*", "build", "dist", "*.egg-info", "__pycache__", "*.py[cod]")
GOLDEN: Final = "tests/repo/golden/"
# The user's settings must not change line ends.
GIT_OPTIONS: Final = ("-c", "core.autocrlf=false", "-c", "core.eol=lf")
BUILD_WHEEL: Final = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


class ReleaseRefused(Exception):
    """The source is not in a state that can be released."""


def build_release(root: Path, output: Path) -> list[Path]:
    """Build the release of the project in `root`, replace the folder `output`, and return the files."""
    _require_clean_tree(root)
    release = _find_release(root)
    _require_public_surface_of_patch(root, release)
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder, "source"), Path(folder, "built")
        _export_source(root, source)
        built.mkdir()
        for pattern in PROJECTS:
            for project in sorted(source.glob(pattern)):
                _build_wheel(source, project, built, release)
        _write_sbom(source, built, release)
        _write_checksums(built)
        shutil.rmtree(output, ignore_errors=True)
        shutil.copytree(built, output)
    return sorted(output.iterdir())


def _require_clean_tree(root: Path) -> None:
    if not (root / ".git").exists():
        return
    changes = _run_git(root, "status", "--porcelain").decode().splitlines()
    if changes:
        raise ReleaseRefused(
            "The working tree has changes that are not committed. Commit or remove them, then run "
            "`make release` again:\n" + "\n".join(changes[:10])
        )


def _find_release(root: Path) -> Release:
    """Return the changelog's entry of the version in `holdfast.__version__`."""
    version = read_version(root)
    changelog = parse_changelog((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    if changelog.unreleased:
        raise ReleaseRefused(
            "CHANGELOG.md has entries under 'Unreleased'. Move them under a new version with its date, "
            "and set holdfast.__version__ to that version."
        )
    release = changelog.find(version)
    if release is None:
        raise ReleaseRefused(
            f"CHANGELOG.md has no version {version} with a date. Add a heading such as "
            f"'## {version} - {datetime.now(UTC).date()}', or correct holdfast.__version__."
        )
    return release


def read_version(root: Path) -> str:
    """Return `holdfast.__version__` without importing the package."""
    module = ast.parse((root / "src" / "holdfast" / "__init__.py").read_text(encoding="utf-8"))
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__version__")], value=ast.Constant(value=str(version))):
                return version
    raise ReleaseRefused('src/holdfast/__init__.py has no line such as: __version__ = "1.2.3"')


def _require_public_surface_of_patch(root: Path, release: Release) -> None:
    """Refuse a patch version that removes or changes a line of a golden list of the version before it."""
    version = Version(release.version)
    if version.micro == 0 or not (root / ".git").exists():
        return
    tag = f"v{version.major}.{version.minor}.{version.micro - 1}"
    if not _run_git(root, "tag", "--list", tag):
        raise ReleaseRefused(
            f"The tag {tag} is missing: {release.version} is compared with it. Run `git fetch --tags`."
        )
    for name in _run_git(root, "ls-tree", "--name-only", tag, GOLDEN).decode().splitlines():
        earlier = set(json.loads(_run_git(root, "show", f"{tag}:{name}")))
        current = (
            set(json.loads((root / name).read_text(encoding="utf-8"))) if (root / name).exists() else set()
        )
        if gone := sorted(earlier - current):
            raise ReleaseRefused(
                f"A patch version keeps what is public, and {release.version} removes or changes {len(gone)} "
                f"lines of {name}. Release it as {version.major}.{version.minor + 1}.0. First line: {gone[0]}"
            )


def _export_source(root: Path, source: Path) -> None:
    """Copy the committed files, or outside git all source files, with the same modes everywhere."""
    if (root / ".git").exists():
        with tarfile.open(fileobj=io.BytesIO(_run_git(root, "archive", "--format=tar", "HEAD"))) as archive:
            archive.extractall(source, filter="data")
    else:
        shutil.copytree(root, source, ignore=shutil.ignore_patterns(*NO_SOURCE))
    for path in source.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _build_wheel(source: Path, project: Path, built: Path, release: Release) -> None:
    """Build the wheel of a project with the installed setuptools, in an environment with fixed values."""
    midnight = datetime(release.date.year, release.date.month, release.date.day, tzinfo=UTC)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(built),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "SOURCE_DATE_EPOCH": str(int(midnight.timestamp())),
    }
    before = set(built.iterdir())
    result = subprocess.run(
        [sys.executable, "-P", "-c", BUILD_WHEEL, str(built)],
        cwd=project.parent,
        env=environment,
        umask=0o022,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if result.returncode:
        raise ReleaseRefused(f"setuptools cannot build {project.relative_to(source)}:\n{result.stdout}")
    (wheel,) = set(built.iterdir()) - before
    metadata = read_metadata(wheel)
    if metadata["Version"] != release.version:
        raise ReleaseRefused(
            f"{metadata['Name']} has the version {metadata['Version']}, and the release is "
            f"{release.version}. Give both the same version."
        )


def _write_sbom(source: Path, built: Path, release: Release) -> None:
    licences = read_licences((source / "docs" / "internals" / "dependencies.md").read_text(encoding="utf-8"))
    locked = read_lock((source / "locks" / "runtime.txt").read_text(encoding="utf-8"), licences)
    text = build_sbom(release.date, read_wheels(built.glob("*.whl")), locked)
    (built / f"holdfast-{release.version}.cdx.json").write_text(text, encoding="utf-8")


def _write_checksums(built: Path) -> None:
    """Write SHA256SUMS in the format of `sha256sum`."""
    lines = [f"{sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(built.iterdir())]
    (built / "SHA256SUMS").write_text("".join(lines), encoding="ascii")


def _run_git(root: Path, *arguments: str) -> bytes:
    return subprocess.run(
        ["git", *GIT_OPTIONS, *arguments], cwd=root, stdout=subprocess.PIPE, check=True
    ).stdout


def main() -> int:
    """Build the release of this project; say why if it is refused."""
    try:
        files = build_release(ROOT, ROOT / "dist")
    except (ReleaseRefused, ValueError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    for path in files:
        print(f"dist/{path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
