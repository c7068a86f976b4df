"""Make the pictures of the documentation from the screenshots of the browser tests.

    python -m pytest tests/console && python -m tests.console.gallery

Each picture is the top of a page, with few colours, so that the repository stays small. Every picture that
one of `PAGES` names is made.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from PIL import Image

from tests.console.visitor import SCREENSHOTS

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = (
    ROOT / "docs" / "guides" / "console_gallery.md",
    ROOT / "docs" / "systems" / "pagw" / "operators.md",
)
PICTURES: Final = ROOT / "docs" / "_static" / "console"
COLOURS: Final = 64
# Height for a width: what a person sees without scrolling, and a little more.
MAX_HEIGHTS: Final = {1440: 1000, 400: 860}
_NAMED: Final = re.compile(r"_static/console/([a-z0-9-]+)\.png")


def list_pictures(page: Path) -> list[str]:
    """Return the names of the pictures of a page of the documentation, each once."""
    return list(dict.fromkeys(_NAMED.findall(page.read_text(encoding="utf-8"))))


def list_all_pictures() -> list[str]:
    """Return the names of the pictures of all pages."""
    return [name for page in PAGES for name in list_pictures(page)]


def make_picture(name: str) -> int:
    """Make one picture from its screenshot. Return its size in bytes."""
    screenshot = SCREENSHOTS / f"{name}.png"
    if not screenshot.exists():
        raise SystemExit(
            f"No screenshot {screenshot.name}: run the browser tests, python -m pytest tests/console."
        )
    with Image.open(screenshot) as full:
        top = full.convert("RGB").crop((0, 0, full.width, min(full.height, MAX_HEIGHTS[full.width])))
    target = PICTURES / f"{name}.png"
    top.quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)
    return target.stat().st_size


def main() -> None:
    """Make all pictures, and remove those that no page names any more."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    names = list_all_pictures()
    for old in PICTURES.glob("*.png"):
        if old.stem not in names:
            old.unlink()
    sizes = [make_picture(name) for name in names]
    sys.stdout.write(f"{len(names)} pictures, {sum(sizes) / 1024:,.0f} KB, in {PICTURES.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
