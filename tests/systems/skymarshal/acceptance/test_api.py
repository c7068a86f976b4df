"""The HTTP API on a small sample, over a real server: queries, one disruption, invalid requests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast import open_memory_stores
from holdfast.web import make_app, serve_in_thread
from skymarshal.api.routes import MAX_PASSENGERS, build_routes
from skymarshal.system import SYSTEM
from tests.cases import all_cases
from tests.systems.skymarshal.acceptance.conftest import open_copy
from tests.systems.skymarshal.acceptance.small_airline import DAY

LATE: dict[str, Any] = {
    "kind": "delay",
    "flight_number": "EY11",
    "day": DAY.isoformat(),
    "delay_minutes": 240,
    "delay_code": "41",
    "known_at": "2026-01-29T22:00:00Z",
}
KNOWN = "OZ69826352P"


@pytest.fixture(scope="module")
def api(small_sample_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server in a thread, with a small sample. Tests of the module share it."""
    stores = open_copy(small_sample_file, tmp_path_factory.mktemp("api"))
    app = make_app("SkyMarshal", "1", build_routes(stores.for_component("api")))
    with serve_in_thread(app) as url, httpx.Client(base_url=url, timeout=30) as client:
        yield client
    asyncio.run(stores.close())


def expect_problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    """Assert that the answer is a problem+json with this status and a detail, and return its body."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body["status"] == status and body["detail"]
    return body


# --- queries ------------------------------------------------------------------------------------------------


@pytest.mark.proves("SM-45", "SM-X12")
def test_every_get_route_returns_the_figures_of_the_sample(api: httpx.Client) -> None:
    def get(path: str, **params: Any) -> Any:
        answer = api.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert get("/flights", number="ey 011", day=DAY.isoformat())["flight_id"] == "1"
    assert get("/flights/1")["flight_number"] == "EY11"
    assert len(get("/flights/1/manifest")) == 412
    assert len(get("/flights/1/manifest", status="waitlisted")) == 18
    assert get("/flights/1/seats")["left"] == 74
    assert len(get("/flights/1/waitlist")) == 18
    assert len(get("/flights/1/crew")["crew"]) == 9
    assert len(get("/flights/1/crew/1")) == len(get("/flights/1/crew/captain")) == 1
    assert get("/flights/5/cargo")["assignments"] == 23
    assert [each["passenger_id"] for each in get("/passengers", id=[KNOWN, "NOBODY"])] == [KNOWN]
    assert len(get(f"/passengers/{KNOWN}/bookings")["items"]) == 3
    assert get(f"/passengers/{KNOWN}/duplicates")["flights"] == {}
    assert isinstance(get(f"/passengers/{KNOWN}/disruptions")["items"], list)
    assert get("/bookings/1/baggage")["baggage_count"] == 2
    assert sum(get("/airports/AUH/baggage").values()) == 847
    assert get("/airports/OMAA/baggage") == get("/airports/auh/baggage")
    assert len(get("/airports/AUH/baggage/mishandled")) == 5
    assert len(get("/shipments/42")["legs"]) == 2
    staff = get("/work-orders/WO-10193/staff", at="2026-01-29T22:00:00Z", required=4)
    assert (len(staff["staff"]), staff["now"], staff["is_enough"]) == (5, 2, False)


def test_passenger_bookings_are_paginated(api: httpx.Client) -> None:
    path, found, cursor = f"/passengers/{KNOWN}/bookings", [], None
    for _ in range(3):
        answer = api.get(path, params={"limit": 1} | ({"cursor": cursor} if cursor else {})).json()
        found += [each["booking_id"] for each in answer["items"]]
        cursor = answer["cursor"]
    whole = api.get(path).json()["items"]
    assert found == [each["booking_id"] for each in whole] and len(found) == 3
    expect_problem(api.get(path, params={"cursor": "nonsense"}), 400)


# --- one disruption -----------------------------------------------------------------------------------------


def test_assesses_a_disruption_without_deciding(api: httpx.Client) -> None:
    answer = api.post("/disruptions", json=LATE)
    assert answer.status_code == 200
    body = answer.json()
    assert body["decision"] is None
    report = body["report"]
    assert (report["passengers"]["count"], len(report["passengers"]["ranked"])) == (412, 412)
    assert report["flight"]["new_departure"] == "2026-01-30T06:00:00Z"
    assert report["options"]["proposed"][0]["rank"] == 1
    assert {trace["pattern"] for trace in report["bags"]["traces"]} == {"BG3"}
    assert len(answer.content) < 512 * 1024
    assert api.get("/flights/1").json()["version"] == report["flight"]["version"]


def test_confirms_a_disruption_once_and_reports_a_repeat(api: httpx.Client) -> None:
    request = {"kind": "cancel", "flight_number": "EY6419", "day": DAY.isoformat()}
    version = api.post("/disruptions", json=request).json()["report"]["flight"]["version"]
    choice = {"option": "cancel", "decided_by": "duty manager", "disruption_id": "D-api", "version": version}
    first = api.post("/disruptions", json={**request, "confirm": choice}).json()
    again = api.post("/disruptions", json={**request, "confirm": choice}).json()
    assert (first["decision"]["repeated"], again["decision"]["repeated"]) == (False, True)
    flight = api.get("/flights", params={"number": "EY6419", "day": DAY.isoformat()}).json()
    assert flight["flight_status"] == "CANCELLED"
    hit = first["report"]["passengers"]["ranked"][0]["passenger_id"]
    rows = api.get(f"/passengers/{hit}/disruptions").json()["items"]
    assert "D-api" in {row["disruption_id"] for row in rows}

    stale = {**choice, "disruption_id": "D-other"}
    body = expect_problem(api.post("/disruptions", json={**request, "confirm": stale}), 409)
    assert body["type"] == "urn:holdfast:error:Conflict"
    assert "decide again" in body["detail"]


# --- invalid requests ---------------------------------------------------------------------------------------


@all_cases(
    "path",
    [
        "/flights/404",
        "/flights/404/manifest",
        "/flights/404/seats",
        "/flights/404/waitlist",
        "/flights/404/crew",
        "/flights/404/crew/1",
        "/flights/404/cargo",
        "/flights?number=EY999&day=2026-01-30",
        "/flights?number=EY11&day=2031-01-30",
        "/bookings/none/baggage",
        "/shipments/none",
        "/airports/QQQ/baggage",
        "/airports/QQQ/baggage/mishandled",
        "/work-orders/WO-0/staff",
    ],
)
def test_unknown_ids_give_404(api: httpx.Client, path: str) -> None:
    assert expect_problem(api.get(path), 404)["type"] == "urn:holdfast:error:NotFound"


@all_cases(
    ("path", "pointer"),
    [
        ("/flights?number=11&day=2026-01-30", "/query/number"),
        ("/flights?number=EY11&day=2026-02-30", "/query/day"),
        ("/flights?number=EY11", "/query/day"),
        ("/flights?number=EY11&day=9999-12-31", "/query/day"),
        ("/flights/1/manifest?status=elsewhere", "/query/status"),
        ("/flights/1/crew/stowaway", "/path/position"),
        ("/airports/A1/baggage", "/path/airport"),
        ("/airports/QQQQ/baggage", "/path/airport"),
        ("/passengers", "/query/id"),
        ("/work-orders/WO-1/staff?at=2026-01-30T00:00:00", "/query/at"),
        ("/work-orders/WO-1/staff?required=-1", "/query/required"),
    ],
)
def test_names_the_invalid_parameter(api: httpx.Client, path: str, pointer: str) -> None:
    body = expect_problem(api.get(path), 422)
    assert [fault["pointer"] for fault in body["errors"]] == [pointer]


@all_cases(
    ("change", "status", "message"),
    [
        ({"flight_number": "EY999"}, 404, "No flight EY999"),
        ({"day": "2026-02-30"}, 422, "day"),
        ({"day": None}, 422, "name the flight"),
        ({"day": "9999-12-31"}, 422, "day"),
        ({"known_at": "9999-12-31T23:59:59Z"}, 422, "known_at"),
        ({"delay_minutes": 0}, 422, "a delay needs delay_minutes"),
        ({"delay_minutes": -5}, 422, "delay_minutes"),
        ({"delay_minutes": "soon"}, 422, "delay_minutes"),
        ({"delay_code": "ZZZ"}, 400, "IATA"),
        ({"kind": "late-ish"}, 422, "kind"),
        ({"kind": "swap", "swap_to": "boat"}, 422, "swap_to"),
        ({"kind": "swap", "swap_to": "A6-XYZ"}, 404, "A6-XYZ"),
        ({"surprise": 1}, 422, "surprise"),
        ({"confirm": {"option": "teleport", "decided_by": "me"}}, 400, "those proposed"),
        ({"confirm": {"option": "delay"}}, 422, "decided_by"),
        ({"confirm": {"option": "delay", "decided_by": ""}}, 422, "decided_by"),
    ],
)
def test_refuses_an_invalid_disruption_with_the_reason(
    api: httpx.Client, change: dict[str, Any], status: int, message: str
) -> None:
    answer = api.post("/disruptions", json={**LATE, **change})
    expect_problem(answer, status)
    assert message in answer.text


@all_cases("body", [b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe", b'{"kind": NaN}'])
def test_malformed_body_gives_a_problem(api: httpx.Client, body: bytes) -> None:
    answer = api.post("/disruptions", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    expect_problem(answer, answer.status_code)


def test_refuses_too_many_passengers_and_names_the_limit(api: httpx.Client) -> None:
    most = [f"P{n}" for n in range(MAX_PASSENGERS)]
    assert api.get("/passengers", params={"id": most}).status_code == 200
    body = expect_problem(api.get("/passengers", params={"id": [*most, "one more"]}), 400)
    assert "expected at most 500" in body["detail"]


@all_cases("path", ["/flights/{}", "/passengers/{}/bookings", "/bookings/{}/baggage"])
def test_overlong_key_gives_a_problem_instead_of_a_failure(api: httpx.Client, path: str) -> None:
    answer = api.get(path.format("x" * 3_000))
    assert answer.status_code in (400, 404)
    expect_problem(answer, answer.status_code)


# --- the description ----------------------------------------------------------------------------------------


async def test_openapi_describes_every_route_and_the_problems_of_disruptions(api: httpx.Client) -> None:
    described = api.get("/openapi.json").json()["paths"]
    stores = open_memory_stores(SYSTEM)
    declared = {
        (route.path, method.lower())  # type: ignore[attr-defined]
        for router in build_routes(stores)
        for route in router.routes
        for method in route.methods  # type: ignore[attr-defined]
    }
    await stores.close()
    assert len(declared) >= 18
    for path, method in declared:
        operation = described[path][method]
        assert operation["summary"] and operation["tags"]
        assert operation["responses"]["200"]["content"]["application/json"]["schema"]
        placed = {each["name"] for each in operation.get("parameters", []) if each["in"] == "path"}
        assert placed == set(re.findall(r"{(\w+)}", path))
    assert {"404", "409", "422"} <= described["/disruptions"]["post"]["responses"].keys()
