"""Running patterns from their forms."""

from __future__ import annotations

import re
from typing import Any

import pytest

from holdfast import Stores
from holdfast.console.model import ConsoleAudit
from tests.console_client import ConsoleClient, open_console_client
from tests.unit.console.explorer.clinic import Address, Patient, patient

PATTERNS = "/systems/clinic/patterns"


async def list_audit(console: ConsoleClient) -> list[ConsoleAudit]:
    """Return the entries of the day, newest first."""
    day = console.own.now().date().isoformat()
    entries = await console.own.all(ConsoleAudit.of(day).query())
    return [*reversed(entries)]


def get_tile(page: str, label: str) -> str:
    found = re.search(rf'<span class="tile-label">{label}</span>\s*<span class="tile-value">([^<]*)<', page)
    assert found, page
    return found[1]


async def put_patient(stores: Stores, **attributes: Any) -> None:
    await stores.run(Patient.put(Patient(patient_id="p-7", **attributes)))


async def test_a_read_shows_items_units_and_time(viewer: ConsoleClient) -> None:
    page = await viewer.get(f"{PATTERNS}/V1?run=1&a.patient_id=p-1&a.since=2096-03-01T09:00:00Z&limit=10")
    result = page[page.index('id="result"') :]
    assert get_tile(result, "Items returned") == "10"
    assert get_tile(result, "Items read") == "10"
    assert float(get_tile(result, "Read units")) > 0
    assert get_tile(result, "Write units") == "0"
    assert "2096-03-01T09:00:00Z" in result


async def test_pages_follow_the_cursor_to_the_end(viewer: ConsoleClient) -> None:
    url, seen = f"{PATTERNS}/V1?run=1&a.patient_id=p-1&a.since=2096-03-01T09:00:00Z&limit=25", []
    while url:
        page = await viewer.get(url)
        result = page[page.index('id="result"') :]
        seen.append(int(get_tile(result, "Items returned")))
        found = re.search(r'href="([^"]+)">Next page', result)
        url = found[1] if found else ""
    assert seen == [25, 5]


async def test_a_hidden_cursor_argument_pages_too(viewer: ConsoleClient) -> None:
    page = await viewer.get(f"{PATTERNS}/P4?run=1&a.ward=west&limit=10")
    assert get_tile(page[page.index('id="result"') :], "Items returned") == "2"


async def test_an_invalid_argument_runs_nothing(viewer: ConsoleClient) -> None:
    page = await viewer.get(f"{PATTERNS}/V1?run=1&a.patient_id=p-1&a.since=yesterday")
    assert "Nothing was run: 1 argument is not valid" in page
    assert 'value="yesterday"' in page and 'aria-invalid="true"' in page
    assert 'id="result"' not in page


async def test_a_link_can_fill_in_a_form_without_running_it(viewer: ConsoleClient) -> None:
    page = await viewer.get(f"{PATTERNS}/P1?a.patient_id=p-77")
    assert 'value="p-77"' in page
    assert 'id="result"' not in page


async def test_nothing_found_says_where_the_example_exists(viewer: ConsoleClient) -> None:
    page = await viewer.get(f"{PATTERNS}/P1?run=1&a.patient_id=nobody")
    assert "It found nothing" in page and "holdfast sample clinic" in page


async def test_an_error_of_the_store_is_shown_in_words(stores: Stores, viewer: ConsoleClient) -> None:
    cursor = "not-a-cursor"
    page = await viewer.get(
        f"{PATTERNS}/V1?run=1&a.patient_id=p-1&a.since=2096-03-01T09:00:00Z&cursor={cursor}"
    )
    assert "It failed" in page and "Invalid cursor" in page


async def test_personal_data_is_masked_by_the_systems_redactor(stores: Stores, viewer: ConsoleClient) -> None:
    await put_patient(
        stores, phone="12", notes="in room 7, ada@example.com", address=Address(street="Main Road 1")
    )
    page = await viewer.get(f"{PATTERNS}/P1?run=1&a.patient_id=p-7")
    result = page[page.index('id="result"') :]
    assert "p-7" in result
    assert "room [hidden]" in result
    assert '"phone": "12"' not in result and "Main Road 1" not in result
    assert "needs the role" in result


async def test_binary_values_are_shown_by_their_size_until_revealed(
    stores: Stores, console: ConsoleClient
) -> None:
    await put_patient(stores, picture=b'{"ecg": "regular"}')
    target = f"{PATTERNS}/P1?run=1&a.patient_id=p-7"
    masked = await console.get(target)
    assert "(18 bytes)" in masked and "regular" not in masked
    assert '"ecg": "regular"' in await console.post(f"{PATTERNS}/P1/reveal", target=target)


async def test_binary_values_that_are_not_text_stay_a_size(stores: Stores, console: ConsoleClient) -> None:
    await put_patient(stores, picture=b"\x89PNG\xff")
    target = f"{PATTERNS}/P1?run=1&a.patient_id=p-7"
    assert "(5 bytes)" in await console.post(f"{PATTERNS}/P1/reveal", target=target)


