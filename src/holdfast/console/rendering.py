"""Rendering of pages: Jinja2 templates with the frame, the user and the formats that all pages share.

`render` returns a whole page, or a fragment for htmx; `redirect` answers a form that was carried out. Every
value is escaped unless a template marks it as safe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote, unquote

from holdfast.console.assets import ASSETS_VERSION
from holdfast.console.formats import FILTERS
from holdfast.console.navigation import Navigation
from holdfast.console.users import User
from holdfast.core.distribution import explain_missing

with explain_missing(__name__, "console"):
    from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader, StrictUndefined
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, RedirectResponse

__all__ = ["Notice", "Renderer", "is_fragment", "redirect", "render"]

TEMPLATES: Final = Path(__file__).parent / "templates"
# Carries the message of a form to the page that follows it.
NOTICE_COOKIE: Final = "holdfast_notice"
NOTICE_LIFETIME_S: Final = 30
MAX_NOTICE_CHARACTERS: Final = 500

NoticeKind = Literal["done", "problem"]


@dataclass(frozen=True)
class Notice:
    """A message at the top of a page: what was done, or what went wrong and the next step."""

    text: str
    kind: NoticeKind = "done"


class Renderer:
    """The templates of the console, and of each system under its name."""

    def __init__(self, navigation: Navigation, system_templates: Mapping[str, Path]) -> None:
        systems = {name: FileSystemLoader(folder) for name, folder in system_templates.items()}
        self._navigation = navigation
        self._environment = Environment(
            loader=ChoiceLoader([FileSystemLoader(TEMPLATES), PrefixLoader(systems)]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(FILTERS)

    def render(self, request: Request, template: str, values: Mapping[str, Any]) -> str:
        """Return the text of a page or a fragment."""
        user: User | None = getattr(request.state, "user", None)
        return self._environment.get_template(template).render(
            {
                "path": request.url.path,
                "address": _get_address(request),
                "user": user,
                "csrf": getattr(request.state, "csrf", ""),
                "notices": _read_notices(request),
                "navigation": self._navigation.build(user, request.url.path),
                "now": datetime.now(UTC),
                "version": ASSETS_VERSION,
                **values,
            }
        )


def render(
    request: Request,
    template: str,
    *,
    status_code: int = HTTPStatus.OK,
    notice: Notice | None = None,
    **values: Any,
) -> HTMLResponse:
    """Return the response with a rendered template: of the console, or `NAME/…` of a system's own folder."""
    if notice is not None:
        request.state.notices = [notice]
    renderer: Renderer = request.app.state.console.renderer
    response = HTMLResponse(renderer.render(request, template, values), status_code)
    if NOTICE_COOKIE in request.cookies and not is_fragment(request):
        response.delete_cookie(NOTICE_COOKIE)
    return response


def redirect(url: str, notice: str = "", kind: NoticeKind = "done") -> RedirectResponse:
    """Return the response to a form that leads to another page, which shows the message."""
    response = RedirectResponse(url, HTTPStatus.SEE_OTHER)
    if notice:
        value = quote(f"{kind}:{notice[:MAX_NOTICE_CHARACTERS]}")
        response.set_cookie(NOTICE_COOKIE, value, max_age=NOTICE_LIFETIME_S, httponly=True, samesite="strict")
    return response


def is_fragment(request: Request) -> bool:
    """Return whether htmx asks for a part of a page."""
    return request.headers.get("hx-request") == "true"


def _read_notices(request: Request) -> Sequence[Notice]:
    """Return the messages of this request, and the one that a form left."""
    own: Sequence[Notice] = getattr(request.state, "notices", ())
    kind, _, text = unquote(request.cookies.get(NOTICE_COOKIE, "")).partition(":")
    left = [Notice(text, "problem" if kind == "problem" else "done")] if text else []
    return [*own, *left]


def _get_address(request: Request) -> str:
    """Return the path of the page with its query."""
    return f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
