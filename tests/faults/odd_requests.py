"""Odd texts, values and bodies for requests, and a change of a valid body at a random place."""

from __future__ import annotations

from random import Random
from typing import Any

# What may stand at any place of a valid body instead of its value.
ODD_VALUES: list[Any] = [
    *(None, True, 0, -1, 1.5, int("9" * 400), -int("9" * 400), 1e308, float("inf"), float("nan")),
    *("", "x", "é", "\ud800", "\x00", "1" * 400, "x" * 3000, "[", "../..", "http://[", "9999-99-99"),
    *([], {}, [None], [[]], {"": None}, {"\ud800": 1}, ["x"] * 300, {"self": 1}, {"a": {"b": {"c": [1]}}}),
]
ODD_BODIES = [
    *(b"", b"null", b"[]", b"1", b'"x"', b"{", b"\xff\xfe", b'{"a": 1e400}', b'{"a": NaN}', b'{"a":1,"a":2}'),
    *(b"[" * 5000, b'{"a":' * 5000, b'{"id": "\\ud800"}', b'{"n": ' + b"9" * 5000 + b"}", b"a=%ff&b"),
]
ODD_TEXTS = [
    "",
    "0",
    "-1",
    "9" * 400,
    "9" * 5000,
    "1e400",
    "\u0663",
    "NaN",
    "\ud800",
    "%ff",
    "\x00",
    "é",
    "a/b",
    ".",
]


def change_one_place(value: Any, random: Random) -> None:
    """Replace, remove or add a member at a random place of an object or a list."""
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = random.choice(keys)
    if isinstance(value[key], dict | list) and value[key] and random.random() < 0.6:
        change_one_place(value[key], random)
    elif random.random() < 0.1:
        del value[key]
    elif random.random() < 0.1 and isinstance(value, dict):
        value[random.choice(["self", "id", "key", "iss", "tenant", "\ud800", "extra"])] = random.choice(
            ODD_VALUES
        )
    else:
        value[key] = random.choice(ODD_VALUES)
