"""HTTP tests of the directory: SCIM users as identity providers call them, and the CSV import."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.cases import all_cases
from tests.systems.tripcortex.acceptance.live_service import Service, start_service
from tripcortex.directory.scim import ENTERPRISE, ERROR, LIST_RESPONSE, MEDIA_TYPE, PATCH_OP, TRAVEL, USER

ADMIN = {"is_admin": True}
COMPANY = "id,user_name,manager_id,level,department,roles\nemp-1,ceo,,,,\nemp-7,boss,emp-1,L1,Sales,finance\n"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with start_service(tmp_path_factory.mktemp("directory"), with_policies=True) as made:
        loaded = made.call("POST", "/directory/import", "emp-1", token=ADMIN, content=COMPANY, headers=CSV)
        assert loaded.status_code == 200, loaded.text
        yield made


CSV = {"content-type": "text/csv"}


def call(web: Service, method: str, path: str, **more: Any) -> httpx2.Response:
    """Call a SCIM route as an admin."""
    return web.call(method, f"/scim/v2/{path}", "emp-1", token=ADMIN, **more)


def make_user(number: str, **more: Any) -> dict[str, Any]:
    return {
        "schemas": [USER, ENTERPRISE],
        "userName": f"{number}@northwind.example",
        ENTERPRISE: {"employeeNumber": number},
        **more,
    }


def patch(web: Service, id: str, *operations: dict[str, Any], **more: Any) -> httpx2.Response:
    return call(web, "PATCH", f"Users/{id}", json={"schemas": [PATCH_OP], "Operations": operations}, **more)


def check_error(response: httpx2.Response, status: int, scim_type: str | None, text: str) -> None:
    """Check a SCIM error: its status is a text, and its type RFC 7644's keyword."""
    body = response.json()
    assert response.status_code == status, body
    assert response.headers["content-type"] == MEDIA_TYPE
    assert (body["schemas"], body["status"], body.get("scimType")) == ([ERROR], str(status), scim_type)
    assert text in body["detail"]


def test_identity_provider_creates_reads_and_finds_a_user(web: Service) -> None:
    user = make_user(
        "emp-42",
        externalId="00u1",
        name={"givenName": "Ada", "familyName": "Lovelace"},
        emails=[{"value": "home@example.com"}, {"value": "ada@northwind.example", "primary": True}],
        title="ignored",
    )
    user[ENTERPRISE] |= {"department": "Sales", "manager": {"value": "emp-7"}}
    user[TRAVEL] = {"level": "L2", "delegate": {"value": "emp-1", "until": "2026-03-20T00:00:00Z"}}
    made = call(web, "POST", "Users", json=user)
    assert made.status_code == 201 and made.headers["content-type"] == MEDIA_TYPE
    assert made.headers["location"].endswith("/scim/v2/Users/emp-42") and made.headers["etag"] == 'W/"1"'
    shown = call(web, "GET", "Users/emp-42").json()
    assert shown == made.json()
    assert (shown["displayName"], shown["emails"][0]["value"]) == ("Ada Lovelace", "ada@northwind.example")
    assert shown[ENTERPRISE]["manager"]["value"] == "emp-7" and shown["active"] is True
    assert shown[TRAVEL]["delegate"] == {"value": "emp-1", "until": "2026-03-20T00:00:00Z"}
    unchanged = call(web, "GET", "Users/emp-42", headers={"if-none-match": 'W/"1"'})
    assert unchanged.status_code == 304
    for wanted in ('userName eq "EMP-42@northwind.example"', 'externalId eq "00u1"', 'id eq "emp-42"'):
        found = call(web, "GET", "Users", params={"filter": wanted}).json()
        assert found["schemas"] == [LIST_RESPONSE] and found["totalResults"] == 1
        assert [each["id"] for each in found["Resources"]] == ["emp-42"]
    missing = call(web, "GET", "Users", params={"filter": 'userName eq "x\\" or 1"'}).json()
    assert (missing["totalResults"], missing["Resources"]) == (0, [])


def test_lists_are_paged(web: Service) -> None:
    for number in range(5):
        assert call(web, "POST", "Users", json=make_user(f"page-{number}", active=False)).status_code == 201
    wanted = {"filter": "active eq false", "startIndex": 2, "count": 2}
    page = call(web, "GET", "Users", params=wanted).json()
    assert [each["id"] for each in page["Resources"]] == ["page-1", "page-2"]
    assert (page["totalResults"], page["startIndex"], page["itemsPerPage"]) == (5, 2, 2)
    only_count = call(web, "GET", "Users", params={**wanted, "startIndex": -3, "count": 0}).json()
    assert (only_count["totalResults"], only_count["startIndex"], only_count["Resources"]) == (5, 1, [])


