"""Directory routes, for admins only: SCIM 2.0 users, and the import of a CSV file.

SCIM requests, responses and errors are JSON as RFC 7644 defines them, not the problem documents of the other
routes.
"""

import json
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import RootModel, ValidationError
from starlette.exceptions import HTTPException

from holdfast import Stores
from holdfast.core.errors import HoldfastError, NotFound, RetryLater
from holdfast.web import BytesBody, JsonBody
from holdfast.web.problems import build_error_response
from tripcortex.api.identity import Employee
from tripcortex.api.routes.auth import Gate
from tripcortex.api.routes.schemas import ImportView
from tripcortex.directory import changes, scim
from tripcortex.directory.csv_import import MAX_BYTES, import_csv
from tripcortex.directory.scim_descriptions import (
    build_resource_types,
    build_schemas,
    build_service_provider_config,
)
from tripcortex.model import directory
from tripcortex.model.directory import MAX_LIST, EmployeeRow

PREFIX: Final = "/scim/v2"
DEFAULT_COUNT: Final = 100
# A larger number reaches no store.
MAX_NUMBER: Final = 2**31 - 1
PRECONDITION_FAILED: Final = 412
MAX_ATTEMPTS: Final = 10
CSV_TYPES: Final = ("text/csv", "application/csv", "text/plain", "application/vnd.ms-excel")
# RFC 7644's keyword for an error, by status.
SCIM_TYPES: Final[Mapping[int, str]] = {400: "invalidSyntax", 409: "uniqueness"}
_ERRORS: Final = (HoldfastError, HTTPException, RequestValidationError, ValidationError)

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ScimBody(RootModel[dict[str, Any]]):
    """A SCIM user or PatchOp, as RFC 7643 and RFC 7644 define them."""


class ScimResponse(JSONResponse):
    """A response with a SCIM resource."""

    media_type = scim.MEDIA_TYPE


