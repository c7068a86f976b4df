"""The demo story of Trip Cortex: upload a policy, then request, choose and book trips by sentence.

The policy refuses one trip, one survives a killed process, one ends in a link because the portal is down. The
story starts its own processes (`demo_processes`), prints what happened, and raises if a result is not as
expected.
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
from holdfast.core.clock import RunClock
from holdfast.web.demo_env import wait_until
from holdfast.web.sandbox_faults import Faults
from holdfast_demo.tripcortex.demo_processes import WORKFLOW, DemoProcesses, Phone, open_demo
from holdfast_demo.tripcortex.sample.policy_document import FILE_NAME, build_policy_pdf, build_policy_rules
from tripcortex.integrations.portal.circuit import BREAKER, PORTAL_CIRCUIT
from tripcortex.integrations.portal.purchases import LEASE_S
from tripcortex.model import patterns
from tripcortex.model.entities import AuditRecord, Booking, BookingStatus
from tripcortex.settings import TripCortexSettings

ADMIN: Final = "emp-1"
OTHER_ADMIN: Final = "emp-2"
# The sandbox's line manager.
APPROVER: Final = "emp-7"
# Each has one active booking at a time.
ADA, BEN, CYD, DEE, EVE, FAY, GUS = (
    f"story-{name}" for name in ("ada", "ben", "cyd", "dee", "eve", "fay", "gus")
)
QUESTION: Final = "May I fly business class on a short flight?"
# The words of the document's rule that the story confirms.
FIRST_CLASS: Final = "First class is never booked"
SILENCE_S: Final = 30.0


@dataclass
class StoryRun:
    """One run of the story: the processes, and the Rich console that it prints to."""

    processes: DemoProcesses
    console: Any

    @property
    def departure_day(self) -> date:
        """Return the first Tuesday at least three weeks ahead, when fares are lowest."""
        today = datetime.fromtimestamp(self.processes.clock.now(), UTC).date()
        return today + timedelta(days=21 + (1 - today.weekday()) % 7)

    def format_request(self, city: str, suffix: str = "") -> str:
        """Return a request for a trip to the city from `departure_day` for two days; `suffix` is appended."""
        back = self.departure_day + timedelta(days=2)
        return (
            f"Book me a flight to {city} on {self.departure_day:%B} {self.departure_day.day} returning "
            f"{back:%B} "
            f"{back.day}{suffix}"
        )


async def run_story(
    stores: Stores, console: Any, clock: RunClock, folder: Path, variables: Mapping[str, str]
) -> None:
    """Run all scenes and print them to a Rich console. Raise `AssertionError` if a result is unexpected."""
    if stores.system is None:
        raise AssertionError("The story needs stores that were opened for a system.")
    async with open_demo(stores, stores.system, clock, folder, variables) as processes:
        run = StoryRun(processes, console)
        _print_introduction(console)
        async with processes.run_workers():
            policy_id = await _upload_policy(run)
            await _review_rules(run, policy_id)
            await _book_trip(run)
            await _answer_question(run)
            await _request_out_of_policy(run)
            await _approve_breach(run)
        await _kill_worker(run)
        async with processes.run_workers():
            await _take_portal_down(run)
            await _let_choice_expire(run)
        await _check_ledger(run)


def _print_introduction(console: Any) -> None:
    console.rule("[bold]Trip Cortex: from a sentence to a trip inside policy")
    console.print(
        "Sandboxes of a travel portal and a token issuer answer over HTTP. Employees connect over "
        "WebSockets, and a workflow drives each booking from state to state."
    )


# --- the policy ---------------------------------------------------------------------------------------------


async def _upload_policy(run: StoryRun) -> str:
    """Upload the sample policy, wait until it is ingested, try a question, and return the edition's id.

    If a policy is in service, it is uploaded as that document's next edition.
    """
    run.console.rule("A policy is uploaded")
    processes, pdf = run.processes, build_policy_pdf()
    serving = [each for each in (await _list_policies(processes)) if each["serves"]]
    method, path = ("PUT", f"/policies/{serving[-1]['id']}") if serving else ("POST", "/policies")
    form = {"file": (FILE_NAME, pdf, "application/pdf")}
    answer = await processes.request(
        ADMIN, method, path, is_admin=True, files=form, data={"rules": json.dumps(build_policy_rules())}
    )
    _expect(answer.status_code, 202)
    policy_id = answer.json()["id"]

    async def read() -> dict[str, Any] | None:
        found = (await processes.request(ADMIN, "GET", f"/policies/{policy_id}", is_admin=True)).json()
        return found if found["status"] in ("ready", "failed") else None

    policy = await wait_until(read, "the policy to be read")
    _expect((policy["status"], policy["serves"]), ("ready", True))
    run.console.print(
        f"{FILE_NAME}, {len(pdf):,} bytes, is ingested as [bold]{policy['totalChunks']}[/] passages from "
        f"{policy['totalPages']} pages: text, tables and figures. It replaces the previous edition in "
        "service."
    )
    answer = await processes.request(
        ADMIN, "POST", "/policies/try", is_admin=True, json={"question": QUESTION}
    )
    best = answer.json()["passages"][0]
    run.console.print(f"“{QUESTION}” finds: {_format_citation(best['citation'])}")
    return str(policy_id)


async def _review_rules(run: StoryRun, policy_id: str) -> None:
    """Confirm a rule that was read from the document; show that another admin's late decision is refused.

    The story's trips are judged by the JSON, which counts as confirmed by the admin who uploaded it.
    """
    run.console.rule("An administrator reviews the rules")
    processes, path = run.processes, f"/policies/{policy_id}/rules"
    rules = (await processes.request(ADMIN, "GET", path, is_admin=True)).json()["items"]
    proposed = [each for each in rules if each["status"] == "proposed"]
    run.console.print(
        f"{len(rules) - len(proposed)} rules are confirmed: those of the JSON, and those of the previous "
        f"edition that did not change. The document proposes {len(proposed)} more, which do not decide yet."
    )
    rule = next((each for each in proposed if each["isComplete"] and FIRST_CLASS in each["quote"]), None)
    if rule is not None:
        decision = {"version": rule["version"]}
        confirmed = await processes.request(
            ADMIN, "POST", f"{path}/{rule['ruleId']}/confirm", is_admin=True, json=decision
        )
        _expect((confirmed.status_code, confirmed.json()["status"]), (200, "confirmed"))
        late = await processes.request(
            OTHER_ADMIN, "POST", f"{path}/{rule['ruleId']}/reject", is_admin=True, json=decision
        )
        _expect(late.status_code, 409)
        page = f"page {rule['page']}"
        run.console.print(f"{ADMIN} confirms “{rule['quote']}” ({page}). {OTHER_ADMIN} decides too late:")
        run.console.print(f"[dim]{late.json()['detail']}[/]")
    await _try_trip(run)


async def _try_trip(run: StoryRun) -> None:
    """Judge a sample trip by the rules, without booking anything."""
    trip = {
        "origin": "BOS",
        "destination": "ORD",
        "depart": run.departure_day.isoformat(),
        "cabin": "business",
        "price_usd": 900,
    }
    answer = await run.processes.request(
        ADMIN, "POST", "/policies/rules/try", is_admin=True, json={"trips": [trip]}
    )
    (tried,) = answer.json()["items"]
    _expect(tried["now"]["verdict"], "forbidden")
    reasons = " ".join(each["text"] for each in tried["now"]["breaches"])
    run.console.print(f"A dry run of BOS → ORD in business for $900: {tried['now']['verdict']}. {reasons}")


async def _list_policies(processes: DemoProcesses) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await processes.request(ADMIN, "GET", "/policies", is_admin=True)).json()[
        "items"
    ]
    return found


# --- trips --------------------------------------------------------------------------------------------------


async def _book_trip(run: StoryRun) -> None:
    """Book Ada's trip over a WebSocket; show that a second request at the same time is refused."""
    run.console.rule("A trip, chosen over a WebSocket")
    async with run.processes.open_phone(ADA) as phone:
        booking_id, options = await _request_options(
            run, phone, run.format_request("Chicago", ", prefer United")
        )
        _show_options(run, options)
        again = await phone.send_action("request", text="And one to Boston tomorrow")
        _expect(again["kind"], "problem")
        run.console.print(
            f"A second request at the same time is refused: [dim]{again['problem']['detail']}[/]"
        )
        confirmation = await _choose_option(run, phone, booking_id, options[0]["option_id"])
        run.console.print(
            f"Option {options[0]['option_id']} is chosen, and confirmed as [bold]{confirmation}[/]."
        )
    _expect(run.processes.count_orders(booking_id), 1)
    await _show_trail(run, booking_id)


