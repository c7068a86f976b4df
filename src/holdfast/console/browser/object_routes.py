"""Objects of buckets, read-only. Their content is personal data: it is shown when it is revealed."""

from __future__ import annotations

from holdfast.console.access import CurrentUser
from holdfast.console.browser.addresses import build_bucket_url, build_object_url
from holdfast.console.browser.catalog import find_bucket
from holdfast.console.browser.object_views import MAX_READ_BYTES, list_objects, load_content, load_object
from holdfast.console.browser.views import open_view
from holdfast.console.context import CurrentConsole
from holdfast.console.rendering import render
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import HoldfastError, NotFound, format_message
from holdfast.operations.objects import ObjectPage

with explain_missing(__name__, "console"):
    from fastapi import APIRouter
    from starlette.requests import Request
    from starlette.responses import Response

router = APIRouter()


@router.get("/data/{system}/bucket:{bucket}")
async def show_bucket(
    request: Request,
    console: CurrentConsole,
    user: CurrentUser,
    system: str,
    bucket: str,
    prefix: str = "",
    cursor: str = "",
) -> Response:
    """Show a page of a bucket's objects."""
    data = open_view(request, console, user, system)
    found = find_bucket(data.system, bucket)
    problem = ""
    try:
        page = await list_objects(data.stores, found, prefix, cursor)
    except NotFound as error:
        page, problem = ObjectPage(objects=()), format_message(error)
    except HoldfastError as error:
        page, problem = ObjectPage(objects=()), format_message(error)
    return render(
        request,
        "browser/bucket.html",
        data=data,
        system=data.system,
        bucket=found,
        physical=found.physical_name(data.stores.environment),
        prefix=prefix,
        cursor=cursor,
        problem=problem,
        objects=[(each, build_object_url(system, bucket, each.key)) for each in page.objects],
        first=build_bucket_url(system, bucket, prefix=prefix),
        next=build_bucket_url(system, bucket, prefix=prefix, cursor=page.cursor) if page.cursor else "",
    )


@router.get("/data/{system}/bucket:{bucket}/object")
async def show_object(
    request: Request, console: CurrentConsole, user: CurrentUser, system: str, bucket: str, key: str
) -> Response:
    """Show an object's properties, and its content if it is revealed."""
    data = open_view(request, console, user, system)
    found = find_bucket(data.system, bucket)
    details = await load_object(data.stores, found, key)
    is_shown = data.is_revealed and details.is_readable
    return render(
        request,
        "browser/object.html",
        data=data,
        system=data.system,
        bucket=found,
        key=key,
        details=details,
        metadata=data.masker.mask_attributes(dict(details.info.metadata)),
        content=await load_content(data.stores, found, key) if is_shown else None,
        max_read_bytes=MAX_READ_BYTES,
        bucket_url=build_bucket_url(system, bucket),
    )
