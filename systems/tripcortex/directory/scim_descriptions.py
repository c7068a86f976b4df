"""Descriptions of what the SCIM routes support: service provider configuration, resource types, schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tripcortex.directory.scim import ENTERPRISE, TRAVEL, USER
from tripcortex.model.directory import MAX_LIST

_CORE: Final = "urn:ietf:params:scim:schemas:core:2.0"


def build_service_provider_config(base: str) -> dict[str, Any]:
    """Return the ServiceProviderConfig (RFC 7643, section 5)."""
    return {
        "schemas": [f"{_CORE}:ServiceProviderConfig"],
        "documentationUri": "https://www.rfc-editor.org/rfc/rfc7644",
        "patch": {"supported": True},
        "bulk": {"supported": False, "maxOperations": 0, "maxPayloadSize": 0},
        "filter": {"supported": True, "maxResults": MAX_LIST},
        "changePassword": {"supported": False},
        "sort": {"supported": False},
        "etag": {"supported": True},
        "authenticationSchemes": [
            {
                "type": "oauthbearertoken",
                "name": "Bearer token",
                "description": "A session token of an admin from the employees' token issuer.",
                "primary": True,
            }
        ],
        "meta": {"resourceType": "ServiceProviderConfig", "location": f"{base}/ServiceProviderConfig"},
    }


def build_resource_types(base: str) -> list[dict[str, Any]]:
    """Return the only resource type: User."""
    return [
        {
            "schemas": [f"{_CORE}:ResourceType"],
            "id": "User",
            "name": "User",
            "endpoint": "/Users",
            "schema": USER,
            "schemaExtensions": [
                {"schema": ENTERPRISE, "required": False},
                {"schema": TRAVEL, "required": False},
            ],
            "meta": {"resourceType": "ResourceType", "location": f"{base}/ResourceTypes/User"},
        }
    ]


def build_schemas(base: str) -> list[dict[str, Any]]:
    """Return the schemas of a user and its extensions, as far as they are stored."""
    return [
        _build_schema(base, USER, "User", USER_ATTRIBUTES),
        _build_schema(base, ENTERPRISE, "EnterpriseUser", ENTERPRISE_ATTRIBUTES),
        _build_schema(base, TRAVEL, "TravelUser", TRAVEL_ATTRIBUTES),
    ]


def _build_schema(base: str, id: str, name: str, attributes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the description of one schema."""
    return {
        "schemas": [f"{_CORE}:Schema"],
        "id": id,
        "name": name,
        "attributes": list(attributes),
        "meta": {"resourceType": "Schema", "location": f"{base}/Schemas/{id}"},
    }


def _describe(name: str, type: str = "string", **more: Any) -> dict[str, Any]:
    """Return the description of one attribute."""
    return {
        "name": name,
        "type": type,
        "multiValued": False,
        "required": False,
        "caseExact": False,
        "mutability": "readWrite",
        "returned": "default",
        "uniqueness": "none",
        **more,
    }


_VALUE: Final = _describe("value")
USER_ATTRIBUTES: Final = (
    _describe("userName", required=True, uniqueness="server"),
    _describe("externalId", caseExact=True),
    _describe("displayName"),
    _describe("active", "boolean"),
    _describe(
        "emails",
        "complex",
        multiValued=True,
        subAttributes=[_VALUE, _describe("primary", "boolean")],
    ),
    _describe("roles", "complex", multiValued=True, subAttributes=[_VALUE]),
)
ENTERPRISE_ATTRIBUTES: Final = (
    _describe("employeeNumber", mutability="immutable", caseExact=True, uniqueness="server"),
    _describe("department"),
    _describe("manager", "complex", subAttributes=[_describe("value", caseExact=True)]),
)
TRAVEL_ATTRIBUTES: Final = (
    _describe("level"),
    _describe(
        "delegate",
        "complex",
        subAttributes=[
            _describe("value", caseExact=True),
            _describe("from", "dateTime"),
            _describe("until", "dateTime"),
        ],
    ),
)
