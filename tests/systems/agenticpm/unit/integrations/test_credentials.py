"""Tests of the credential schemas: validation, and no secret in a repr or an error."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from agenticpm.integrations.credentials import (
    CREDENTIALS_MODELS,
    AsanaCredentials,
    parse_credentials,
    to_plain,
)
from agenticpm.model.entities import Integration
from holdfast.core.errors import InvalidRequest

SECRET = "s3cr3t-of-the-test"
GOOD: dict[str, dict[str, Any]] = {
    "jira": {"base_url": "https://acme.atlassian.net/", "email": "pm@example.com", "api_token": SECRET},
    "asana": {"token": SECRET},
    "outlook": {
        "mailbox": "pm@example.com",
        "tenant": "acme.example",
        "client_id": "c-1",
        "client_secret": SECRET,
    },
    "resend": {"api_key": SECRET, "sender": "The agent <agent@example.com>"},
}


@pytest.mark.parametrize("integration", list(Integration))
def test_credentials_round_trip_through_plain_values_and_hide_the_secret_elsewhere(
    integration: Integration,
) -> None:
    made = parse_credentials(integration, GOOD[integration])
    assert parse_credentials(integration, to_plain(made)) == made
    assert SECRET in to_plain(made).values()
    assert SECRET not in f"{made!r} {made} {made.model_dump_json()}"
    assert set(CREDENTIALS_MODELS) == set(Integration)


def test_strips_the_trailing_slash_and_uses_the_default_address() -> None:
    assert to_plain(parse_credentials("jira", GOOD["jira"]))["base_url"] == "https://acme.atlassian.net"
    assert to_plain(parse_credentials("asana", GOOD["asana"]))["base_url"] == "https://app.asana.com"


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("asana", {"token": ""}, "token: "),
    ("asana", {"token": f" {SECRET}"}, "token: expected printable ASCII"),
    ("asana", {"token": f"{SECRET}\r\nx: y"}, "token: expected printable ASCII"),
    ("asana", {"token": f"{SECRET}é"}, "token: expected printable ASCII"),
    ("asana", {"token": 7}, "token: "),
    ("asana", {}, "token: Field required"),
    ("asana", {"token": SECRET, SECRET: 1}, "unknown field"),
    ("asana", {"token": SECRET, "base_url": "http://app.asana.com"}, "base_url: must be HTTPS"),
    ("asana", {"token": SECRET, "base_url": "http://127.0.0.1.example.com"}, "base_url: must be HTTPS"),
    ("asana", {"token": SECRET, "base_url": "ftp://app.asana.com"}, "base_url: is not a URL"),
    ("asana", {"token": SECRET, "base_url": "https://"}, "base_url: is not a URL"),
    ("asana", {"token": SECRET, "base_url": "https://h:port"}, "base_url: is not a URL"),
    (
        "asana",
        {"token": SECRET, "base_url": f"https://u:{SECRET}@h"},
        "base_url: contains a user name or password",
    ),
    ("asana", {"token": SECRET, "base_url": f"https://h?t={SECRET}"}, "base_url: contains a query"),
    ("jira", {**GOOD["jira"], "email": " "}, "email: expected one non-empty line"),
    ("resend", {**GOOD["resend"], "sender": "agent"}, "sender: expected a mail address"),
    ("resend", {**GOOD["resend"], "sender": "a@b\nBcc: c@d"}, "sender: expected one non-empty line"),
    (
        "outlook",
        {**GOOD["outlook"], "access_token": SECRET},
        "credentials: expected either an access_token or an app",
    ),
    ("outlook", {"mailbox": "m@x", "client_secret": SECRET}, "credentials: expected tenant"),
]


@pytest.mark.proves("AP-25")
@pytest.mark.parametrize(("integration", "credentials", "message"), WRONG)
def test_names_the_field_and_the_reason_without_the_secret(
    integration: str, credentials: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_credentials(integration, credentials)
    assert message in refused.value.message
    shown = "".join(traceback.format_exception(refused.value, chain=True))
    # The traceback quotes the lines of this file, but must not show its values.
    assert SECRET not in refused.value.message
    assert SECRET not in shown.split("InvalidRequest", 1)[-1]
    assert refused.value.__cause__ is None and refused.value.__suppress_context__


@pytest.mark.parametrize("host", ["127.0.0.1:9", "[::1]:9", "localhost:9"])
def test_local_sandbox_may_use_plain_http(host: str) -> None:
    made = AsanaCredentials.model_validate({"token": SECRET, "base_url": f"http://{host}"})
    assert made.base_url == f"http://{host}"
