"""What a user without the role `personal` sees of a value."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from holdfast.console.masking import ENCRYPTED, MASK, Hidden, Masker
from holdfast.model.system import load_system

from .warehouse import CIPHERTEXT

MASKER = Masker()


def test_hides_what_the_system_declares_as_personal_and_shows_the_same_name_elsewhere() -> None:
    declared = Masker(personal_names=frozenset({"name"}))

    assert declared.mask("name", "PERERA/NOAH") == Hidden(MASK)
    assert MASKER.mask("name", "Gate 12") == "Gate 12"
    skymarshal = Masker.for_system(load_system("skymarshal"))
    assert isinstance(skymarshal.mask("name", "PERERA/NOAH"), Hidden)
    assert "WCHC" not in str(skymarshal.mask("special_services", ["WCHC"]))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("email", "ada@example.org"),
        ("note", "call ada@example.org back"),
        ("contactPhone", "12"),
        ("given_name", "Ada"),
        ("birthDate", "1815-12-10"),
        ("photo", b"\x01\x02"),
        ("phone", 442071234567),
        ("lines", [{"text": "to ada@example.org"}]),
        ("people", frozenset({"ada@example.org"})),
        ("payload", json.dumps({"patient_name": "Ada"})),
    ],
)
def test_hides_personal_data_by_its_form_and_by_its_name(name: str, value: Any) -> None:
    shown = MASKER.mask(name, value)

    assert shown != value
    assert "ada" not in str(shown).lower()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "placed"),
        ("id", "6f1c7f5e-8b1c-4c3e-9a55-2f1a0f6d9a11"),
        ("at", "2026-11-18T20:50:00.123Z"),
        ("count", 3),
        ("price", Decimal("12.5")),
        ("is_open", True),
        ("gone", None),
        ("tags", frozenset({"red", "blue"})),
        ("lines", [{"article": "a-1", "count": 2}]),
    ],
)
def test_leaves_everything_else_as_it_is(name: str, value: Any) -> None:
    assert MASKER.mask(name, value) == value


def test_shows_keys_and_revealed_values() -> None:
    assert MASKER.mask("email", "ada@example.org", is_key=True) == "ada@example.org"
    revealed = Masker(is_revealed=True)
    assert revealed.mask("email", "ada@example.org") == "ada@example.org"
    assert revealed.mask("lines", [{"email": "ada@example.org"}]) == [{"email": "ada@example.org"}]


@pytest.mark.parametrize("is_revealed", [False, True])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("content", CIPHERTEXT),
        ("content", "SEZDMQAQa2V5LWlkLW9mLXRoZS1rZXk="),
        ("config_encrypted", "anything"),
    ],
)
def test_never_shows_what_is_encrypted(name: str, value: Any, is_revealed: bool) -> None:
    masker = Masker(is_revealed=is_revealed)

    assert str(masker.mask(name, value, is_key=True)) == ENCRYPTED
    assert ENCRYPTED in str(masker.mask("outer", {name: value}))
    assert str(value) not in str(masker.mask("outer", [{name: value}]))


def test_hides_a_time_under_a_personal_name() -> None:
    born = datetime(1815, 12, 10, tzinfo=UTC)

    assert MASKER.mask("birth_date", born) == Hidden(MASK)
    assert MASKER.mask("birth_date", -4861382400000) == Hidden(MASK, "N")
    assert MASKER.mask("created_at", born) == born


def test_a_system_redacts_by_its_own_function() -> None:
    masker = Masker(lambda text: text.replace("secret", MASK))

    assert masker.mask("note", "a secret thing") == f"a {MASK} thing"
    assert masker.mask("note", "ada@example.org") == "ada@example.org"
    assert masker.mask("email", "ada@example.org") == Hidden(MASK)


def test_a_name_that_the_systems_redactor_knows_hides_its_value() -> None:
    def redact(text: str) -> str:
        return "[hidden]" if '"diagnosis"' in text else text

    assert Masker(redact).mask("diagnosis", "a cold") == Hidden(MASK)
    assert Masker(redact).mask("note", "a cold") == "a cold"
