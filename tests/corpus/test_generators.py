"""The generators of the archives run with today's code, so that the next version can write its archives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.corpus.archive import CORPUS, list_release_folders

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("generator", sorted(path.stem for path in CORPUS.glob("write_*.py")))
def test_generator_writes_its_archives(generator: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", f"tests.corpus.{generator}", str(tmp_path / "archives")]
    subprocess.run(command, cwd=CORPUS.parents[1], check=True, timeout=600)

    written = {path.name for path in (tmp_path / "archives").iterdir()}
    assert written
    assert written <= {path.name for path in list_release_folders()[-1].iterdir()}
