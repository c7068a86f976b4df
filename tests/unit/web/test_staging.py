"""The surroundings of a story: what it changes is as before when it is over."""

from __future__ import annotations

import asyncio
import logging
import os

import pytest

from holdfast.web.demo_env import patch_environ, silence_loggers, wait_until


def test_what_goes_wrong_in_a_story_is_not_logged_and_afterwards_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger = logging.getLogger("some.stage")
    with silence_loggers("some.stage"):
        logger.error("meant to be")
    logger.error("not meant to be")

    assert caplog.messages == ["not meant to be"]


def test_the_levels_are_as_before_also_where_the_story_fails() -> None:
    logger = logging.getLogger("some.other.stage")
    logger.setLevel(logging.INFO)
    with pytest.raises(ValueError, match="no story"), silence_loggers("some.other.stage", "some"):
        raise ValueError("no story")

    assert logger.level == logging.INFO
    assert logging.getLogger("some").level == logging.NOTSET


def test_a_story_has_its_own_variables_and_none_of_those_it_is_without(
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


def test_nothing_is_left_out_where_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOOR", "open")
    with patch_environ({}):
        assert os.environ["DOOR"] == "open"


def test_the_variables_are_as_before_also_where_the_story_fails() -> None:
    before = dict(os.environ)
    with pytest.raises(ValueError, match="no story"), patch_environ({"DOOR": "closed"}):
        raise ValueError("no story")
    assert dict(os.environ) == before


@pytest.mark.parametrize("is_awaited", [False, True])
def test_what_is_awaited_is_given_as_soon_as_it_is_there(is_awaited: bool) -> None:
    looks = iter([None, "", "there", "too late"])

    async def come() -> str | None:
        return next(looks)

    found = asyncio.run(wait_until(come if is_awaited else lambda: next(looks), "somebody"))
    assert (found, next(looks)) == ("there", "too late")


def test_who_waits_in_vain_is_told_for_what() -> None:
    with pytest.raises(AssertionError, match=r"Timed out waiting for somebody\."):
        asyncio.run(wait_until(lambda: None, "somebody", max_polls=2))
