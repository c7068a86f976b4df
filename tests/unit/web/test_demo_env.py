"""Helpers of demo stories: logs and environment are restored, and polling returns or times out."""

from __future__ import annotations

import asyncio
import logging
import os

import pytest

from holdfast.web.demo_env import patch_environ, silence_loggers, wait_until


def test_silences_loggers_only_during_the_story(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger = logging.getLogger("some.stage")
    with silence_loggers("some.stage"):
        logger.error("meant to be")
    logger.error("not meant to be")

    assert caplog.messages == ["not meant to be"]


def test_restores_the_log_levels_when_the_story_fails() -> None:
    logger = logging.getLogger("some.other.stage")
    logger.setLevel(logging.INFO)
    with pytest.raises(ValueError, match="no story"), silence_loggers("some.other.stage", "some"):
        raise ValueError("no story")

    assert logger.level == logging.INFO
    assert logging.getLogger("some").level == logging.NOTSET


def test_story_has_its_own_variables_and_not_the_excluded_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_MODE", "live")
    monkeypatch.setenv("SHOPKEEPER", "Ann")
    monkeypatch.setenv("DOOR", "open")
    before = dict(os.environ)
    with patch_environ({"DOOR": "closed", "SHOP_URL": "here"}, without=["SHOP_"]):
        assert (os.environ["DOOR"], os.environ["SHOP_URL"], os.environ["SHOPKEEPER"]) == (
            "closed",
            "here",
            "Ann",
        )
        assert "SHOP_MODE" not in os.environ
    assert dict(os.environ) == before


def test_excludes_nothing_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOOR", "open")
    with patch_environ({}):
        assert os.environ["DOOR"] == "open"


def test_restores_the_variables_when_the_story_fails() -> None:
    before = dict(os.environ)
    with pytest.raises(ValueError, match="no story"), patch_environ({"DOOR": "closed"}):
        raise ValueError("no story")
    assert dict(os.environ) == before


@pytest.mark.parametrize("is_awaited", [False, True])
def test_returns_the_awaited_value_as_soon_as_it_exists(is_awaited: bool) -> None:
    looks = iter([None, "", "there", "too late"])

    async def come() -> str | None:
        return next(looks)

    found = asyncio.run(wait_until(come if is_awaited else lambda: next(looks), "somebody"))
    assert (found, next(looks)) == ("there", "too late")


def test_timeout_names_what_was_awaited() -> None:
    with pytest.raises(AssertionError, match=r"Timed out waiting for somebody\."):
        asyncio.run(wait_until(lambda: None, "somebody", max_polls=2))