def test_patch_changes_single_attributes(web: Service) -> None:
    user = make_user("emp-50", displayName="Grace", roles=[{"value": "Travel-Desk"}])
    assert call(web, "POST", "Users", json=user).status_code == 201
    changed = patch(
        web,
        "emp-50",
        # As Entra ID and Okta send them.
        {"op": "Replace", "path": "active", "value": "False"},
        {"op": "add", "path": f"{ENTERPRISE}:manager", "value": "emp-7"},
        {"op": "replace", "path": 'emails[type eq "work"].value', "value": "grace@northwind.example"},
        {"op": "add", "path": "roles", "value": [{"value": "Legal"}]},
        {"op": "replace", "value": {"displayName": "Grace Hopper", f"{TRAVEL}:level": "VP"}},
    )
    body = changed.json()
    assert (changed.status_code, changed.headers["etag"]) == (200, 'W/"2"'), body
    assert (body["active"], body["displayName"], body[TRAVEL]) == (False, "Grace Hopper", {"level": "VP"})
    assert body[ENTERPRISE]["manager"]["value"] == "emp-7"
    assert [each["value"] for each in body["roles"]] == ["travel desk", "legal"]
    assert body["emails"] == [{"value": "grace@northwind.example", "primary": True}]
    removed = patch(
        web,
        "emp-50",
        {"op": "remove", "path": f"{ENTERPRISE}:manager"},
        {"op": "remove", "path": 'roles[value eq "legal"]'},
        {"op": "remove", "path": "emails"},
    ).json()
    assert "manager" not in removed[ENTERPRISE] and "emails" not in removed
    assert [each["value"] for each in removed["roles"]] == ["travel desk"]


def test_versions_protect_against_lost_changes(web: Service) -> None:
    assert call(web, "POST", "Users", json=make_user("emp-60")).status_code == 201
    first = {"if-match": 'W/"1"'}
    renamed = make_user("emp-60", displayName="First")
    assert call(web, "PUT", "Users/emp-60", json=renamed, headers=first).status_code == 200
    check_error(call(web, "PUT", "Users/emp-60", json=renamed, headers=first), 412, None, "at version 2")
    late = patch(web, "emp-60", {"op": "remove", "path": "displayName"}, headers=first)
    check_error(late, 412, None, "at version 2")
    check_error(call(web, "DELETE", "Users/emp-60", headers=first), 412, None, "at version 2")
    deleted = call(web, "DELETE", "Users/emp-60", headers={"if-match": 'W/"2"'})
    assert (deleted.status_code, deleted.content) == (204, b"")
    check_error(call(web, "GET", "Users/emp-60"), 404, None, "no employee 'emp-60'")


@all_cases(
    ("method", "path", "body", "status", "scim_type", "text"),
    [
        ("POST", "Users", make_user("emp-7"), 409, "uniqueness", "already an employee emp-7"),
        ("POST", "Users", make_user("emp-8", userName="BOSS"), 409, "uniqueness", "user name 'BOSS'"),
        ("POST", "Users", {"externalId": "emp-8"}, 400, "invalidValue", "userName is required"),
        ("POST", "Users", make_user("emp 8"), 400, "invalidSyntax", "Invalid employee id"),
        ("POST", "Users", make_user("emp-8", active="perhaps"), 400, "invalidValue", "Invalid active"),
        ("POST", "Users", [], 400, "invalidSyntax", ""),
        ("GET", "Users?filter=title%20co%20%22x%22", None, 400, "invalidFilter", "Invalid filter"),
        ("PATCH", "Users/emp-7", {"Operations": []}, 400, "invalidSyntax", "Operations"),
        (
            "PATCH",
            "Users/emp-1",
            {"Operations": [{"op": "add", "path": f"{ENTERPRISE}:manager", "value": {"value": "emp-7"}}]},
            400,
            "invalidSyntax",
            "emp-1 → emp-7 → emp-1",
        ),
        ("GET", "Schemas/urn:none", None, 404, None, "no schema"),
    ],
)
def test_errors_are_scim_errors(
    web: Service,
    method: str,
    path: str,
    body: Any,
    status: int,
    scim_type: str | None,
    text: str,
) -> None:
    more = {} if body is None else {"json": body}
    check_error(call(web, method, path, **more), status, scim_type, text)


def test_only_admins_may_read_or_change_the_directory(web: Service) -> None:
    for method, path in [
        ("GET", "/scim/v2/Users"),
        ("POST", "/scim/v2/Users"),
        ("DELETE", "/scim/v2/Users/emp-7"),
        ("GET", "/scim/v2/Schemas"),
    ]:
        check_error(web.call(method, path, "emp-7"), 403, None, "org:admin")
    refused = web.http.get("/scim/v2/Users")
    check_error(refused, 401, None, "")
    assert refused.headers["www-authenticate"].startswith("Bearer")
    assert web.call("POST", "/directory/import", "emp-7", content=COMPANY, headers=CSV).status_code == 403


def test_describes_itself_to_clients(web: Service) -> None:
    config = call(web, "GET", "ServiceProviderConfig").json()
    assert (config["patch"]["supported"], config["bulk"]["supported"]) == (True, False)
    [user] = call(web, "GET", "ResourceTypes").json()["Resources"]
    assert user["endpoint"].endswith("Users")
    ids = [each["id"] for each in call(web, "GET", "Schemas").json()["Resources"]]
    assert ids == [USER, ENTERPRISE, TRAVEL]
    assert call(web, "GET", f"Schemas/{TRAVEL}").json()["attributes"][0]["name"] == "level"


def test_import_reports_the_difference_before_it_is_made(web: Service) -> None:
    def send(text: str, **params: Any) -> httpx2.Response:
        return web.call(
            "POST", "/directory/import", "emp-1", token=ADMIN, content=text, headers=CSV, params=params
        )

    text = "id;manager_id\nemp-70;emp-1\n"
    report = send(text, dryRun=True, partial=True).json()
    assert (report["added"], report["removed"], report["isDryRun"]) == (["emp-70"], [], True)
    assert call(web, "GET", "Users/emp-70").status_code == 404
    assert send(text, partial=True).json()["added"] == ["emp-70"]
    wrong = send("id;manager_id\nemp-71;nobody\n", partial=True)
    assert wrong.status_code == 400 and "line 2: unknown manager 'nobody'" in wrong.json()["detail"]