async def _answer_question(run: StoryRun) -> None:
    """Let Ben answer the planner's question about Portland, get options, and cancel."""
    run.console.rule("The planner asks for what is missing")
    async with run.processes.open_phone(BEN) as phone:
        booking_id = await _send_request(phone, run.format_request("Portland"))
        question = (await phone.wait_for_message("question", booking_id))["body"]
        run.console.print(f"“{run.format_request('Portland')}”: {question['text']}")
        choice = question["choices"][0]
        answer = await phone.send_action("answer", bookingId=booking_id, text=choice)
        _expect(answer["kind"], "answer")
        options = (await phone.wait_for_message("options", booking_id))["body"]["options"]
        run.console.print(f"Ben answers “{choice}” and is offered {len(options)} flights. He cancels.")
        cancelled = await phone.send_action("cancel", bookingId=booking_id)
        _expect((cancelled["kind"], cancelled.get("status")), ("answer", "cancelled"))


async def _request_out_of_policy(run: StoryRun) -> None:
    """Let Cyd request business class; show that the policy refuses it with a citation."""
    run.console.rule("Out of policy")
    async with run.processes.open_phone(CYD) as phone:
        sentence = run.format_request("Chicago", " in business class")
        booking_id = await _send_request(phone, sentence)
        message = await phone.wait_for_message("failed", booking_id)
        (breach,) = [each for each in message["body"]["breaches"] if each["severity"] == "hard"]
        run.console.print(f"“{sentence}”: {message['body']['text']}")
        run.console.print(f"Remedy: {breach['remedy']}. Source: {_format_citation(breach['citation'])}")
    found = await run.processes.get_booking(CYD, booking_id)
    _expect((found.status, found.failure and found.failure.code), (BookingStatus.failed, "out_of_policy"))


