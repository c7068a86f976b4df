"""Trip Cortex's story, told at the terminal: a policy is uploaded and read, trips are asked for in a sentence, chosen and booked, one
is refused by the policy, one outlives a killed process, one ends in a link because the portal is away.

It plays on a stage of its own (`stage.py`), prints what happened, and raises where something is not as it should be.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from holdfast import Stores
from holdfast.clock import RunClock
from holdfast.web.sandboxes import Faults
from holdfast.web.staging import until
from tripcortex import patterns
from tripcortex.model import AuditRecord, Booking, BookingStatus
from tripcortex.parsing.sample_policy import FILE_NAME, policy_pdf, policy_rules
from tripcortex.portal.booking_once import LEASE_S
from tripcortex.portal.circuit import PortalCircuit
from tripcortex.settings import TripCortexSettings
from tripcortex.stage import WORKFLOW, Phone, Stage, staged

ADMIN: Final = "emp-1"
# The sandbox's line manager.
APPROVER: Final = "emp-7"
# Each has one trip under way at a time.
ADA, BEN, CYD, DEE, EVE, FAY, GUS = (
    f"story-{name}" for name in ("ada", "ben", "cyd", "dee", "eve", "fay", "gus")
)
QUESTION: Final = "May I fly business class on a short flight?"
SILENCE_S: Final = 30.0


@dataclass
class Story:
    stage: Stage
    console: Any

    @property
    def tuesday(self) -> date:
        """One that is far enough away for the lowest fares."""
        today = datetime.fromtimestamp(self.stage.clock.now(), UTC).date()
        return today + timedelta(days=21 + (1 - today.weekday()) % 7)

    def trip(self, to: str, more: str = "") -> str:
        back = self.tuesday + timedelta(days=2)
        return f"Book me a flight to {to} on {self.tuesday:%B} {self.tuesday.day} returning {back:%B} {back.day}{more}"


async def story(
    stores: Stores, console: Any, clock: RunClock, folder: Path, variables: Mapping[str, str]
) -> None:
    """Tells it to a Rich console."""
    if stores.system is None:
        raise AssertionError("The story is of a system, and these stores have none.")
    async with staged(stores, stores.system, clock, folder, variables) as stage:
        told = Story(stage, console)
        _opening(console)
        async with stage.at_work():
            await _uploaded(told)
            await _booked(told)
            await _asked_back(told)
            await _refused(told)
            await _approved(told)
        await _killed(told)
        async with stage.at_work():
            await _portal_away(told)
            await _unanswered(told)
        await _figures(told)


def _opening(console: Any) -> None:
    console.rule("[bold]Trip Cortex: from a sentence to a trip inside policy")
    console.print(
        "A travel portal and an issuer of tokens of our own making answer over HTTP. Employees speak over WebSockets, and a "
        "workflow drives each booking from state to state."
    )


# --- the policy --------------------------------------------------------------------------------------------------


async def _uploaded(told: Story) -> None:
    told.console.rule("A policy is uploaded")
    stage, pdf = told.stage, policy_pdf()
    serving = [each for each in (await _policies(stage)) if each["serves"]]
    method, path = ("PUT", f"/policies/{serving[-1]['id']}") if serving else ("POST", "/policies")
    form = {"file": (FILE_NAME, pdf, "application/pdf")}
    answer = await stage.ask(
        ADMIN, method, path, is_admin=True, files=form, data={"rules": json.dumps(policy_rules())}
    )
    _expect(answer.status_code, 202)
    policy_id = answer.json()["id"]

    async def read() -> dict[str, Any] | None:
        found = (await stage.ask(ADMIN, "GET", f"/policies/{policy_id}", is_admin=True)).json()
        return found if found["status"] in ("ready", "failed") else None

    policy = await until(read, "the policy to be read")
    _expect((policy["status"], policy["serves"]), ("ready", True))
    told.console.print(
        f"{FILE_NAME}, {len(pdf):,} bytes, is read into [bold]{policy['totalChunks']}[/] passages of "
        f"{policy['totalPages']} pages: text, tables and figures. It serves from now on, and the edition before it no more."
    )
    answer = await stage.ask(ADMIN, "POST", "/policies/try", is_admin=True, json={"question": QUESTION})
    best = answer.json()["passages"][0]
    told.console.print(f"Asked “{QUESTION}”, it says: {_cited(best['citation'])}")


async def _policies(stage: Stage) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await stage.ask(ADMIN, "GET", "/policies", is_admin=True)).json()["items"]
    return found


# --- trips -------------------------------------------------------------------------------------------------------


async def _booked(told: Story) -> None:
    told.console.rule("A trip, chosen over a WebSocket")
    async with told.stage.phone(ADA) as phone:
        booking_id, options = await _options(told, phone, told.trip("Chicago", ", prefer United"))
        _show_options(told, options)
        again = await phone.ask("request", text="And one to Boston tomorrow")
        _expect(again["kind"], "problem")
        told.console.print(f"A second request meanwhile is refused: [dim]{again['problem']['detail']}[/]")
        confirmation = await _chosen(told, phone, booking_id, options[0]["option_id"])
        told.console.print(
            f"Option {options[0]['option_id']} is chosen, and confirmed as [bold]{confirmation}[/]."
        )
    _expect(told.stage.orders(booking_id), 1)
    await _show_trail(told, booking_id)


async def _asked_back(told: Story) -> None:
    told.console.rule("What is not said is asked for")
    async with told.stage.phone(BEN) as phone:
        booking_id = await _requested(phone, told.trip("Portland"))
        question = (await phone.message("question", booking_id))["body"]
        told.console.print(f"“{told.trip('Portland')}”: {question['text']}")
        choice = question["choices"][0]
        answer = await phone.ask("answer", bookingId=booking_id, text=choice)
        _expect(answer["kind"], "answer")
        options = (await phone.message("options", booking_id))["body"]["options"]
        told.console.print(f"“{choice}” is answered, and {len(options)} flights are offered. Ben cancels.")
        cancelled = await phone.ask("cancel", bookingId=booking_id)
        _expect((cancelled["kind"], cancelled.get("status")), ("answer", "cancelled"))


async def _refused(told: Story) -> None:
    told.console.rule("Out of policy")
    async with told.stage.phone(CYD) as phone:
        sentence = told.trip("Chicago", " in business class")
        booking_id = await _requested(phone, sentence)
        message = await phone.message("failed", booking_id)
        (breach,) = [each for each in message["body"]["breaches"] if each["severity"] == "hard"]
        told.console.print(f"“{sentence}”: {message['body']['text']}")
        told.console.print(
            f"What would go: {breach['remedy']}. It says so here: {_cited(breach['citation'])}"
        )
    found = await told.stage.booking(CYD, booking_id)
    _expect((found.status, found.failure and found.failure.code), (BookingStatus.failed, "out_of_policy"))


async def _approved(told: Story) -> None:
    told.console.rule("Somebody lets it pass")
    stage = told.stage
    async with stage.phone(GUS) as phone, stage.phone(APPROVER) as approver:
        booking_id, options = await _options(told, phone, told.trip("Denver"))
        (breach,) = options[0]["breaches"]
        told.console.print(f"{breach['text']} It says so here: {_cited(breach['citation'])}")
        chosen = await phone.ask("choose", bookingId=booking_id, optionId=options[0]["option_id"])
        _expect(chosen["kind"], "answer")
        asked = (await approver.message("approval", booking_id))["body"]
        own = await stage.ask(GUS, "POST", f"/bookings/{booking_id}/approval", json=_decision(GUS))
        _expect(own.status_code, 404)
        decided = await stage.ask(
            APPROVER, "POST", f"/bookings/{booking_id}/approval", json=_decision(asked["employeeId"])
        )
        _expect(decided.status_code, 200)
        confirmed = (await phone.message("confirmation", booking_id))["body"]
    told.console.print(
        f"{APPROVER}, the line manager, is told and approves; Gus could not. It is confirmed as "
        f"[bold]{confirmed['confirmationNumber']}[/]."
    )


def _decision(employee_id: str) -> dict[str, str]:
    return {"employeeId": employee_id, "decision": "approve", "reason": "The customer pays."}


async def _killed(told: Story) -> None:
    """A process of its own drives this one from the choice on, and dies when the portal has booked and not yet answered."""
    told.console.rule("A process is killed between choice and confirmation")
    stage = told.stage
    async with stage.phone(DEE) as phone:
        async with stage.at_work():
            booking_id, options = await _options(told, phone, told.trip("Chicago"))
        async with stage.at_work(without=(WORKFLOW,)):
            stage.portal.faults = Faults(silent_after=1.0, silence_s=SILENCE_S)
            with stage.worker_process() as worker:
                chosen = await phone.ask("choose", bookingId=booking_id, optionId=options[0]["option_id"])
                _expect(chosen["kind"], "answer")
                await until(lambda: stage.orders(booking_id), "the portal to have booked")
                worker.kill()
            stage.portal.faults = Faults()
            found = await stage.booking(DEE, booking_id)
            _expect(found.status, BookingStatus.booking)
            told.console.print(
                "The portal has booked, and its answer never came: the worker is dead. The booking stands in "
                f"[bold]{found.status}[/]."
            )
        stage.clock.advance(LEASE_S + 1)
        async with stage.at_work():
            confirmed = (await phone.message("confirmation", booking_id))["body"]
    _expect(stage.orders(booking_id), 1)
    told.console.print(
        f"When its lease is over another worker looks up what was booked, and confirms it as "
        f"[bold]{confirmed['confirmationNumber']}[/]. The portal's ledger has it once."
    )


async def _portal_away(told: Story) -> None:
    told.console.rule("The portal is away")
    stage = told.stage
    stage.portal.is_down = True
    async with stage.phone(EVE) as phone:
        booking_id = await _requested(phone, told.trip("Seattle"))
        message = await _moved(told, phone, booking_id, "failed")
        told.console.print(f"{message['body']['text']}")
        told.console.print(f"[dim]{message['body']['fallbackUrl']}[/]")
        found = await stage.booking(EVE, booking_id)
        _expect(found.status, BookingStatus.failed)
        assert found.fallback_url is not None
        page = await stage.http.get(found.fallback_url)
        _expect(page.status_code, 200)
        while (await PortalCircuit().standing(stage.stores)).state == "closed":
            booking_id = await _requested(phone, told.trip("Seattle"))
            message = await _moved(told, phone, booking_id, "failed")
        told.console.print(
            "After some more failures its circuit is [bold]open[/]: who asks now gets the link at once, and the portal is left "
            "alone until it has had its rest."
        )
    stage.portal.is_down = False
    stage.clock.advance(TripCortexSettings.load().circuit_recovery_s + 1)


async def _unanswered(told: Story) -> None:
    told.console.rule("Nobody chooses")
    stage = told.stage
    async with stage.phone(FAY) as phone:
        booking_id, options = await _options(told, phone, told.trip("Chicago"))
        stage.clock.advance(60.0 * TripCortexSettings.load().choice_minutes + 1)
        cancelled = await stage.until_ended(FAY, booking_id)
        _expect(cancelled.status, BookingStatus.cancelled)
        assert cancelled.failure is not None
        late = await stage.ask(
            FAY, "POST", f"/bookings/{booking_id}/choice", json={"optionId": options[0]["option_id"]}
        )
        _expect(late.status_code, 409)
        told.console.print(
            f"{cancelled.failure.text} A choice that comes now is refused, and Fay may ask anew."
        )


# --- what they do with a phone -----------------------------------------------------------------------------------


async def _requested(phone: Phone, sentence: str) -> str:
    answer = await phone.ask("request", text=sentence)
    _expect(answer["kind"], "answer")
    return str(answer["bookingId"])


async def _options(told: Story, phone: Phone, sentence: str) -> tuple[str, list[dict[str, Any]]]:
    told.console.print(f"“{sentence}”")
    booking_id = await _requested(phone, sentence)
    message = await phone.message("options", booking_id)
    if message["about"] != "options":
        raise AssertionError(f"Options were expected, and this came: {message}")
    return booking_id, message["body"]["options"]


async def _chosen(told: Story, phone: Phone, booking_id: str, option_id: str) -> str:
    answer = await phone.ask("choose", bookingId=booking_id, optionId=option_id)
    _expect(answer["kind"], "answer")
    message = await phone.message("confirmation", booking_id)
    return str(message["body"]["confirmationNumber"])


async def _moved(told: Story, phone: Phone, booking_id: str, about: str) -> dict[str, Any]:
    """The message, with the clock moved over the pauses between tries."""

    def come() -> dict[str, Any] | None:
        told.stage.clock.advance(0.5)
        return next(
            (each for each in phone.told if each.get("bookingId") == booking_id and each["about"] == about),
            None,
        )

    found: dict[str, Any] = await until(come, f"the message {about}")
    return found


# --- what is shown -----------------------------------------------------------------------------------------------


def _show_options(told: Story, options: list[dict[str, Any]]) -> None:
    table = Table("", "flight", "leaves", "stops", "fare", "policy", box=None, pad_edge=False)
    for each in options:
        first = each["outbound"][0]
        says = "inside" if not each.get("breaches") else "needs approval"
        table.add_row(
            each["option_id"],
            f"{each['carrier_name']} {first['flight_number']}",
            first["departs_at"][:16].replace("T", " "),
            str(each.get("stops", 0)),
            f"${each['price_usd']}",
            f"{says}{', preferred' if each.get('is_preferred_vendor') else ''}",
        )
    told.console.print(table)
    cited = options[0].get("citations") or []
    if cited:
        told.console.print(f"Judged by: {_cited(cited[0])}")


async def _show_trail(told: Story, booking_id: str) -> None:
    table = Table("event", "step", "what it gave", "ms", title="Its audit trail", box=None, pad_edge=False)
    trail: list[AuditRecord] = list(await told.stage.stores.all(patterns.trail(booking_id)))  # type: ignore[arg-type]
    for each in trail:
        table.add_row(each.event, each.step, _brief(each.output), str(each.latency_ms or ""))
    told.console.print(table)
    events = {str(each.event) for each in trail}
    _expect(
        events
        >= {
            "policy_retrieval",
            "reasoning",
            "plan_validation",
            "flight_search",
            "user_selection",
            "booking_completion",
        },
        True,
    )


def _brief(output: Mapping[str, Any]) -> str:
    shown = {
        name: value for name, value in output.items() if isinstance(value, str | int | float) or name == "ok"
    }
    return ", ".join(f"{name} {value}" for name, value in shown.items())[:60] or "–"


def _cited(citation: Mapping[str, Any]) -> str:
    page, section, file_name = (citation.get(name) for name in ("source_page", "section_title", "file_name"))
    similarity = citation.get("similarity")
    near = f", similarity {similarity:.2f}" if isinstance(similarity, float) else ""
    at = f", page {page}" if page else ""
    return f"“{citation.get('quote')}” [dim]({file_name}{at}, {section}{near})[/]"


async def _figures(told: Story) -> None:
    """The portal's ledger against the bookings: each confirmed trip is there once, and nothing else is of these travellers. Bookings of
    the sample data that were under way have gone on meanwhile, too."""
    stage, travellers = told.stage, (ADA, BEN, CYD, DEE, EVE, FAY, GUS)
    confirmed: list[Booking] = []
    for employee in travellers:
        found = await stage.stores.all(patterns.history(employee))  # type: ignore[arg-type]
        confirmed += [each for each in found if each.status is BookingStatus.confirmed]
    _expect([stage.orders(each.booking_id) for each in confirmed], [1] * len(confirmed))
    ordered = [each["reference"] for each in stage.portal.ledger if each.get("traveller") in travellers]
    told.console.rule()
    told.console.print(
        f"{len(confirmed)} trips are confirmed, and the portal's ledger has {len(ordered)} orders of these travellers: the same "
        "ones, each once."
    )
    _expect(sorted(ordered), sorted(each.booking_id for each in confirmed))


def _expect(found: Any, wanted: Any) -> None:
    if found != wanted:
        raise AssertionError(f"{wanted!r} was expected, and {found!r} is.")
