"""Which component uses which resource, as a diagram: components on the left, resources on the right.

The SQL tables of a schema are one resource here, and all keys of the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.console.explorer.accesses import Access, AccessKind, describe_resource
from holdfast.console.explorer.diagrams.drawing import Box, Drawing, Group, Line, Section, Text, arrow, wrap
from holdfast.console.explorer.navigation import SystemUrls
from holdfast.model.system import System
from holdfast.reports.resources import CacheKeys, Resource, SqlTable

SHARE: Final = 0.38
MAX_COLUMN: Final = 300
ROW: Final = 17
PAD: Final = 10
GAP: Final = 12
# Arrows end this far from a box.
HEAD: Final = 2

_STRENGTH: Final[dict[AccessKind, int]] = {"reads": 0, "writes": 1, "receives": 2}


def draw_access(system: System, accesses: Sequence[Access], width: int) -> Drawing:
    """Return the diagram of these accesses at this width."""
    urls = SystemUrls(system)
    column = min(MAX_COLUMN, width * SHARE)
    names = list(dict.fromkeys(each.component for each in accesses))
    places = list(dict.fromkeys(_name_place(each.resource) for each in accesses))
    of_place = {_name_place(each.resource): each.resource for each in accesses}
    left = _stack([(name, "component", urls.get_component(name)) for name in names], 0.0, column)
    right = _stack(
        [(title, kind, _find_url(of_place[title, kind], kind, urls)) for title, kind in places],
        width - column,
        column,
    )
    height = max(_get_bottom(left), _get_bottom(right), 1.0)
    left, right = _center(left, height), _center(right, height)
    components = dict(zip(names, left, strict=True))
    resources = dict(zip(places, right, strict=True))
    groups = [Group(_draw_lines(name, accesses, box, resources), [box]) for name, box in components.items()]
    return Drawing(
        width,
        height,
        f"What the components of {system.title or system.name} use",
        _describe(accesses),
        [Group(boxes=right), *groups],
    )


def _name_place(resource: Resource) -> tuple[str, str]:
    """Return the title and the kind of the box that a resource belongs to."""
    if isinstance(resource, SqlTable):
        return resource.name.partition(".")[0], "schema"
    if isinstance(resource, CacheKeys):
        return "Cache", "cache"
    return resource.name, describe_resource(resource)


def _find_url(resource: Resource, kind: str, urls: SystemUrls) -> str:
    return f"{urls.system}#cache" if kind == "cache" else urls.find_resource(resource)


def _stack(entries: Sequence[tuple[str, str, str]], x: float, width: float) -> list[Box]:
    """Return a box for each title, kind and address, one below the other."""
    boxes, y = [], 0.0
    for title, kind, url in entries:
        lines = wrap(title, width - 2 * PAD)
        height = 2 * PAD + ROW * len(lines) - 4
        texts = [Text(x + PAD, y + PAD + 11 + ROW * place, line) for place, line in enumerate(lines)]
        word = "SQL schema" if kind == "schema" else kind
        section = Section(y, height, texts, url, f"{word} {title}", "plain")
        boxes.append(Box(x, y, width, height, kind, [section]))
        y += height + GAP
    return boxes


def _get_bottom(boxes: Sequence[Box]) -> float:
    return max((each.y + each.height for each in boxes), default=0.0)


def _center(boxes: Sequence[Box], height: float) -> list[Box]:
    """Return the boxes moved to the middle of this height."""
    by = (height - _get_bottom(boxes)) / 2
    return [
        Box(
            each.x,
            each.y + by,
            each.width,
            each.height,
            each.kind,
            [
                Section(
                    section.y + by,
                    section.height,
                    [Text(text.x, text.y + by, text.text, text.kind, text.is_end) for text in section.texts],
                    section.url,
                    section.label,
                    section.kind,
                )
                for section in each.sections
            ],
        )
        for each in boxes
    ]


def _draw_lines(
    name: str, accesses: Sequence[Access], box: Box, resources: dict[tuple[str, str], Box]
) -> list[Line]:
    """Return the lines of one component, the strongest access to each resource."""
    kinds: dict[tuple[str, str], AccessKind] = {}
    for each in accesses:
        if each.component == name:
            place = _name_place(each.resource)
            kinds[place] = max(kinds.get(place, "reads"), each.kind, key=_STRENGTH.__getitem__)
    return [_draw_line(box, resources[place], kind) for place, kind in kinds.items()]


def _draw_line(box: Box, resource: Box, kind: AccessKind) -> Line:
    """Return the line from a component to a resource; of a consumer, from the resource."""
    x1, y1 = box.x + box.width, box.y + box.height / 2
    x2, y2 = resource.x, resource.y + resource.height / 2
    bend = (x2 - x1) / 2
    path = f"M{x1:g} {y1:g} C{x1 + bend:g} {y1:g} {x2 - bend:g} {y2:g} {x2:g} {y2:g}"
    head = {
        "reads": "",
        "writes": arrow(x2 - HEAD, y2, "right"),
        "receives": arrow(x1 + HEAD, y1, "left"),
    }[kind]
    return Line(path, kind, head)


def _describe(accesses: Sequence[Access]) -> str:
    """Return the diagram in words."""
    found: dict[str, dict[str, list[str]]] = {}
    for each in accesses:
        title = _name_place(each.resource)[0]
        names = found.setdefault(each.component, {}).setdefault(each.kind, [])
        if title not in names:
            names.append(title)
    texts = (
        f"{component} " + ", ".join(f"{kind} {', '.join(names)}" for kind, names in kinds.items())
        for component, kinds in found.items()
    )
    return "; ".join(texts) + "."