async def _approve_breach(run: StoryRun) -> None:
    """Let Gus choose a flight that needs approval; show that only the line manager can approve it."""
    run.console.rule("An approver approves a breach")
    processes = run.processes
    async with processes.open_phone(GUS) as phone, processes.open_phone(APPROVER) as approver:
        booking_id, options = await _request_options(run, phone, run.format_request("Denver"))
        (breach,) = options[0]["breaches"]
        run.console.print(f"{breach['text']} Source: {_format_citation(breach['citation'])}")
        chosen = await phone.send_action("choose", bookingId=booking_id, optionId=options[0]["option_id"])
        _expect(chosen["kind"], "answer")
        approval = (await approver.wait_for_message("approval", booking_id))["body"]
        own = await processes.request(
            GUS, "POST", f"/bookings/{booking_id}/approval", json=_build_decision(GUS)
        )
        _expect(own.status_code, 404)
        decided = await processes.request(
            APPROVER, "POST", f"/bookings/{booking_id}/approval", json=_build_decision(approval["employeeId"])
        )
        _expect(decided.status_code, 200)
        confirmed = (await phone.wait_for_message("confirmation", booking_id))["body"]
    run.console.print(
        f"{APPROVER}, the line manager, gets a message and approves; Gus may not. The trip is confirmed as "
        f"[bold]{confirmed['confirmationNumber']}[/]."
    )


def _build_decision(employee_id: str) -> dict[str, str]:
    """Return the body that approves the booking of this employee."""
    return {"employeeId": employee_id, "decision": "approve", "reason": "The customer pays."}