class ScimRoute(APIRoute):
    """A route whose errors are SCIM errors."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def handle_scim(request: Request) -> Response:
            try:
                return await handle(request)
            except _ERRORS as error:
                return _build_error(request, error)

        return handle_scim


def _build_error(request: Request, error: Exception) -> Response:
    """Return the SCIM error of an error, with the status and headers that other routes use."""
    response = build_error_response(request, error)
    # RFC 7644, section 3.14: a version that an If-Match header names and that is not the current one.
    status = PRECONDITION_FAILED if isinstance(error, changes.EmployeeChanged) else response.status_code
    detail = str(json.loads(bytes(response.body)).get("detail", "")) if response.body else ""
    scim_type = error.scim_type if isinstance(error, scim.InvalidScim) else SCIM_TYPES.get(status)
    kept = ("www-authenticate", "retry-after")
    headers = {name: response.headers[name] for name in kept if name in response.headers}
    return ScimResponse(scim.build_error(status, detail, scim_type), status, headers)


def build_scim_routes(gate: Gate) -> APIRouter:
    """Return the routes of SCIM users."""
    router = APIRouter(
        prefix=PREFIX, tags=["directory"], route_class=ScimRoute, default_response_class=ScimResponse
    )
    stores = gate.stores

    @router.get("/Users", operation_id="listScimUsers", summary="List users, or find one by a filter")
    async def list_users(
        employee: Annotated[Employee, Depends(gate.admin)],
        request: Request,
        filter: Annotated[
            str | None,
            Query(description='userName, externalId, id or active, eq, a value: userName eq "ada".'),
        ] = None,
        start_index: Annotated[
            int, Query(alias="startIndex", le=MAX_NUMBER, description="The first user, from 1.")
        ] = 1,
        count: Annotated[
            int, Query(le=MAX_NUMBER, description="How many users, at most 200.")
        ] = DEFAULT_COUNT,
    ) -> Response:
        return ScimResponse(await _list_users(stores, _get_base(request), filter, start_index, count))

    @router.post("/Users", operation_id="createScimUser", summary="Add a user", status_code=201)
    async def create_user(
        employee: Annotated[Employee, Depends(gate.admin)],
        request: Request,
        body: Annotated[ScimBody, Depends(JsonBody(ScimBody))],
    ) -> Response:
        row = await changes.create_employee(stores, scim.parse_user(body.root), _get_now(stores))
        return _build_user_response(row, _get_base(request), 201)

    @router.get("/Users/{user_id}", operation_id="getScimUser", summary="Get a user")
    async def get_user(
        employee: Annotated[Employee, Depends(gate.admin)], request: Request, user_id: str
    ) -> Response:
        row = await changes.load_employee(stores, user_id)
        if request.headers.get("if-none-match") == scim.build_etag(row):
            return Response(status_code=304, headers={"etag": scim.build_etag(row)})
        return _build_user_response(row, _get_base(request))

    @router.put("/Users/{user_id}", operation_id="replaceScimUser", summary="Replace a user")
    async def replace_user(
        employee: Annotated[Employee, Depends(gate.admin)],
        request: Request,
        user_id: str,
        body: Annotated[ScimBody, Depends(JsonBody(ScimBody))],
    ) -> Response:
        new = scim.parse_user(body.root, user_id)
        seen = scim.parse_etag(request.headers.get("if-match"))
        row = await changes.replace_employee(stores, new, _get_now(stores), seen=seen)
        await _reassign_if_left(gate, row)
        return _build_user_response(row, _get_base(request))

    @router.patch("/Users/{user_id}", operation_id="patchScimUser", summary="Change attributes of a user")
    async def patch_user(
        employee: Annotated[Employee, Depends(gate.admin)],
        request: Request,
        user_id: str,
        body: Annotated[ScimBody, Depends(JsonBody(ScimBody))],
    ) -> Response:
        seen = scim.parse_etag(request.headers.get("if-match"))
        row = await _patch_user(stores, user_id, body.root, seen)
        await _reassign_if_left(gate, row)
        return _build_user_response(row, _get_base(request))

    @router.delete(
        "/Users/{user_id}", operation_id="deleteScimUser", summary="Delete a user", status_code=204
    )
    async def delete_user(
        employee: Annotated[Employee, Depends(gate.admin)], request: Request, user_id: str
    ) -> Response:
        seen = scim.parse_etag(request.headers.get("if-match"))
        await changes.delete_employee(stores, user_id, seen=seen)
        await gate.trips.reassign_approvals()
        return Response(status_code=204)

    return router


def build_scim_description_routes(gate: Gate) -> APIRouter:
    """Return the routes that describe what the SCIM routes support."""
    router = APIRouter(
        prefix=PREFIX, tags=["directory"], route_class=ScimRoute, default_response_class=ScimResponse
    )

    @router.get(
        "/ServiceProviderConfig",
        operation_id="getScimServiceProviderConfig",
        summary="Describe the supported parts of SCIM",
    )
    async def get_config(employee: Annotated[Employee, Depends(gate.admin)], request: Request) -> Response:
        return ScimResponse(build_service_provider_config(_get_base(request)))

    @router.get("/ResourceTypes", operation_id="listScimResourceTypes", summary="List the resource types")
    async def list_types(employee: Annotated[Employee, Depends(gate.admin)], request: Request) -> Response:
        found = build_resource_types(_get_base(request))
        return ScimResponse(scim.build_list(found, len(found)))

    @router.get("/Schemas", operation_id="listScimSchemas", summary="List the schemas of users")
    async def list_schemas(employee: Annotated[Employee, Depends(gate.admin)], request: Request) -> Response:
        found = build_schemas(_get_base(request))
        return ScimResponse(scim.build_list(found, len(found)))

    @router.get("/Schemas/{schema_id}", operation_id="getScimSchema", summary="Get a schema")
    async def get_schema(
        employee: Annotated[Employee, Depends(gate.admin)], request: Request, schema_id: str
    ) -> Response:
        for each in build_schemas(_get_base(request)):
            if each["id"] == schema_id:
                return ScimResponse(each)
        raise NotFound(f"There is no schema {schema_id!r:.100}: GET {PREFIX}/Schemas lists all.")

    return router


def build_directory_routes(gate: Gate) -> APIRouter:
    """Return the route that imports the directory from a CSV file."""
    router = APIRouter(tags=["directory"])
    stores = gate.stores

    @router.post(
        "/directory/import",
        operation_id="importDirectory",
        summary="Import the directory of employees from a CSV file",
        openapi_extra={"requestBody": {"content": {"text/csv": {"schema": {"type": "string"}}}}},
    )
    async def import_directory(
        employee: Annotated[Employee, Depends(gate.admin)],
        content: Annotated[bytes, Depends(BytesBody(MAX_BYTES, media_types=CSV_TYPES))],
        dry_run: Annotated[
            bool, Query(alias="dryRun", description="Only report the difference; write nothing.")
        ] = False,
        partial: Annotated[
            bool, Query(description="Leave employees alone whom the file does not name.")
        ] = False,
    ) -> ImportView:
        report = await import_csv(stores, content, dry_run=dry_run, partial=partial)
        if report.removed and not dry_run:
            await gate.trips.reassign_approvals()
        return ImportView.model_validate(report)

    return router


async def _reassign_if_left(gate: Gate, row: EmployeeRow) -> None:
    """Ask others to approve instead of an employee who has left."""
    if not row.active:
        await gate.trips.reassign_approvals()


async def _list_users(
    stores: Stores, base: str, filter: str | None, start_index: int, count: int
) -> dict[str, Any]:
    """Return a ListResponse. A number below the lowest counts as the lowest (RFC 7644, section 3.4.2.4)."""
    wanted, start = scim.parse_filter(filter), max(start_index, 1)
    limit = min(max(count, 0), MAX_LIST)
    total = await stores.run(directory.employee_count(**wanted))
    rows = await stores.run(directory.employees(**wanted, limit=limit, offset=start - 1))
    users = [scim.build_user(each, base) for each in rows]
    return scim.build_list(users, 0 if total is None else total.total, start)


async def _patch_user(stores: Stores, user_id: str, body: Mapping[str, Any], seen: int | None) -> EmployeeRow:
    """Apply a PatchOp to the current version, or to the version `seen`."""
    for attempt in range(1, MAX_ATTEMPTS + 1):
        current = await changes.load_employee(stores, user_id)
        new = scim.parse_user(scim.apply_patch(scim.build_user(current, ""), body), user_id)
        version = current.version if seen is None else seen
        try:
            return await changes.replace_employee(stores, new, _get_now(stores), seen=version)
        except changes.EmployeeChanged:
            # Another change was quicker: apply the patch to its result.
            if seen is not None or attempt == MAX_ATTEMPTS:
                raise
    raise RetryLater("This user is being changed concurrently. Retry in a moment.")


def _build_user_response(row: EmployeeRow, base: str, status: int = 200) -> Response:
    """Return a user with its entity tag and location."""
    headers = {"etag": scim.build_etag(row), "location": f"{base}/Users/{row.id}"}
    return ScimResponse(scim.build_user(row, base), status, headers)


def _get_base(request: Request) -> str:
    """Return the address of the SCIM routes as the client reached them."""
    return f"{str(request.base_url).rstrip('/')}{PREFIX}"


def _get_now(stores: Stores) -> datetime:
    """Return the current time, to the second."""
    return datetime.fromtimestamp(int(stores.clock.now()), UTC)
