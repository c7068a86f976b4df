"""The names that `holdfast.web` exports are imported on first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

from holdfast import web


@pytest.mark.parametrize("name", web.__all__)
def test_every_exported_name_can_be_imported(name: str) -> None:
    assert getattr(web, name) is not None


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = web.nothing  # type: ignore[attr-defined]


def test_client_of_an_external_service_does_not_import_the_web_framework() -> None:
    code = "import sys, holdfast.web.external_addresses; sys.exit('fastapi' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
