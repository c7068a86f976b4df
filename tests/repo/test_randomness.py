"""One source of randomness: `holdfast.core.rng`. Others could be seeded, or shared by forked processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.cases import all_cases
from tests.repo.versioned_files import list_versioned_files

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = "src/holdfast/core/rng.py"
# Code that runs at users'. Tests may make ids of their own, but never with the shared generator.
PRODUCT: Final = ("src/", "systems/", "demo/")
# A generator of its own, with a seed, or the operating system's.
ALLOWED_CLASSES: Final = {"Random", "SystemRandom"}
ID_MAKERS: Final = {"uuid1", "uuid4", "urandom"}


def find_faults(tree: ast.AST, *, is_product: bool) -> Iterator[str]:
    """Yield what draws random numbers from another source than `core/rng.py`."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                wrong = {"random", *(("secrets",) if is_product else ())}
                yield from (f"import {each.name}" for each in names if each.name in wrong)
            case ast.ImportFrom(module="random", names=names):
                yield from (
                    f"from random import {each.name}" for each in names if each.name not in ALLOWED_CLASSES
                )
            case ast.ImportFrom(module="secrets") if is_product:
                yield "from secrets import"
            case ast.ImportFrom(module="uuid" | "os", names=names) if is_product:
                yield from (f"import of {each.name}" for each in names if each.name in ID_MAKERS)
            case ast.Attribute(attr=name) if is_product and name in ID_MAKERS:
                yield f"use of {name}"
            case ast.Attribute(
                value=ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="random"), attr=name
            ):
                if name not in ("default_rng", "Generator"):
                    yield f"use of numpy.random.{name}"
            case ast.Call(
                func=ast.Name(id="Random") | ast.Attribute(attr="default_rng"), args=[], keywords=[]
            ):
                yield "a generator without a seed"


def test_random_numbers_come_from_one_module() -> None:
    found = {}
    for name in list_versioned_files():
        if name.endswith(".py") and name != SOURCE:
            tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
            if faults := sorted(set(find_faults(tree, is_product=name.startswith(PRODUCT)))):
                found[name] = faults

    assert found == {}


@all_cases(
    ("line", "is_wrong"),
    [
        ("import random", True),
        ("from random import getrandbits", True),
        ("from random import Random", False),
        ("Random()", True),
        ("Random(7)", False),
        ("import secrets", True),
        ("from secrets import token_hex", True),
        ("from holdfast.security.secrets import Secret", False),
        ("from uuid import UUID, uuid5", False),
        ("from uuid import uuid4", True),
        ("uuid.uuid4()", True),
        ("os.urandom(8)", True),
        ("np.random.rand()", True),
        ("np.random.default_rng(5)", False),
        ("np.random.default_rng()", True),
    ],
)
def test_the_check_finds_other_sources(line: str, is_wrong: bool) -> None:
    assert bool(list(find_faults(ast.parse(line), is_product=True))) is is_wrong