async def test_revealing_needs_the_role_and_is_audited(stores: Stores, console: ConsoleClient) -> None:
    await put_patient(stores, notes="in room 7")
    target = f"{PATTERNS}/P1?run=1&a.patient_id=p-7"
    page = await console.post(f"{PATTERNS}/P1/reveal", target=target)
    assert "in room 7" in page and "personal data shown" in page
    (entry, *_) = await list_audit(console)
    assert (entry.action, entry.system, entry.target) == ("reveal", "clinic", "P1")
    assert "p-7" not in entry.model_dump_json()
    assert "in room 7" not in await console.get(target)


async def test_a_viewer_cannot_reveal(stores: Stores, viewer: ConsoleClient) -> None:
    await put_patient(stores, notes="in room 7")
    await viewer.post(f"{PATTERNS}/P1/reveal", status=403, target=f"{PATTERNS}/P1?run=1&a.patient_id=p-7")
    assert await list_audit_actions(viewer) == ["refused"]


async def list_audit_actions(console: ConsoleClient) -> list[str]:
    return [each.action for each in await list_audit(console) if each.action != "sign-in"]


async def test_reveal_leads_to_results_of_the_pattern_only(console: ConsoleClient) -> None:
    for target in ("https://elsewhere.example/", f"{PATTERNS}/V1?run=1", "/systems/other/patterns/P1"):
        page = await console.post(f"{PATTERNS}/P1/reveal", status=400, target=target)
        assert "Invalid target" in page
    assert await list_audit_actions(console) == []


async def test_a_write_needs_the_role_editor(stores: Stores, viewer: ConsoleClient) -> None:
    page = await viewer.get(f"{PATTERNS}/P3")
    assert "needs the role" in page and 'id="confirm-run"' not in page
    await viewer.post(
        f"{PATTERNS}/P3/run", status=403, **{"a.patient": '{"patientId": "p-8"}', "confirmed": "yes"}
    )
    assert await stores.run(patient("p-8")) is None


async def test_a_write_runs_once_and_is_audited_without_values(
    stores: Stores, console: ConsoleClient
) -> None:
    body = {"a.patient": '{"patientId": "p-8", "notes": "a secret"}', "confirmed": "yes"}
    page = await console.post(f"{PATTERNS}/P3/run", 303, **body)
    assert "P3 ran." in page
    assert float(get_tile(page[page.index('id="result"') :], "Write units")) > 0
    assert (await stores.run(patient("p-8"))) is not None
    (entry, *_) = await list_audit(console)
    assert (entry.action, entry.user, entry.target) == ("run-pattern", "ada", "P3")
    assert "secret" not in entry.model_dump_json() and "patient" in entry.model_dump_json()


async def test_a_failed_write_says_why(console: ConsoleClient) -> None:
    body = {"a.patient": '{"patientId": "p-1"}', "confirmed": "yes"}
    page = await console.post(f"{PATTERNS}/P3/run", 303, **body)
    assert "P3 failed" in page and "It failed" in page


async def test_a_write_without_confirmation_does_nothing(stores: Stores, console: ConsoleClient) -> None:
    body = {"a.patient": '{"patientId": "p-8"}'}
    await console.post(f"{PATTERNS}/P3/run", status=200, **body)
    assert await stores.run(patient("p-8")) is None
    assert await list_audit_actions(console) == []


async def test_an_invalid_write_shows_its_problems(stores: Stores, console: ConsoleClient) -> None:
    page = await console.post(
        f"{PATTERNS}/P3/run", status=200, **{"a.patient": '{"ward": "north"}', "confirmed": "yes"}
    )
    assert "PatientId is missing" in page
    assert "north" in page


async def test_a_read_by_its_address_never_writes(stores: Stores, console: ConsoleClient) -> None:
    await console.get(f"{PATTERNS}/P5?run=1&a.patient_id=p-1&confirmed=yes")
    assert await stores.run(patient("p-1")) is not None


@pytest.mark.parametrize("path", ["P3/run", "P1/reveal"])
async def test_changes_need_the_token_of_the_session(console: ConsoleClient, path: str) -> None:
    await console.post(f"{PATTERNS}/{path}", status=403, csrf="forged", confirmed="yes", target="/x")


async def test_a_result_of_another_user_is_not_shown(stores: Stores, console: ConsoleClient) -> None:
    page = await console.get(f"{PATTERNS}/P3?result=guessed")
    assert "not kept any more" in page


async def test_a_pattern_that_takes_messages_says_why_it_cannot_run(console: ConsoleClient) -> None:
    assert "values that only code has" in await console.get(f"{PATTERNS}/RMD")


async def test_receiving_messages_is_a_write(stores: Stores) -> None:
    async with open_console_client(stores, roles=["clinic:editor"]) as editor:
        assert "which writes?" in await editor.get(f"{PATTERNS}/RMR")


async def test_an_unknown_pattern_is_not_found(console: ConsoleClient) -> None:
    assert "has no pattern" in await console.get(f"{PATTERNS}/X9", status=404)
