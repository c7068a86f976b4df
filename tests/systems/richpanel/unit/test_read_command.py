"""`holdfast richpanel read`: what is read in files of messages, without a store or a help desk."""

from __future__ import annotations

import asyncio
import json
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import InvalidRequest
from holdfast.model.system import Command
from richpanel.api.read_command import read
from richpanel.system import SYSTEM

MEMBERS = [
    "text",
    "language",
    "automatic",
    "intent",
    "confidence",
    "team",
    "order_numbers",
    "would_reply",
    "reason",
]


def show(*files: Path) -> list[dict[str, Any]]:
    """Return what the command prints as JSON."""
    found: list[dict[str, Any]] = asyncio.run(read(list(files))).data
    return found


def write_form(folder: Path, text: str, subject: str | None = None) -> Path:
    """Write a message of a contact form."""
    file = folder / "form.json"
    file.write_text(json.dumps({"subject": subject, "text": text}), encoding="utf-8")
    return file


def test_reads_a_mail_in_the_promised_shape(tmp_path: Path) -> None:
    mail = EmailMessage()
    mail["Subject"] = "Re: Your order 99120"
    mail.set_content(
        "Where is my order #48213?\n\nKind regards\nAda\n\n"
        "On Mon, 16 Nov 2026, Shop <a@b.example> wrote:\n> Order 77001"
    )
    file = tmp_path / "a.eml"
    file.write_bytes(mail.as_bytes())

    [found] = show(file)
    assert list(found) == MEMBERS
    assert found["text"] == "Where is my order #48213?"
    assert (found["language"], found["automatic"], found["intent"]) == ("en", None, "order_status")
    assert (found["team"], found["order_numbers"], found["would_reply"]) == ("orders", ["#48213"], True)
    assert found["confidence"] > 0.6 and "goes to orders" in found["reason"]


@pytest.mark.parametrize(
    ("text", "team", "intent"),
    [
        ("I want to speak to a person about order 48213", "care", "human_request"),
        ("what will the weather be in Leeds tomorrow", "triage", None),
        ("Wo ist meine Bestellung 48213?", "triage", None),
        ("someone bought things with my card", "risk", "fraud_report"),
        ("I am out of the office until Monday. In urgent cases call Joan.", "triage", None),
    ],
)
def test_never_replies_where_a_person_is_needed(
    tmp_path: Path, text: str, team: str, intent: str | None
) -> None:
    [found] = show(write_form(tmp_path, text))

    assert (found["team"], found["intent"], found["would_reply"]) == (team, intent, False)


def test_a_date_is_not_an_order_number(tmp_path: Path) -> None:
    [found] = show(write_form(tmp_path, "Where is my order? I ordered on 3 November 2026"))

    assert found["order_numbers"] == [] and "ask_order_number is sent" in found["reason"]


def test_a_person_sees_the_same(tmp_path: Path) -> None:
    shown = asyncio.run(read([write_form(tmp_path, "Where is my order #48213?")]))

    assert "  | Where is my order #48213?" in shown.lines[0] and "team: orders" in shown.lines[0]


@pytest.mark.parametrize("content", ["[]", "{", '{"subject": "x"}', '{"text": 5}'])
def test_refuses_json_of_another_shape(tmp_path: Path, content: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(content, encoding="utf-8")

    with pytest.raises(InvalidRequest, match="expected"):
        show(file)


def test_refuses_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="Cannot read"):
        show(tmp_path / "none.eml")


def test_opens_no_stores() -> None:
    command = SYSTEM.admin.commands["read"]

    assert isinstance(command, Command) and not command.needs_stores
