"""SCIM 2.0 (RFC 7643, RFC 7644) for the directory: users as JSON, filters and patches. Pure functions.

A user's `id` is the employee id, as in employees' tokens: `employeeNumber` of the enterprise extension, else
`externalId`, else `userName`. Level and delegate, for which SCIM has no attribute, are in an extension of our
own (`TRAVEL`). Unknown attributes are ignored, as identity providers send many.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from holdfast.core.errors import InvalidRequest
from tripcortex.directory.checks import normalize_roles
from tripcortex.model.directory import EmployeeFields, EmployeeRow

USER: Final = "urn:ietf:params:scim:schemas:core:2.0:User"
ENTERPRISE: Final = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
TRAVEL: Final = "urn:holdfast:params:scim:schemas:extension:travel:1.0:User"
LIST_RESPONSE: Final = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
PATCH_OP: Final = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
ERROR: Final = "urn:ietf:params:scim:api:messages:2.0:Error"
MEDIA_TYPE: Final = "application/scim+json"

MAX_OPERATIONS: Final = 100
# Attributes that a filter may compare, by lower-case path, and the parameter of the search.
FILTERS: Final[Mapping[str, str]] = {
    "username": "user_name",
    "externalid": "external_id",
    "id": "employee_id",
    "active": "is_active",
}
_FILTER: Final = re.compile(r'\s*([\w.:]+)\s+eq\s+(?:"((?:[^"\\]|\\.)*)"|(true|false))\s*', re.I)
_TIME: Final[TypeAdapter[datetime]] = TypeAdapter(datetime)
# A path of a patch: an extension's URN, an attribute, a filter of its values, a sub-attribute.
_PATH: Final = re.compile(r"(?:(urn:[\w.:-]+?:User)(?::|$))?(?:(\w+)(?:\[([^\]]*)\])?(?:\.(\w+))?)?", re.I)


class InvalidScim(InvalidRequest, label="InvalidScim"):
    """An invalid SCIM request. `scim_type` is RFC 7644's keyword for it."""

    def __init__(self, message: str, scim_type: str = "invalidValue") -> None:
        super().__init__(message)
        self.scim_type = scim_type


# --- users --------------------------------------------------------------------------------------------------


def build_user(row: EmployeeRow, base: str) -> dict[str, Any]:
    """Return an employee as a SCIM user; `base` is the address of the SCIM routes."""
    manager = (
        None
        if row.manager_id is None
        else {
            "value": row.manager_id,
            "$ref": f"{base}/Users/{row.manager_id}",
        }
    )
    delegate = (
        None
        if row.delegate_id is None
        else _drop_empty({"value": row.delegate_id, "from": row.delegate_from, "until": row.delegate_until})
    )
    enterprise = {"employeeNumber": row.id, "department": row.department, "manager": manager}
    travel = _drop_empty({"level": row.level, "delegate": delegate})
    return _drop_empty(
        {
            "schemas": [USER, ENTERPRISE, *([TRAVEL] if travel else [])],
            "id": row.id,
            "externalId": row.external_id,
            "userName": row.user_name,
            "displayName": row.display_name,
            "emails": [{"value": row.email, "primary": True}] if row.email else None,
            "active": row.active,
            "roles": [{"value": each} for each in row.roles],
            ENTERPRISE: _drop_empty(enterprise),
            TRAVEL: travel,
            "meta": _drop_empty(
                {
                    "resourceType": "User",
                    "created": row.created_at,
                    "lastModified": row.updated_at,
                    "location": f"{base}/Users/{row.id}",
                    "version": build_etag(row),
                }
            ),
        }
    )


def build_etag(row: EmployeeRow) -> str:
    """Return the entity tag of an employee's version."""
    return f'W/"{row.version}"'


def parse_etag(header: str | None) -> int | None:
    """Return the version that an If-Match header names; None without one, or for `*`.

    A tag that is not ours matches no version: it is returned as 0.
    """
    if header is None or header.strip() == "*":
        return None
    found = re.fullmatch(r'(?:W/)?"(\d{1,9})"', header.strip())
    return 0 if found is None else int(found[1])


