"""Public names: a short root that imports lazily, modules that list what they export, one class per name."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections import defaultdict
from importlib import import_module

import pytest

import holdfast
from tests.repo.python_lists import list_names, list_public_modules

MAX_ROOT_NAMES = 45


def test_the_root_has_the_few_names_of_a_first_system() -> None:
    names: dict[str, object] = {}
    exec("from holdfast import *", names)

    assert names.keys() - {"__builtins__"} == set(holdfast.__all__)
    assert set(holdfast.__all__) < set(dir(holdfast))
    assert len(holdfast.__all__) <= MAX_ROOT_NAMES


def test_the_root_imports_nothing_before_a_name_is_used() -> None:
    program = "import holdfast, sys; print([name for name in sys.modules if name.startswith('holdfast.')])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == "[]"


def test_a_name_of_another_module_is_refused_with_its_import() -> None:
    with pytest.raises(AttributeError, match=r"use `from holdfast\.model\.sql import SqlRows`"):
        _ = holdfast.SqlRows  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"no attribute 'Tabel'$"):
        _ = holdfast.Tabel  # type: ignore[attr-defined]


def test_every_public_module_lists_what_it_exports() -> None:
    assert [name for name in list_public_modules() if not hasattr(import_module(name), "__all__")] == []


def test_a_public_name_means_one_class() -> None:
    # The requests of the engines have the names of AWS's API, as have the operations of the model.
    meanings = defaultdict(set)
    for path in list_public_modules():
        if not path.startswith("holdfast.operations."):
            module = import_module(path)
            for name in list_names(module):
                if inspect.isclass(value := getattr(module, name)):
                    meanings[name].add(value)

    assert meanings
    assert {name: found for name, found in meanings.items() if len(found) > 1} == {}
