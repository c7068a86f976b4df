"""Add to each page of `docs/reference/api/` the reference of its module, from docstrings.

The page `holdfast.flows.md` documents the module `holdfast.flows`. If several modules make up one subject,
the front matter of the page lists them under `modules`. The public names of a module are those in `__all__`;
without it, those that the module defines, if no underscore is in front of the name. The page says so if
`docs/reference/stability.md` does not call a module public.
"""

from __future__ import annotations

import ast
import inspect
import posixpath
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from sphinx.addnodes import desc_content
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

FOLDER = "docs/reference/api"
PUBLIC_MODULES = re.compile(r"^\| ((?:`holdfast[\w.]*`(?:, )?)+) \|", re.MULTILINE)
FRONT_MATTER = re.compile(r"---\nmodules:\n((?:  - \S+\n)+)---\n")
CODE_SPAN = re.compile(r"(?<![`\w:])`([^`]+)`(?![`\w])")
COLUMNS = re.compile(r"\S {3,}\S")
# Defaults of fields as Python shows them: a function, a member of an enumeration, any other object.
SHOWN_DEFAULTS = (
    (re.compile(r"<function ([\w.]+)[^>]*>"), r"\1"),
    (re.compile(r"<([\w.]+): [^>]+>"), r"\1"),
    (re.compile(r"= <[^>]+>"), "= ..."),
)
# A module with more public names than this is divided by the modules that they come from.
MAX_NAMES_UNDIVIDED = 20
MAX_VALUE_CHARS = 60
# These parts come first, in this order: a reader meets them in it.
FIRST_PARTS = (
    "tables",
    "entity",
    "attributes",
    "keys",
    "reads",
    "writes",
    "conditions",
    "patterns",
    "system",
)
NOT_PUBLIC = "\n[Stability](../stability.md) does not list this module: it may change in any version.\n"
UPPER_CASE_WORDS = {"csv io": "CSV", "sql": "SQL", "ulids": "ULIDs"}


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("source-read", add_reference)
    app.connect("autodoc-process-signature", simplify_defaults)
    app.connect("autodoc-process-docstring", convert_docstring)
    app.connect("object-description-transform", leave_out_of_contents)
    return {"parallel_read_safe": True}


def add_reference(app: Sphinx, docname: str, source: list[str]) -> None:
    """Append the reference of the page's modules; on the first page of the folder, a table of the others."""
    folder, page = posixpath.split(docname)
    if folder == FOLDER and page == "index":
        source[0] += _build_page_table(app.srcdir / FOLDER)
    elif folder == FOLDER:
        modules = read_modules(page, source[0])
        is_only = len(modules) == 1
        source[0] += "".join(_build_module(app.srcdir / FOLDER, name, is_only=is_only) for name in modules)


def read_modules(page: str, text: str) -> list[str]:
    """Return the modules that a page documents."""
    listed = FRONT_MATTER.match(text)
    return listed[1].replace("  - ", "").split() if listed else [page]


def list_public_names(module: str) -> list[str]:
    """List the public names of a module in the order of `__all__` or of the source."""
    listed: list[str] | None = getattr(import_module(module), "__all__", None)
    return listed or [name for name in _list_definitions(module) if not name.startswith("_")]


def convert_docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Turn a docstring into reStructuredText: code becomes a link or a literal, columns a literal block."""
    if what == "data":
        # The entry has the constant's own docstring; this is the one of its type.
        lines.clear()
    targets = _find_link_targets(app.srcdir / FOLDER)
    converted: list[str] = []
    for is_blank, group in groupby(lines, key=lambda line: not line.strip()):
        paragraph = list(group)
        if is_blank:
            converted += paragraph
        elif paragraph[0].startswith("    ") or any(COLUMNS.search(line) for line in paragraph):
            literal = textwrap.dedent("\n".join(paragraph)).splitlines()
            converted += ["::", "", *(f"    {line}" for line in literal)]
        else:
            text = CODE_SPAN.sub(lambda span: _convert_span(span[1], targets), "\n".join(paragraph))
            converted += text.splitlines()
    lines[:] = converted


def simplify_defaults(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Replace defaults that are not Python, so that Sphinx can parse the signature and link its types."""
    for shown, replacement in SHOWN_DEFAULTS:
        signature = shown.sub(replacement, signature) if signature else signature
    return signature, returned