def parse_user(body: Mapping[str, Any], employee_id: str | None = None) -> EmployeeFields:
    """Return the employee of a SCIM user. `employee_id` is the id of the user that a PUT replaces.

    Raise `InvalidScim` for an invalid value.
    """
    found = _fold(body)
    enterprise, travel = _get_complex(found, ENTERPRISE), _get_complex(found, TRAVEL)
    delegate = _get_complex(travel, "delegate")
    user_name = _get_text(found, "userName")
    external_id = _get_text(found, "externalId")
    own_id = employee_id or _get_text(enterprise, "employeeNumber") or external_id or user_name
    if user_name is None or own_id is None:
        raise InvalidScim("Invalid user: userName is required.")
    fields: dict[str, Any] = {
        "id": own_id,
        "user_name": user_name,
        "external_id": external_id,
        "email": _get_email(found),
        "display_name": _get_display_name(found),
        "manager_id": _get_reference(enterprise, "manager"),
        "level": _get_text(travel, "level"),
        "department": _get_text(enterprise, "department"),
        "roles": _get_roles(found),
        "delegate_id": _get_text(delegate, "value"),
        "delegate_from": _get_time(delegate, "from"),
        "delegate_until": _get_time(delegate, "until"),
        "active": _get_flag(found, "active", default=True),
    }
    try:
        return EmployeeFields(**fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise InvalidScim(f"Invalid {first['loc'][0]}: {first['msg']}.") from error


# --- filters ------------------------------------------------------------------------------------------------


def parse_filter(text: str | None) -> dict[str, Any]:
    """Return the parameters of the search for `userName eq "ada"`; empty without a filter.

    Raise `InvalidScim` for another attribute or operator.
    """
    if not text:
        return {}
    found = _FILTER.fullmatch(text)
    name = None if found is None else FILTERS.get(found[1].removeprefix(f"{USER}:").casefold())
    if found is None or name is None or (found[3] is not None) != (name == "is_active"):
        raise InvalidScim(
            f"Invalid filter {text!r:.100}: expected userName, externalId or id eq a quoted value, or active "
            "eq true or false.",
            "invalidFilter",
        )
    return {name: found[3].casefold() == "true" if found[3] else re.sub(r"\\(.)", r"\1", found[2])}


# --- patches ------------------------------------------------------------------------------------------------


def apply_patch(user: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the SCIM user after a PatchOp. Raise `InvalidScim` for an invalid operation."""
    operations = _fold(body).get("operations")
    if not isinstance(operations, list) or not 1 <= len(operations) <= MAX_OPERATIONS:
        raise InvalidScim(f"Invalid patch: expected 1 to {MAX_OPERATIONS} Operations.", "invalidSyntax")
    patched: dict[str, Any] = _copy(user)
    for each in operations:
        if not isinstance(each, Mapping):
            raise InvalidScim("Invalid patch: an operation is not an object.", "invalidSyntax")
        operation = _fold(each)
        _apply(
            patched, str(operation.get("op", "")).casefold(), operation.get("path"), operation.get("value")
        )
    return patched


def _apply(user: dict[str, Any], op: str, path: Any, value: Any) -> None:
    """Apply one operation to the user."""
    if op not in ("add", "replace", "remove"):
        raise InvalidScim(f"Invalid op {op!r:.40}: expected add, replace or remove.", "invalidSyntax")
    if path is None:
        if op == "remove":
            raise InvalidScim("Invalid patch: remove needs a path.", "noTarget")
        if not isinstance(value, Mapping):
            raise InvalidScim("Invalid patch: without a path, the value must be an object.")
        for name, each in value.items():
            _apply(user, op, name, each)
        return
    found = _PATH.fullmatch(path) if isinstance(path, str) else None
    if found is None or not (found[1] or found[2]):
        raise InvalidScim(f"Invalid path {path!r:.100}.", "invalidPath")
    extension, name, values, sub = found.groups()
    target = user
    if extension is not None and extension.casefold() != USER.casefold():
        target = _open_complex(user, _find_key(user, extension))
        if name is None:
            _apply_to_extension(user, target, op, extension, value)
            return
    assert name is not None
    key = _find_key(target, name)
    if values is not None:
        _apply_to_values(target, key, op, values, sub, value)
    elif sub is not None:
        inner = _open_complex(target, key)
        _set(inner, _find_key(inner, sub), op, value)
    else:
        _set(target, key, op, value)


def _apply_to_extension(
    user: dict[str, Any], target: dict[str, Any], op: str, extension: str, value: Any
) -> None:
    """Apply an operation to an extension as a whole."""
    if op == "remove":
        user.pop(_find_key(user, extension), None)
        return
    if not isinstance(value, Mapping):
        raise InvalidScim("Invalid patch: the value of an extension must be an object.")
    for name, each in value.items():
        _apply(user, op, f"{extension}:{name}", each)


def _apply_to_values(
    target: dict[str, Any], key: str, op: str, condition: str, sub: str | None, value: Any
) -> None:
    """Apply an operation to the values that a filter selects, such as `emails[type eq "work"].value`."""
    values = target.setdefault(key, [])
    found = re.fullmatch(r'\s*(\w+)\s+eq\s+(?:"([^"]*)"|(true|false))\s*', condition, re.I)
    if found is None or not isinstance(values, list):
        raise InvalidScim(f"Invalid filter {condition!r:.60} in a path.", "invalidPath")
    name, wanted = found[1], found[3].casefold() == "true" if found[3] else found[2]
    # Our only e-mail address has no type.
    matching = [each for each in values if isinstance(each, dict) and each.get(name, wanted) == wanted]
    if op == "remove" and sub is None:
        target[key] = [each for each in values if each not in matching]
        return
    if not matching and op != "remove":
        matching = [{name: wanted}]
        values += matching
    for each in matching:
        if sub is not None:
            _set(each, sub, op, value)
        elif isinstance(value, Mapping):
            each.update(value)


def _set(target: dict[str, Any], key: str, op: str, value: Any) -> None:
    """Set, extend or remove one attribute. `add` extends a list and merges an object."""
    current = target.get(key)
    if op == "remove":
        # A value names the members of a list to remove.
        if isinstance(current, list) and isinstance(value, list):
            gone = [each.get("value") for each in value if isinstance(each, Mapping)]
            target[key] = [each for each in current if each.get("value") not in gone]
        else:
            target.pop(key, None)
    elif op == "add" and isinstance(current, list):
        more = value if isinstance(value, list) else [value]
        target[key] = [*current, *(each for each in more if each not in current)]
    elif isinstance(current, dict) and isinstance(value, Mapping):
        target[key] = {**current, **value}
    else:
        target[key] = value


def _open_complex(target: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the object under a key, a new one if there is none."""
    inner = target.get(key)
    if not isinstance(inner, dict):
        inner = target[key] = {}
    return inner


# --- values -------------------------------------------------------------------------------------------------


def _find_key(target: Mapping[str, Any], name: str) -> str:
    """Return the key of an attribute: names are compared without case (RFC 7643, section 2.1)."""
    known = (USER, ENTERPRISE, TRAVEL, *_NAMES)
    folded = name.casefold()
    return next((each for each in (*target, *known) if each.casefold() == folded), name)


_NAMES: Final = (
    "userName",
    "externalId",
    "displayName",
    "emails",
    "active",
    "roles",
    "name",
    "employeeNumber",
    "department",
    "manager",
    "level",
    "delegate",
    "value",
    "from",
    "until",
)


def _fold(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object with lower-case keys."""
    return {str(name).casefold(): value for name, value in body.items()}


def _copy(value: Any) -> Any:
    """Return a deep copy of a JSON value."""
    if isinstance(value, Mapping):
        return {name: _copy(each) for name, each in value.items()}
    return [_copy(each) for each in value] if isinstance(value, list) else value


def _get_complex(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a complex attribute with lower-case keys; empty if there is none."""
    value = found.get(name.casefold())
    return _fold(value) if isinstance(value, Mapping) else {}


def _get_text(found: Mapping[str, Any], name: str) -> str | None:
    """Return a text without outer spaces; None if it is missing or empty."""
    value = found.get(name.casefold())
    if value is None or isinstance(value, str):
        return (value or "").strip() or None
    raise InvalidScim(f"Invalid {name}: expected a text.")


def _get_reference(found: Mapping[str, Any], name: str) -> str | None:
    """Return the id that an attribute refers to: `{"value": id}`, or the id itself."""
    value = found.get(name.casefold())
    return _get_text(_fold(value), "value") if isinstance(value, Mapping) else _get_text(found, name)


def _get_flag(found: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """Return a flag; some identity providers send "True" as a text."""
    value = found.get(name.casefold(), default)
    if isinstance(value, str) and value.casefold() in ("true", "false"):
        return value.casefold() == "true"
    if not isinstance(value, bool):
        raise InvalidScim(f"Invalid {name}: expected true or false.")
    return value


def _get_time(found: Mapping[str, Any], name: str) -> datetime | None:
    """Return a time with a time zone; None if it is missing."""
    value = found.get(name)
    if value is None or value == "":
        return None
    try:
        moment = _TIME.validate_python(value)
    except ValidationError:
        raise InvalidScim(f"Invalid delegate.{name}: expected a time such as 2026-03-10T09:00:00Z.") from None
    if moment.tzinfo is None:
        raise InvalidScim(f"Invalid delegate.{name}: expected a time with its zone.")
    return moment


def _get_email(found: Mapping[str, Any]) -> str | None:
    """Return the primary e-mail address, else the first."""
    emails = found.get("emails") or []
    if not isinstance(emails, list):
        raise InvalidScim("Invalid emails: expected a list.")
    listed = [_fold(each) for each in emails if isinstance(each, Mapping)]
    primary = [each for each in listed if each.get("primary") in (True, "true", "True")]
    return next((_get_text(each, "value") for each in (*primary, *listed)), None)


def _get_display_name(found: Mapping[str, Any]) -> str | None:
    """Return the display name, else the formatted name, else given and family name."""
    name = _get_complex(found, "name")
    parts = (_get_text(name, "givenName"), _get_text(name, "familyName"))
    return (
        _get_text(found, "displayName")
        or _get_text(name, "formatted")
        or " ".join(filter(None, parts))
        or None
    )


def _get_roles(found: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the roles: a list of `{"value": role}`, or of texts."""
    given = found.get("roles") or []
    if not isinstance(given, list):
        raise InvalidScim("Invalid roles: expected a list.")
    values = [each.get("value") if isinstance(each, Mapping) else each for each in given]
    roles = [each for each in values if isinstance(each, str)]
    if len(roles) < len(values):
        raise InvalidScim("Invalid roles: expected texts, or objects with a value.")
    return normalize_roles(roles)


def _drop_empty(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that have a value; times as texts."""
    return {
        name: value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value
        for name, value in found.items()
        if value is not None and value not in ([], {})
    }


# --- lists and descriptions ---------------------------------------------------------------------------------


def build_list(resources: Sequence[Mapping[str, Any]], total: int, start: int = 1) -> dict[str, Any]:
    """Return a ListResponse; `start` is the number of the first resource, from 1."""
    return {
        "schemas": [LIST_RESPONSE],
        "totalResults": total,
        "startIndex": start,
        "itemsPerPage": len(resources),
        "Resources": list(resources),
    }


def build_error(status: int, detail: str, scim_type: str | None = None) -> dict[str, Any]:
    """Return the body of an error (RFC 7644, section 3.12): the status is a text."""
    error: dict[str, Any] = {"schemas": [ERROR], "status": str(status), "detail": detail}
    return error if scim_type is None else {**error, "scimType": scim_type}
