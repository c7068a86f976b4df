"""Header parameters that routes share: the idempotency key, and the signature of a webhook."""

# Without deferred annotations: those of the dependency refer to the arguments of its factory.
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

from holdfast.core.distribution import explain_missing
from holdfast.web.openapi import REQUIRED

with explain_missing(__name__, "api"):
    from fastapi import Header

KEY_HEADER: Final = "x-idempotency-key"
KEY_FORM: Final = "^[A-Za-z0-9_.:-]{1,128}$"
KEY_DESCRIPTION: Final = (
    "The client's unique key for this request. Repeating a request under the same key returns the same "
    "response without processing it again. The key must not contain personal data."
)


def build_key_reader(
    *, is_required: bool = True, description: str = KEY_DESCRIPTION
) -> Callable[..., Awaitable[str | None]]:
    """Return a dependency that returns the idempotency key; None without one, if it is not required."""
    header: Any = Header(alias=KEY_HEADER, pattern=KEY_FORM, description=description)

    async def read_key(key: Annotated[str, header]) -> str:
        return key

    async def read_optional_key(key: Annotated[str | None, header] = None) -> str | None:
        return key

    return read_key if is_required else read_optional_key


def build_signature_header(name: str, description: str) -> Any:
    """Return the header parameter of a signature: `Annotated[str | None, build_signature_header(…)] = None`.

    A call without it reaches the route, which refuses it (401); OpenAPI lists the header as required.
    """
    return Header(alias=name, description=description, json_schema_extra=REQUIRED)
