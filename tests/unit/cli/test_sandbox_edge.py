"""Every sandbox of every system: it gives nothing to a web page, whatever name or origin the page uses."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from holdfast.cli.commands.run import build_sandbox_app
from holdfast.config.settings import Settings
from holdfast.model.demo import find_demo
from holdfast.model.system import load_systems
from holdfast.web import serve_in_thread

SANDBOXES = [(name, each) for name, system in load_systems().items() for each in find_demo(system).sandboxes]
TOKENS = [
    ("tripcortex", {"employee_id": "emp-1", "is_admin": True}),
    ("pagw", {"tenant": "acme"}),
]


@contextmanager
def serve_sandbox(system: str, name: str, folder: Path) -> Iterator[str]:
    settings = Settings(queues=f"sqlite:{folder}/queues.db")
    with serve_in_thread(build_sandbox_app(load_systems()[system], name, settings)) as url:
        yield url


@pytest.mark.parametrize(("system", "name"), SANDBOXES)
def test_no_sandbox_answers_a_foreign_page(system: str, name: str, tmp_path: Path) -> None:
    with serve_sandbox(system, name, tmp_path) as url:
        assert httpx.get(f"{url}/nowhere", headers={"Host": "rebound.example"}).status_code == 403
        for origin in ("https://evil.example", "null"):
            assert httpx.post(f"{url}/nowhere", headers={"Origin": origin}).status_code == 403
        assert httpx.post(f"{url}/nowhere").status_code != 403


@pytest.mark.parametrize(("system", "wanted"), TOKENS)
def test_issuer_gives_no_token_to_a_foreign_page(
    system: str, wanted: dict[str, object], tmp_path: Path
) -> None:
    with serve_sandbox(system, "issuer", tmp_path) as url:
        place = f"{url}/sandbox/tokens"
        assert httpx.post(place, json=wanted).status_code == 200
        for headers in ({"Host": "rebound.example"}, {"Origin": "https://evil.example"}):
            answer = httpx.post(place, json=wanted, headers=headers)
            assert answer.status_code == 403
            assert "token" not in answer.text.replace("allowed_", "")


def test_sandbox_bounds_and_decodes_bodies(tmp_path: Path) -> None:
    with serve_sandbox("richpanel", "helpdesk", tmp_path) as url:
        place, headers = f"{url}/sandbox/tickets", {"Content-Encoding": "gzip"}
        for content, status in ((b'{"id": "t-1"}', 200), (bytes(3_000_000), 413)):
            packed = gzip.compress(content)
            assert httpx.post(place, content=packed, headers=headers).status_code == status
