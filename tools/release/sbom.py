"""Describe a release as a software bill of materials (CycloneDX 1.6, JSON).

Everything comes from files: the distributions and their requirements from the metadata of the wheels; the
versions, hashes and dependencies of other packages from locks/runtime.txt; their licences from
docs/internals/dependencies.md. The same files give the same bytes.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from email.message import Message
from email.parser import HeaderParser
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PIN: Final = re.compile(r"(?P<name>[a-z0-9][a-z0-9-]*)==(?P<version>[^\s\\;]+)")
HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
# A package that needs another follows `via` or has its own line; options and projects contain a space.
NEEDED_BY: Final = re.compile(r"^    #(?: via|  ) +([a-z0-9][a-z0-9-]*)$", re.MULTILINE)
# The platform whose dependencies the bill of materials lists: the first that `make lock` locks for.
LOCKED_PLATFORM: Final = {
    "implementation_name": "cpython",
    "implementation_version": "3.11.0",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_release": "",
    "platform_system": "Linux",
    "platform_version": "",
    "python_full_version": "3.11.0",
    "python_version": "3.11",
    "sys_platform": "linux",
}
LICENCE_ROW: Final = re.compile(r"^\| `([a-z0-9-]+)` \| ([^|]+?) \|", re.MULTILINE)
LICENCE_ID: Final = re.compile(r"[A-Za-z0-9.+-]+")
LICENCE_EXPRESSION: Final = re.compile(rf"{LICENCE_ID.pattern}(?: (?:AND|OR|WITH) {LICENCE_ID.pattern})+")


@dataclass(frozen=True, slots=True)
class Package:
    """One package with the packages that it needs; `hashes` are those of the files that may be installed."""

    name: str
    version: str
    hashes: tuple[str, ...]
    licence: str = ""
    needs: set[str] = field(default_factory=set)
    needs_for_extras: set[str] = field(default_factory=set)

    @property
    def purl(self) -> str:
        """Return the package URL, which is also its reference in the document."""
        return f"pkg:pypi/{self.name}@{quote(self.version, safe='.-_~')}"


def read_wheels(wheels: Iterable[Path]) -> list[Package]:
    """Return the distributions in the wheels with their needs, sorted by name."""
    files: dict[str, Path] = {canonicalize_name(read_metadata(wheel)["Name"]): wheel for wheel in wheels}
    metadata = {name: read_metadata(wheel) for name, wheel in sorted(files.items())}
    requirements = {
        name: [Requirement(line) for line in each.get_all("Requires-Dist", [])]
        for name, each in metadata.items()
    }
    packages = []
    for name, each in metadata.items():
        needs = find_needs(requirements, name, ())
        all_needs = find_needs(requirements, name, each.get_all("Provides-Extra", []))
        digest = sha256(files[name].read_bytes()).hexdigest()
        packages.append(
            Package(name, each["Version"], (digest,), each["License-Expression"], needs, all_needs - needs)
        )
    return packages


def find_needs(
    requirements: Mapping[str, Sequence[Requirement]], name: str, extras: Iterable[str]
) -> set[str]:
    """Return the packages that a distribution needs with these extras.

    `requirements` are those of all distributions of the release: if one of them asks another for an extra, it
    needs the packages of that extra.
    """
    needs: set[str] = set()
    for requirement in requirements[name]:
        marker = requirement.marker
        if marker and not any(marker.evaluate(LOCKED_PLATFORM | {"extra": extra}) for extra in ("", *extras)):
            continue
        other = canonicalize_name(requirement.name)
        needs.add(other)
        if other in requirements:
            needs |= find_needs(requirements, other, requirement.extras) - find_needs(requirements, other, ())
    return needs


def read_metadata(wheel: Path) -> Message:
    """Return the METADATA of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        return HeaderParser().parsestr(archive.read(name).decode())


def read_lock(lock: str, licences: Mapping[str, str]) -> list[Package]:
    """Return the packages of a lock; the comments `# via` say which package needs which."""
    entries = re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE)[1:]
    packages = {}
    for entry in entries:
        pin = PIN.match(entry)
        if pin is None:
            raise ValueError(f"Invalid lock entry {entry.splitlines()[0]!r}: expected 'name==version'.")
        name = pin["name"]
        packages[name] = Package(name, pin["version"], tuple(HASH.findall(entry)), licences.get(name, ""))
    for entry, package in zip(entries, packages.values(), strict=True):
        for parent in NEEDED_BY.findall(entry):
            packages[parent].needs.add(package.name)
    return list(packages.values())


def read_licences(page: str) -> dict[str, str]:
    """Return the licence of each package from the tables of the dependencies page."""
    return dict(LICENCE_ROW.findall(page))


def build_sbom(released: date, own: Sequence[Package], locked: Iterable[Package]) -> str:
    """Return the document. Raise `ValueError` if a distribution needs a package without a pin."""
    packages = {package.name: package for package in [*locked, *own]}
    for package in own:
        if missing := sorted((package.needs | package.needs_for_extras) - packages.keys()):
            raise ValueError(
                f"{package.name} needs {', '.join(missing)}, which the lock does not pin. Run make lock."
            )
    required = _find_reachable(packages, {name for each in own for name in each.needs}, with_extras=False)
    included = _find_reachable(packages, {each.name for each in own}, with_extras=True)
    names = {each.name for each in own}
    release = {"type": "application", "name": "holdfast", "version": own[0].version, "bom-ref": "release"}
    content = {
        "metadata": {"timestamp": f"{released.isoformat()}T00:00:00Z", "component": release},
        "components": [
            _describe(packages[name], is_required=name in names | required) for name in sorted(included)
        ],
        "dependencies": [
            {"ref": "release", "dependsOn": [package.purl for package in own]},
            *(_describe_needs(packages[name], packages) for name in sorted(included)),
        ],
    }
    serial_number = uuid5(NAMESPACE_URL, json.dumps(content))
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": serial_number.urn, "version": 1}
    return json.dumps(head | content, indent=2, ensure_ascii=False) + "\n"


def _find_reachable(packages: Mapping[str, Package], names: set[str], *, with_extras: bool) -> set[str]:
    """Return the names, the packages that they need, what those need, and so on."""
    reached: set[str] = set()
    waiting = set(names)
    while waiting:
        package = packages[waiting.pop()]
        reached.add(package.name)
        needs = package.needs | package.needs_for_extras if with_extras else package.needs
        waiting |= needs - reached
    return reached


def _describe(package: Package, *, is_required: bool) -> dict[str, Any]:
    """Return the component; what only an extra needs is optional."""
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "scope": "required" if is_required else "optional",
        "hashes": [{"alg": "SHA-256", "content": each} for each in package.hashes],
        "purl": package.purl,
    }
    if package.licence:
        component["licenses"] = [_describe_licence(package.licence)]
    return component


def _describe_licence(text: str) -> dict[str, Any]:
    """Return an SPDX id, an SPDX expression, or a licence that has only a name."""
    if LICENCE_ID.fullmatch(text):
        return {"license": {"id": text}}
    expression = text.replace(" and ", " AND ").replace(" or ", " OR ")
    if LICENCE_EXPRESSION.fullmatch(expression):
        return {"expression": expression}
    return {"license": {"name": text}}


def _describe_needs(package: Package, packages: Mapping[str, Package]) -> dict[str, Any]:
    needs = package.needs | package.needs_for_extras
    return {"ref": package.purl, "dependsOn": [packages[name].purl for name in sorted(needs)]}