async def _kill_worker(run: StoryRun) -> None:
    """Let a separate process buy Dee's trip and kill it after the portal has booked, before it answers.

    Then let another worker confirm the same order.
    """
    run.console.rule("A process is killed between choice and confirmation")
    processes = run.processes
    async with processes.open_phone(DEE) as phone:
        async with processes.run_workers():
            booking_id, options = await _request_options(run, phone, run.format_request("Chicago"))
        async with processes.run_workers(without=(WORKFLOW,)):
            processes.portal.faults = Faults(silent_after=1.0, silence_s=SILENCE_S)
            with processes.start_worker_process() as worker:
                chosen = await phone.send_action(
                    "choose", bookingId=booking_id, optionId=options[0]["option_id"]
                )
                _expect(chosen["kind"], "answer")
                await wait_until(lambda: processes.count_orders(booking_id), "the portal to have booked")
                worker.kill()
            processes.portal.faults = Faults()
            found = await processes.get_booking(DEE, booking_id)
            _expect(found.status, BookingStatus.booking)
            run.console.print(
                "The portal has booked, but its answer never arrived: the worker is dead. The booking's "
                "status is "
                f"[bold]{found.status}[/]."
            )
        processes.clock.advance(LEASE_S + 1)
        async with processes.run_workers():
            confirmed = (await phone.wait_for_message("confirmation", booking_id))["body"]
    _expect(processes.count_orders(booking_id), 1)
    run.console.print(
        f"When its lease expires another worker looks up the order and confirms it as "
        f"[bold]{confirmed['confirmationNumber']}[/]. The portal's ledger has one order."
    )


async def _take_portal_down(run: StoryRun) -> None:
    """Let Eve request trips while the portal is down until its circuit opens; then bring the portal back."""
    run.console.rule("The portal is down")
    processes = run.processes
    processes.portal.is_down = True
    async with processes.open_phone(EVE) as phone:
        booking_id = await _send_request(phone, run.format_request("Seattle"))
        message = await _wait_with_clock(run, phone, booking_id, "failed")
        run.console.print(f"{message['body']['text']}")
        run.console.print(f"[dim]{message['body']['fallbackUrl']}[/]")
        found = await processes.get_booking(EVE, booking_id)
        _expect(found.status, BookingStatus.failed)
        assert found.fallback_url is not None
        page = await processes.http.get(found.fallback_url)
        _expect(page.status_code, 200)
        while (await BREAKER.get_circuit(processes.stores, PORTAL_CIRCUIT)).state == "closed":
            booking_id = await _send_request(phone, run.format_request("Seattle"))
            message = await _wait_with_clock(run, phone, booking_id, "failed")
        run.console.print(
            "After some more failures its circuit is [bold]open[/]: requests get the link at once, and the "
            "portal is not called until the recovery time has passed."
        )
    processes.portal.is_down = False
    processes.clock.advance(TripCortexSettings.load().circuit_recovery_s + 1)


async def _let_choice_expire(run: StoryRun) -> None:
    """Let Fay's options expire; show that the booking is cancelled and a late choice refused."""
    run.console.rule("The choice expires")
    processes = run.processes
    async with processes.open_phone(FAY) as phone:
        booking_id, options = await _request_options(run, phone, run.format_request("Chicago"))
        processes.clock.advance(60.0 * TripCortexSettings.load().choice_minutes + 1)
        cancelled = await processes.wait_until_ended(FAY, booking_id)
        _expect(cancelled.status, BookingStatus.cancelled)
        assert cancelled.failure is not None
        late = await processes.request(
            FAY, "POST", f"/bookings/{booking_id}/choice", json={"optionId": options[0]["option_id"]}
        )
        _expect(late.status_code, 409)
        run.console.print(
            f"{cancelled.failure.text} A late choice is refused, and Fay may request a new trip."
        )


# --- actions over a WebSocket -------------------------------------------------------------------------------


async def _send_request(phone: Phone, sentence: str) -> str:
    """Send a trip request and return the id of its booking."""
    answer = await phone.send_action("request", text=sentence)
    _expect(answer["kind"], "answer")
    return str(answer["bookingId"])


async def _request_options(run: StoryRun, phone: Phone, sentence: str) -> tuple[str, list[dict[str, Any]]]:
    """Request a trip and wait for its options; return the booking's id and the options."""
    run.console.print(f"“{sentence}”")
    booking_id = await _send_request(phone, sentence)
    message = await phone.wait_for_message("options", booking_id)
    if message["about"] != "options":
        raise AssertionError(f"Expected options, got {message}.")
    return booking_id, message["body"]["options"]


