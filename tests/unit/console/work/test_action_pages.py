"""The pages of delayed actions: lists by state, decisions, races, edits and masks."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from holdfast.console.model import AuditPhase
from holdfast.guarantees import OUTCOME_UNKNOWN, OnceStatus
from holdfast.guarantees.idempotency.record import format_key
from tests.unit.console.work.shop import LETTERS, PHONE, Letter, Page, Site, make_letter

LIST = "/actions/shop/Letter"


def url_of(letter: Letter) -> str:
    return f"{LIST}/{quote(format_key(letter), safe='')}"


async def decide(site: Site, letter: Letter, decision: str, user: str = "ann", **fields: str) -> Page:
    form = {"decision": decision, "revision": str(letter.revision), **fields}
    return await site.client(user).post(url_of(letter), form)


async def read(site: Site, letter: Letter) -> Letter:
    return await LETTERS.get(site.stores, format_key(letter))


async def refuse(site: Site, letter: Letter, code: str = "GONE") -> Letter:
    """Store the letter as refused permanently."""
    refused = letter.model_copy(
        update={"status": OnceStatus.FAILED, "refused": code, "queue": None, "revision": letter.revision + 1}
    )
    await site.stores.run(LETTERS.pattern_set.review(refused, letter))
    return refused


async def test_lists_actions_by_state(site: Site) -> None:
    await site.delay(make_letter("later", text="Later"))
    await site.delay(make_letter("now", text="Now"), for_s=0)
    cancelled = await site.delay(make_letter("never", text="Never"))
    await LETTERS.cancel(site.stores, cancelled, by="bob", reason="wrong")

    async def list_in(state: str) -> set[str]:
        text = (await site.client().get(LIST, state=state)).text
        return {each for each in ("Later", "Now", "Never") if f" {each} " in text}

    assert await list_in("") == {"Later", "Now"}
    assert await list_in("held") == {"Later"}
    assert await list_in("due") == {"Now"}
    assert await list_in("failed") == set()
    assert await list_in("ended") == {"Never"}
    assert (await site.client().get(LIST, state="odd")).status == 400


async def test_approves_and_says_so(site: Site) -> None:
    letter = await site.delay()

    answer = await decide(site, letter, "approve")

    assert answer.location == url_of(letter) and answer.notice.startswith("done:Approved")
    after = await read(site, letter)
    assert (after.review, after.reviewed_by) == ("approved", "ann")
    assert after.held_until is not None and after.held_until <= site.stores.now()
    (entry,) = await site.list_audit()
    assert (entry.action, entry.system) == ("approve", "shop")
    assert entry.target is not None and "letter-1" not in entry.target


async def test_cancels_with_a_reason(site: Site) -> None:
    letter = await site.delay()
    without = await decide(site, letter, "cancel", reason=" ")
    assert "Missing reason" in without.notice
    answer = await decide(site, letter, "cancel", reason="She knows.")
    assert answer.notice.startswith("done:Cancelled")
    after = await read(site, letter)
    assert (after.status, after.review) == (OnceStatus.CANCELLED, "She knows.")
    assert [each.action for each in await site.list_audit()] == ["cancel"]


async def test_edits_the_content_and_the_delay_continues(site: Site) -> None:
    letter = await site.delay(make_letter(detail={"copies": 1}))

    answer = await decide(
        site, letter, "edit", **{"field-text": "Good day\r\nAnn", "field-detail": '{"copies": 2.5}'}
    )

    assert answer.notice.startswith("done:Saved")
    after = await read(site, letter)
    assert (after.text, str(after.detail and after.detail["copies"])) == ("Good day\nAnn", "2.5")
    assert (after.review, after.held_until) == ("edited", letter.held_until)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"field-text": "Hello"}, "Nothing was changed"),
        ({"field-detail": "{"}, "Invalid detail: expected JSON"),
        ({"field-detail": "[1]"}, "detail"),
        ({"field-text": "GO AWAY"}, "do not shout"),
        ({"field-desk": "d-2"}, "Nothing was changed"),
    ],
)
async def test_invalid_edit_changes_nothing_and_says_why(
    site: Site, fields: dict[str, str], said: str
) -> None:
    letter = await site.delay()
    answer = await decide(site, letter, "edit", **fields)
    assert answer.notice.startswith("problem:") and said in answer.notice
    assert await read(site, letter) == letter
    assert all(each.result is not None and not each.result.ok for each in await site.list_audit())


async def test_a_decision_that_the_rules_refuse_is_recorded_as_failed(site: Site) -> None:
    letter = await site.delay()
    await decide(site, letter, "edit", **{"field-text": "GO AWAY"})

    intent, outcome = await site.list_entries()
    assert (intent.action, intent.phase) == ("edit", AuditPhase.INTENT)
    assert (outcome.action, outcome.phase) == ("edit", AuditPhase.OUTCOME)
    assert outcome.result is not None and not outcome.result.ok


async def test_decision_on_an_action_that_changed_since_is_not_made(site: Site) -> None:
    letter = await site.delay()
    await LETTERS.edit(site.stores, letter, by="bob", text="Good day")

    answer = await decide(site, letter, "approve")

    assert "Your decision was not made: the action was changed by bob" in answer.notice
    assert (await read(site, letter)).review == "edited"


async def test_decision_on_an_action_that_ended_says_how(site: Site) -> None:
    letter = await site.delay()
    gone = await LETTERS.cancel(site.stores, letter, by="bob", reason="wrong")
    answer = await decide(site, gone, "approve")
    assert "was cancelled by bob" in answer.notice
    page = await site.client().get(url_of(letter))
    assert "no longer waits" in page.text and 'data-dialog="approve"' not in page.html


async def test_reopens_a_refused_action(site: Site) -> None:
    letter = await refuse(site, await site.delay(), OUTCOME_UNKNOWN)
    page = await site.client().get(url_of(letter))
    assert "that you checked and that it was not done" in page.text
    answer = await decide(site, letter, "reopen")
    assert answer.notice.startswith("done:Reopened")
    assert (await read(site, letter)).status is OnceStatus.HELD


async def test_content_is_masked_and_cannot_be_edited_blindly(site: Site) -> None:
    letter = await site.delay(make_letter(text=f"Call {PHONE}"))

    page = await site.client().get(url_of(letter))
    assert PHONE not in page.text and 'name="field-text"' not in page.html
    blind = await decide(site, letter, "edit", **{"field-text": "Call ***"})
    assert "Nothing was changed" in blind.notice

    revealed = (await site.client().post("/reveal/shop", {"page": url_of(letter)})).location
    shown = await site.client().get(revealed)
    assert PHONE in shown.text and 'name="field-text"' in shown.html
    action = revealed.replace("&", "&amp;")
    assert f'action="{action}"' in shown.html
    form = {"decision": "edit", "revision": str(letter.revision), "field-text": "Write instead"}
    assert (await site.client().post(revealed, form)).notice.startswith("done:Saved")
    assert (await read(site, letter)).text == "Write instead"


async def test_only_an_operator_decides(site: Site) -> None:
    letter = await site.delay()
    assert 'data-dialog="approve"' not in (await site.client("bob").get(url_of(letter))).html
    assert (await decide(site, letter, "approve", "bob")).status == 403
    assert (await decide(site, letter, "approve", "cleo")).status == 404
    assert (await read(site, letter)).revision == letter.revision


async def test_unknown_action_and_decision_are_refused(site: Site) -> None:
    letter = await site.delay()
    assert (await site.client().get(f"{LIST}/DESK%2523d-1%23LETTER%2523nope")).status == 404
    assert (await site.client().get(f"{LIST}/nope")).status == 400
    assert (await decide(site, letter, "explode")).status == 400


async def test_list_has_pages(site: Site) -> None:
    for number in range(101):
        await site.delay(make_letter(f"l-{number}", text=f"Letter {number}."), for_s=number + 60)
    first = await site.client().get(LIST)
    assert "Letter 0." in first.text and "Letter 100." not in first.text
    (link,) = [each for each in first.html.split('"') if "after=" in each]
    assert "Letter 100." in (await site.client().get(link.replace("&amp;", "&"))).text