def leave_out_of_contents(app: Sphinx, domain: str, kind: str, content: desc_content) -> None:
    """Keep methods and attributes out of the lists of contents, which they would make too long."""
    if domain == "py" and kind in {"attribute", "method", "property"}:
        for signature in content.parent[:-1]:
            signature["_toc_name"] = ""


def _convert_span(text: str, targets: Mapping[str, str]) -> str:
    """Return a link to a public name or module, or a literal. A span may continue in the next line."""
    code = " ".join(text.split())
    return f":py:obj:`{code} <{targets[code]}>`" if code in targets else f"``{code}``"


@cache
def _find_link_targets(folder: Path) -> Mapping[str, str]:
    """Map the names that mean one object only, and the documented modules, to their full names."""
    owners = _find_owners(folder)
    counts = Counter(name for _, name in owners)
    targets = {name: f"{owner}.{name}" for (_, name), owner in owners.items() if counts[name] == 1}
    return targets | {module: module for module in _list_documented_modules(folder)}


@cache
def _find_owners(folder: Path) -> Mapping[tuple[str, str], str]:
    """Map the definition of each public name, as module and name, to the first module that documents it."""
    owners: dict[tuple[str, str], str] = {}
    for module in _list_documented_modules(folder):
        for name in list_public_names(module):
            owners.setdefault((_find_definition(module, name), name), module)
    return owners


def _list_documented_modules(folder: Path) -> list[str]:
    """List the modules of all pages; a package comes before its modules."""
    pages = _list_pages(folder)
    return [module for page in pages for module in read_modules(page.stem, page.read_text(encoding="utf-8"))]


def _list_pages(folder: Path) -> list[Path]:
    return sorted(folder.glob("holdfast*.md"), key=lambda path: path.stem)


@cache
def _list_public_modules(folder: Path) -> frozenset[str]:
    """Return the modules that the page on stability calls public."""
    text = (folder.parent / "stability.md").read_text(encoding="utf-8")
    return frozenset(
        name for cell in PUBLIC_MODULES.findall(text) for name in re.findall(r"`([\w.]+)`", cell)
    )


# --- the text of a page -------------------------------------------------------------------------------------


def _build_page_table(folder: Path) -> str:
    """Return a table of the pages, each with the first line of its module's docstring."""
    rows = ["", "| module | contents |", "|---|---|"]
    for page in _list_pages(folder):
        first_line = (import_module(page.stem).__doc__ or "").strip().partition("\n")[0]
        rows.append(f"| [`{page.stem}`]({page.name}) | {first_line} |")
    return "\n".join(rows) + "\n"


def _build_module(folder: Path, module: str, *, is_only: bool) -> str:
    """Return the Markdown of a module: its docstring, then its public names.

    A name that another module documents is a link to it. Constants without a docstring come last.
    """
    owners = _find_owners(folder)
    owned = {name: owners[_find_definition(module, name), name] for name in list_public_names(module)}
    names = [name for name, owner in owned.items() if owner == module]
    links = [_link(f"{owner}.{name}") for name, owner in owned.items() if owner != module]
    explained = [name for name in names if _is_explained(module, name)]
    is_divided = len(explained) > MAX_NAMES_UNDIVIDED and hasattr(import_module(module), "__all__")
    groups = _divide_names(module, explained) if is_divided else {"": explained}
    constants = [name for name in names if name not in explained]

    marks = "##" if is_only else "###"
    text = "" if is_only else f"\n\n## `{module}`\n"
    text += _build_rst([f".. automodule:: {module}"])
    text += "" if module in _list_public_modules(folder) else NOT_PUBLIC
    text += f"\nAlso exported here: {', '.join(links)}.\n" if links else ""
    text += _build_overview(module, groups) if is_divided else ""
    for title, members in [*groups.items(), ("Constants", constants)]:
        text += f"\n\n{marks} {title}\n" if title and members else ""
        text += _build_names(module, members) if members else ""
    return text