async def _choose_option(run: StoryRun, phone: Phone, booking_id: str, option_id: str) -> str:
    """Choose an option, wait for the confirmation and return its number."""
    answer = await phone.send_action("choose", bookingId=booking_id, optionId=option_id)
    _expect(answer["kind"], "answer")
    message = await phone.wait_for_message("confirmation", booking_id)
    return str(message["body"]["confirmationNumber"])


async def _wait_with_clock(run: StoryRun, phone: Phone, booking_id: str, about: str) -> dict[str, Any]:
    """Wait for the message, advancing the clock past the pauses between attempts."""

    def find() -> dict[str, Any] | None:
        run.processes.clock.advance(0.5)
        return next(
            (
                each
                for each in phone.messages
                if each.get("bookingId") == booking_id and each["about"] == about
            ),
            None,
        )

    found: dict[str, Any] = await wait_until(find, f"the message {about}")
    return found


# --- output -------------------------------------------------------------------------------------------------


def _show_options(run: StoryRun, options: list[dict[str, Any]]) -> None:
    """Print the options as a table, and the first citation."""
    table = Table("", "flight", "leaves", "stops", "fare", "policy", box=None, pad_edge=False)
    for each in options:
        first = each["outbound"][0]
        verdict = "inside" if not each.get("breaches") else "needs approval"
        table.add_row(
            each["option_id"],
            f"{each['carrier_name']} {first['flight_number']}",
            first["departs_at"][:16].replace("T", " "),
            str(each.get("stops", 0)),
            f"${each['price_usd']}",
            f"{verdict}{', preferred' if each.get('is_preferred_vendor') else ''}",
        )
    run.console.print(table)
    cited = options[0].get("citations") or []
    if cited:
        run.console.print(f"Judged by: {_format_citation(cited[0])}")


async def _show_trail(run: StoryRun, booking_id: str) -> None:
    """Print a booking's audit trail as a table; check that it has an event of every kind of step."""
    table = Table("event", "step", "output", "ms", title="The audit trail", box=None, pad_edge=False)
    stores = run.processes.stores
    trail: list[AuditRecord] = list(await stores.all(patterns.trail(booking_id)))  # type: ignore[arg-type]
    for each in trail:
        table.add_row(each.event, each.step, _summarize_output(each.output), str(each.latency_ms or ""))
    run.console.print(table)
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


def _summarize_output(output: Mapping[str, Any]) -> str:
    """Return the plain values of an audit entry's output, cut to 60 characters."""
    shown = {
        name: value for name, value in output.items() if isinstance(value, str | int | float) or name == "ok"
    }
    return ", ".join(f"{name} {value}" for name, value in shown.items())[:60] or "–"


def _format_citation(citation: Mapping[str, Any]) -> str:
    """Return quote, file, page, section and similarity with Rich markup."""
    page, section, file_name = (citation.get(name) for name in ("source_page", "section_title", "file_name"))
    similarity = citation.get("similarity")
    near = f", similarity {similarity:.2f}" if isinstance(similarity, float) else ""
    at = f", page {page}" if page else ""
    return f"“{citation.get('quote')}” [dim]({file_name}{at}, {section}{near})[/]"


async def _check_ledger(run: StoryRun) -> None:
    """Compare the portal's ledger with the bookings: one order per confirmed trip, and no other.

    Only the story's travellers count: active bookings of the sample have continued meanwhile, too.
    """
    processes, travellers = run.processes, (ADA, BEN, CYD, DEE, EVE, FAY, GUS)
    confirmed: list[Booking] = []
    for employee in travellers:
        found = await processes.stores.all(patterns.history(employee))  # type: ignore[arg-type]
        confirmed += [each for each in found if each.status is BookingStatus.confirmed]
    _expect([processes.count_orders(each.booking_id) for each in confirmed], [1] * len(confirmed))
    ordered = [each["reference"] for each in processes.portal.ledger if each.get("traveller") in travellers]
    run.console.rule()
    run.console.print(
        f"{len(confirmed)} trips are confirmed, and the portal's ledger has {len(ordered)} orders of these "
        "travellers: the same trips, each once."
    )
    _expect(sorted(ordered), sorted(each.booking_id for each in confirmed))


def _expect(actual: Any, expected: Any) -> None:
    """Raise `AssertionError` unless the values are equal."""
    if actual != expected:
        raise AssertionError(f"Expected {expected!r}, got {actual!r}.")
