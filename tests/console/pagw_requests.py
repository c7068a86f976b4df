"""Requests of PAGW for the browser tests: one in each state that a person has to look at."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import httpx2

from holdfast import Stores
from holdfast.web.demo_env import patch_environ
from holdfast_demo.pagw import sandbox
from holdfast_demo.pagw.sample.bundles import build_request_bundle, get_person
from holdfast_demo.pagw.sample.loader import PAYER_URL, build_stages
from holdfast_demo.pagw.sandbox.payer import PayerSandbox, build_payer_app
from holdfast_demo.pagw.sandbox.payer_rules import DENIED, PENDED_APPROVED
from pagw.domain.statuses import Stage, Status
from pagw.model import delivery_patterns, patterns
from pagw.model.entities import RequestUpdate, StageMessage
from pagw.model.lookup import RequestLookup
from pagw.settings import PagwSettings
from pagw.workers.intake import Intake, Submission
from tests.postgres import connect

from .site import ConsoleSite

OFFICE_VISIT = "99213"


class PagwRequests:
    """Creates requests in the stores of a console's site."""

    def __init__(self, site: ConsoleSite) -> None:
        self.site, self.number = site, 100

    def submit(self, code: str = OFFICE_VISIT, *, process: bool = True, urgency: Any = "standard") -> str:
        """Submit a request, run its stages, and return its id."""
        self.number += 1
        return self.site.act("pagw", lambda stores: _submit(stores, self.number, code, process, urgency))

    def submit_pended(self, urgency: Any = "standard") -> str:
        return self.submit(PENDED_APPROVED, urgency=urgency)

    def submit_denied(self) -> str:
        return self.submit(DENIED)

    def submit_stuck(self) -> str:
        """Submit a request that no stage moves on, since an hour."""
        pagw_id = self.submit(process=False)
        self.age(pagw_id, "updated_at", timedelta(hours=1))
        return pagw_id

    def submit_failed(self, code: str = "PAYER_CONTRADICTS_ITSELF") -> str:
        """Submit a request that failed at its payer with this error."""
        pagw_id = self.submit(process=False)

        async def fail(stores: Stores) -> None:
            update = RequestUpdate(
                error_code=code,
                error_message="The payer's answer is final, but its outcome is pended.",
                completed_at=stores.now(),
                metadata={"failedAt": "SUBMITTED", "failures": 1},
            )
            await stores.run(
                patterns.advance(pagw_id, Status.VALIDATED, Status.FAILED, Stage.done, stores.now(), update)
            )

        self.site.act("pagw", fail)
        return pagw_id

    def give_up_delivery(self, pagw_id: str) -> str:
        """Give up a notification about a request, and return its id."""
        delivery_id = f"{pagw_id}#callback"

        async def give_up(stores: Stores) -> None:
            made = delivery_patterns.create_delivery(
                delivery_id=delivery_id,
                tenant="acme",
                pagw_id=pagw_id,
                subscription_id=None,
                target="https://client.example/hooks/pagw",
                event_number=1,
                at=stores.now(),
            )
            noted = delivery_patterns.note_delivery(
                delivery_id, "given_up", stores.now(), error="the server answered 503"
            )
            await stores.transact(made, noted)

        self.site.act("pagw", give_up)
        return delivery_id

    def make_overdue(self, pagw_id: str, by: timedelta) -> None:
        """Move the whole of a request into the past, so that its decision is late by this much."""
        self.age(pagw_id, "due_at", by, from_now=True)

    def age(self, pagw_id: str, column: str, by: timedelta, *, from_now: bool = False) -> None:
        """Set a time of a request back."""
        start = "%s::timestamptz" if from_now else column
        now = datetime.fromtimestamp(self.site.console.own.clock.now()).astimezone()
        values = ((now,) if from_now else ()) + (by, pagw_id)
        with connect(self.site.settings.sql) as connection:
            connection.execute(
                f"UPDATE pagw.request_tracker SET {column} = {start} - %s::interval WHERE pagw_id = %s",
                values,
            )


async def _submit(stores: Stores, number: int, code: str, process: bool, urgency: Any) -> str:
    """Accept a request and run its stages with a payer in this process."""
    payer = PayerSandbox(clock=stores.clock, decide_after_s=1e9)
    variables = sandbox.build_variables({"payer": PAYER_URL}, PagwSettings.load().public_url)
    transport = httpx2.ASGITransport(build_payer_app(payer))
    with patch_environ(variables):
        async with httpx2.AsyncClient(transport=transport) as http:
            bundle = build_request_bundle(
                member=get_person(number), items=(code,), urgency=urgency, reference=f"BROWSER-{number}"
            )
            intake = Intake(stores, PagwSettings.load(), RequestLookup.open())
            submission = Submission("acme", f"browser-{number}", json.dumps(bundle).encode())
            accepted = await intake.accept(submission)
            if process:
                await _run_stages(stores, accepted.pagw_id, build_stages(stores, http))
            return accepted.pagw_id


async def _run_stages(stores: Stores, pagw_id: str, stages: Any) -> None:
    """Run the stages of a request until it ends or waits for its payer."""
    request = await stores.run(patterns.request("acme", pagw_id))
    while request is not None and request.stage is not None and request.stage in stages:
        stage = stages[request.stage]
        message = StageMessage(pagw_id=pagw_id, tenant="acme", stage=stage.stage)
        result = await stage.run(request, message)
        if result is not None:
            await stage.write_result(request, message, result)
        following = await stores.run(patterns.request("acme", pagw_id))
        request = None if following is None or following.stage is request.stage else following