def _is_explained(module: str, name: str) -> bool:
    """Return True for a class, a function, and a constant with a docstring."""
    obj = getattr(import_module(module), name)
    return inspect.isclass(obj) or inspect.isroutine(obj) or bool(_read_constant_doc(module, name))


def _link(full_name: str) -> str:
    return f"{{py:obj}}`{full_name.rpartition('.')[2]} <{full_name}>`"


def _divide_names(module: str, names: list[str]) -> dict[str, list[str]]:
    """Group names by the last word of the module that they are imported from."""
    parts: dict[str, list[str]] = {}
    for name in names:
        parts.setdefault(_read_imports(module).get(name, module).rpartition(".")[2], []).append(name)
    first = [part for part in FIRST_PARTS if part in parts]
    return {_make_title(part): parts[part] for part in dict.fromkeys([*first, *sorted(parts)])}


def _make_title(part: str) -> str:
    words = part.replace("_", " ")
    return UPPER_CASE_WORDS.get(words, words.capitalize())


def _build_overview(module: str, groups: Mapping[str, list[str]]) -> str:
    """Return a table of the groups, each name a link to its entry."""
    rows = ["\n\n| part | names |", "|---|---|"]
    for title, names in groups.items():
        rows.append(f"| {title} | {', '.join(_link(f'{module}.{name}') for name in names)} |")
    return "\n".join(rows) + "\n"


def _build_names(module: str, names: Iterable[str]) -> str:
    return _build_rst(
        [f".. currentmodule:: {module}", "", *(line for name in names for line in _build_entry(module, name))]
    )


def _build_entry(module: str, name: str) -> Iterator[str]:
    """Yield the lines of the directive that documents one name."""
    obj = getattr(import_module(module), name)
    if inspect.isclass(obj) and issubclass(obj, Exception):
        yield from (f".. autoexception:: {name}", "   :members:", "   :show-inheritance:")
    elif inspect.isclass(obj):
        yield from (f".. autoclass:: {name}", "   :members:")
    elif inspect.isroutine(obj):
        yield f".. autofunction:: {name}"
    else:
        yield f".. autodata:: {name}"
        if len(repr(obj)) > MAX_VALUE_CHARS:
            yield "   :no-value:"
        yield ""
        yield from (f"   {line}" for line in _read_constant_doc(module, name))
    yield ""


def _build_rst(lines: list[str]) -> str:
    body = "\n".join(lines)
    return f"\n\n```{{eval-rst}}\n{body}\n```\n"


# --- reading modules ----------------------------------------------------------------------------------------


def _list_definitions(module: str) -> Iterator[str]:
    """Yield the names of the classes, functions and constants that a module defines."""
    for node in _parse(module):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield name


@cache
def _parse(module: str) -> list[ast.stmt]:
    return ast.parse(inspect.getsource(import_module(module))).body


@cache
def _read_imports(module: str) -> Mapping[str, str]:
    """Map each name that a module imports to the module that it comes from; `import *` is followed."""
    found: dict[str, str] = {}
    blocks = [node.body for node in _parse(module) if isinstance(node, ast.If)]
    for node in chain(_parse(module), *blocks):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("holdfast."):
            for alias in node.names:
                found |= _read_imports(node.module) if alias.name == "*" else {alias.name: node.module}
    return found


def _find_definition(module: str, name: str) -> str:
    """Return the module that defines a name which another one exports."""
    while name in (imports := _read_imports(module)):
        module = imports[name]
    return module


def _read_constant_doc(module: str, name: str) -> list[str]:
    """Return the docstring below the assignment of a constant."""
    documented = ModuleAnalyzer.for_module(_find_definition(module, name)).find_attr_docs()
    return documented.get(("", name), [])
