"""A visitor of the console: a browser page that notes everything that a page must not do."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response, ViewportSize

# Kept by each run; the gallery of the documentation is made from them.
SCREENSHOTS: Final = Path(__file__).parents[2] / "build" / "console"
WIDE: Final = ViewportSize(width=1440, height=900)
NARROW: Final = ViewportSize(width=400, height=850)
TIMEOUT_MS: Final = 15_000
# What fails a test; `minor` and `moderate` findings of axe are matters of taste.
SERIOUS: Final = ("serious", "critical")
REFUSED: Final = re.compile(r"Failed to load resource: the server responded with a status of (\d+)")


class Visitor:
    """A browser with its own cookies at a console. `page` is Playwright's; `problems` fail the test."""

    def __init__(self, browser: Browser, url: str) -> None:
        self.url = url
        self.problems: list[str] = []
        self._expected: set[int] = set()
        self._context = browser.new_context(viewport=WIDE, base_url=url, reduced_motion="reduce")
        self._context.set_default_timeout(TIMEOUT_MS)
        self.page: Page = self._context.new_page()
        self.page.on("console", self._note_message)
        self.page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        self.page.on("request", self._note_request)
        self.page.on("requestfailed", self._note_failure)
        self.page.on("response", self._note_response)

    def visit(self, path: str, *, status: int = 200) -> Response:
        """Open a page by its path and return the response, which has this status."""
        self.expect(status)
        response = self.page.goto(path)
        assert response is not None
        assert response.status == status, f"{path} answered {response.status}: {response.text()[:500]}"
        return response

    def expect(self, status: int) -> None:
        """Let responses have this status: a page that refuses something is what the test is about."""
        self._expected.add(status)

    def wait_until_live(self) -> None:
        """Wait until the page follows its topics."""
        self.page.locator('html[data-stream="open"]').wait_for(state="attached")

    def sign_in_to_demo(self) -> None:
        """Sign in with one click."""
        self.visit("/sign-in")
        self.page.get_by_role("button", name="Sign in to the demo").click()
        self.page.wait_for_url(f"{self.url}/")

    def check(self, name: str) -> None:
        """Check the open page narrow and wide, dark and light: accessibility and overflow. Keep screenshots.

        `name` becomes a part of the names of the screenshots, such as `queues` or `data-item`.
        """
        for size, scheme in ((NARROW, "dark"), (NARROW, "light"), (WIDE, "dark"), (WIDE, "light")):
            self._show(size, scheme)
            self._check_overflow(name, size["width"])
            if (size, scheme) in ((NARROW, "dark"), (WIDE, "light")):
                self._check_accessibility(f"{name} at {size['width']} px, {scheme}")
            self._take_screenshot(f"{name}-{size['width']}{'-dark' if scheme == 'dark' else ''}")

    def close(self) -> None:
        """Close the browser's page and fail for everything that it noted."""
        self._context.close()
        assert not self.problems, "\n".join(self.problems)

    def _show(self, size: ViewportSize, scheme: Any) -> None:
        self.page.set_viewport_size(size)
        self.page.emulate_media(color_scheme=scheme)

    def _check_overflow(self, name: str, width: int) -> None:
        wide = self.page.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            self.problems.append(f"{name} is {wide} px wide at {width} px: it scrolls sideways")

    def _check_accessibility(self, name: str) -> None:
        for each in Axe().run(self.page).response["violations"]:
            if each["impact"] in SERIOUS:
                places = "; ".join(node["html"][:160] for node in each["nodes"][:3])
                self.problems.append(f"{name}: {each['id']} ({each['impact']}): {each['help']}: {places}")

    def _take_screenshot(self, name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        # A scrolled page would show its fixed navigation in the middle of the picture.
        self.page.evaluate("window.scrollTo(0, 0)")
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning"):
            return
        refused = REFUSED.match(message.text)
        if refused is None or int(refused[1]) not in self._expected:
            self.problems.append(f"console {message.type}: {message.text}")

    def _note_request(self, request: Request) -> None:
        if not request.url.startswith((f"{self.url}/", "data:", "blob:")):
            self.problems.append(f"external request: {request.url}")

    def _note_failure(self, request: Request) -> None:
        # A page that is left ends its event stream, and the parts that it was loading again.
        if request.resource_type != "eventsource" and request.failure != "net::ERR_ABORTED":
            self.problems.append(f"failed request: {request.method} {request.url} ({request.failure})")

    def _note_response(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self._expected:
            text = ""
            with suppress(Exception):
                text = response.text()[:300]
            self.problems.append(f"{response.status}: {response.request.method} {response.url} {text}")
