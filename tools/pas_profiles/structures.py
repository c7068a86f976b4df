"""Compile a StructureDefinition's snapshot into a tree of element rules.

The rules keep what a checker needs, under the short names that `pagw.domain.profiles.tables` documents. What
every element has alike (`id`, `extension`) and what no checker needs (texts, mappings) is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tools.pas_profiles.fhirpath_parser import Tree, parse

Json = dict[str, Any]

BASE: Final = "http://hl7.org/fhir/StructureDefinition/"
# The checker's own code covers these: no empty elements, and Narratives are not read.
_NATIVE_CONSTRAINTS: Final = frozenset({"ele-1", "txt-1", "txt-2"})
_BEST_PRACTICE: Final = f"{BASE}elementdefinition-bestpractice"
_FHIR_TYPE: Final = f"{BASE}structuredefinition-fhir-type"
# Definitions of FHIR itself do not occur in an authorization, and some of their invariants are quadratic.
_DEFINITIONS: Final = frozenset(
    "CapabilityStatement CodeSystem CompartmentDefinition ConceptMap ElementDefinition ExampleScenario "
    "GraphDefinition ImplementationGuide MessageDefinition NamingSystem OperationDefinition SearchParameter "
    "StructureDefinition StructureMap TerminologyCapabilities TestReport TestScript ValueSet".split()
)
# Profiles of other guides whose type does not follow from their name.
_US_CORE: Final = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-"
_US_CORE_TYPES: Final[Mapping[str, str]] = {
    "simple-observation": "Observation",
    "vital-signs": "Observation",
    "medicationrequest": "MedicationRequest",
}


class Compiler:
    """Compiles structures and collects the constraints that they use.

    `structures` are FHIR's resources and data types; `profiles` maps each known profile to its type.
    """

    def __init__(self, structures: Iterable[Json]) -> None:
        self.profiles: Mapping[str, str] = {}
        self.types = frozenset(each["type"] for each in structures)
        paths = [element["path"] for each in structures for element in each["snapshot"]["element"]]
        self._choices = frozenset(
            path.rpartition(".")[2].removesuffix("[x]") for path in paths if path.endswith("[x]")
        )
        self.constraints: dict[str, list[Any]] = {}
        self.used: set[str] = set()
        self.gaps: list[str] = []
        self._has_constraints = True
        self._by_expression: dict[tuple[str, str], str] = {}

    def compile(self, structure: Mapping[str, Any]) -> Json:
        """Compile one structure: `{"t": type, …rules of its root}`."""
        self._has_constraints = structure["type"] not in _DEFINITIONS
        nodes = _build_tree(structure["snapshot"]["element"])
        root = nodes[structure["snapshot"]["element"][0]["id"]]
        is_primitive = structure["kind"] == "primitive-type"
        return {"t": structure["type"], **self._compile_root(root, is_primitive)}

    def _compile_root(self, root: _Node, is_primitive: bool) -> Json:
        rules: Json = {}
        self._add_constraints(rules, root.element)
        if not is_primitive:
            self._add_children(rules, root)
        return rules

    def _compile_node(self, node: _Node) -> Json:
        element = node.element
        name = element["path"].rpartition(".")[2]
        rules: Json = {"n": name.removesuffix("[x]")}
        if name.endswith("[x]"):
            rules["x"] = 1
        if element.get("base", {}).get("max", element["max"]) != "1":
            rules["a"] = 1
        if element["min"]:
            rules["min"] = element["min"]
        if element["max"] != "*":
            rules["max"] = int(element["max"])
        if "contentReference" in element:
            rules["ref"] = element["contentReference"].partition("#")[2]
        if types := [self._compile_type(each, element) for each in element.get("type", [])]:
            rules["t"] = types
        self._add_values(rules, element)
        self._add_constraints(rules, element)
        self._add_children(rules, node)
        if node.slices:
            self._add_slices(rules, node)
        return rules

    def _compile_type(self, type: Json, element: Json) -> list[Any]:
        """Return the code, then profiles of the type, then targets as pairs of type and profile."""
        code = type["code"]
        if code.startswith("http://hl7.org/fhirpath/"):
            found = [each.get("valueUrl") for each in type.get("extension", []) if each["url"] == _FHIR_TYPE]
            code = found[0] if found else "string"
        if element["path"].endswith(".id") and element.get("base", {}).get("path") == "Resource.id":
            code = "id"
        profiles = [_strip_version(each) for each in type.get("profile", [])]
        targets = [self._find_target(_strip_version(each)) for each in type.get("targetProfile", [])]
        if not targets and not profiles:
            return [code]
        return (
            [code, profiles, [list(each) for each in dict.fromkeys(targets)]] if targets else [code, profiles]
        )

    def _find_target(self, profile: str) -> tuple[str, str | None]:
        """Return the type of a reference's target, and the profile if it is known. "" is any type."""
        if profile in self.profiles:
            return self.profiles[profile], profile
        name = profile.removeprefix(BASE)
        if name in self.types:
            return ("" if name == "Resource" else name), None
        return self._guess_type(profile), None

    def _guess_type(self, profile: str) -> str:
        name = profile.removeprefix(_US_CORE)
        if name in _US_CORE_TYPES:
            return _US_CORE_TYPES[name]
        fitting = [each for each in self.types if name.startswith(each.lower())]
        found = max(fitting, key=len, default="")
        self.gaps.append(f"target {profile}: {found or 'any type'}")
        return found

    def _add_values(self, rules: Json, element: Json) -> None:
        for key, value in element.items():
            if key.startswith("fixed"):
                rules["fixed"] = value
            elif key.startswith("pattern"):
                rules["pattern"] = value
        binding = element.get("binding", {})
        # Whether a code outside of an extensible value set fits better, only a person can say.
        if binding.get("strength") == "required" and "valueSet" in binding:
            rules["b"] = _strip_version(binding["valueSet"])

    def _add_constraints(self, rules: Json, element: Json) -> None:
        if not self._has_constraints:
            return
        found = [self._intern(each) for each in element.get("constraint", [])]
        if kept := sorted({each for each in found if each is not None}):
            rules["c"] = kept
            self.used.update(kept)

    def _intern(self, constraint: Json) -> str | None:
        """Return the name of a constraint in the tables, or None if it is not checked."""
        key, expression = constraint["key"], constraint.get("expression")
        if key in _NATIVE_CONSTRAINTS or expression is None or _is_best_practice(constraint):
            return None
        if (known := self._by_expression.get((key, expression))) is not None:
            return known
        same_key = sum(each == key for each, _ in self._by_expression)
        name = f"{key}~{same_key}" if same_key else key
        self._by_expression[key, expression] = name
        self.constraints[name] = [
            constraint["severity"],
            constraint["human"],
            parse(expression, self._choices),
        ]
        return name

    def _add_children(self, rules: Json, node: _Node) -> None:
        if not node.children:
            return
        for name, flag in (("extension", "ext"), ("modifierExtension", "mod")):
            if name in node.children:
                rules[flag] = 1
        kept = [
            self._compile_node(child) for name, child in node.children.items() if not _is_usual(name, child)
        ]
        rules["k"] = kept

    def _add_slices(self, rules: Json, node: _Node) -> None:
        slicing = node.element.get("slicing", {})
        discriminators = slicing.get("discriminator", [{"type": "value", "path": "url"}])
        slices = []
        for name, each in node.slices.items():
            matchers = [self._compile_matcher(each, discriminator) for discriminator in discriminators]
            slices.append({**self._compile_node(each), "slice": name, "m": matchers})
        rules["s"] = slices
        if slicing.get("rules") == "closed":
            rules["closed"] = 1

    def _compile_matcher(self, node: _Node, discriminator: Json) -> list[Any]:
        """Return how an item is recognised as one of the slice; `["none"]` if that cannot be decided."""
        kind, path = discriminator["type"], discriminator["path"]
        tree = parse(path, self._choices)
        if kind in {"value", "pattern"}:
            if path == "url" and (url := _find_url(node)) is not None:
                return ["url", url]
            found = _find_defined(node, tree)
            for rule in ("fixed", "pattern"):
                value = _get_value(found, rule)
                if value is not None:
                    return [rule, tree, value]
            binding = found.element.get("binding", {}) if found is not None else {}
            if binding.get("strength") == "required" and "valueSet" in binding:
                return ["codes", tree, _strip_version(binding["valueSet"])]
        found = _find_defined(node, tree)
        if kind == "type" and found is not None:
            return ["type", tree, [each["code"] for each in found.element.get("type", [])]]
        if kind == "exists" and found is not None:
            return ["exists", tree, found.element["max"] != "0"]
        self.gaps.append(f"slice {node.element['id']}: {kind} {path}")
        return ["none"]


class _Node:
    def __init__(self, element: Json) -> None:
        self.element = element
        self.children: dict[str, _Node] = {}
        self.slices: dict[str, _Node] = {}


def _build_tree(elements: Iterable[Json]) -> dict[str, _Node]:
    """Return the nodes of a snapshot by id, linked to their children and slices."""
    nodes: dict[str, _Node] = {}
    for element in elements:
        node = nodes[element["id"]] = _Node(element)
        parent, _, last = element["id"].rpartition(".")
        if not parent:
            continue
        name, _, slice = last.partition(":")
        if slice:
            nodes[f"{parent}.{name}"].slices[slice] = node
        else:
            nodes[parent].children[name] = node
    return nodes


def _is_usual(name: str, node: _Node) -> bool:
    """Return whether the element is the `id` or `extension` that every element has."""
    element = node.element
    if name == "id":
        return bool(element.get("base", {}).get("path") != "Resource.id")
    is_extension = name in {"extension", "modifierExtension"}
    return bool(is_extension and not node.slices and element["min"] == 0 and element["max"] == "*")


def _find_url(node: _Node) -> str | None:
    """Return the URL of an extension slice: its profile, or the fixed value of its `url`."""
    for type in node.element.get("type", []):
        for profile in type.get("profile", []):
            return _strip_version(profile)
    child = node.children.get("url")
    url = child.element.get("fixedUri") if child is not None else None
    return url if isinstance(url, str) else None


def _find_defined(node: _Node, tree: Tree) -> _Node | None:
    """Return the definition that a discriminator's path leads to within a slice."""
    match tree:
        case ["this"]:
            return node
        case ["get" | "choice", base, name]:
            parent = _find_defined(node, base)
            children = parent.children if parent is not None else {}
            return children.get(name) or children.get(f"{name}[x]")
        case ["call", base, "extension", ["lit", url]]:
            parent = _find_defined(node, base)
            extension = parent.children.get("extension") if parent is not None else None
            slices = extension.slices.values() if extension is not None else ()
            return next((each for each in slices if _find_url(each) == url), None)
        case ["as", base, _]:
            return _find_defined(node, base)
    return None


def _get_value(node: _Node | None, rule: str) -> Any:
    """Return the fixed or pattern value of a definition, or None."""
    element = node.element if node is not None else {}
    return next((value for key, value in element.items() if key.startswith(rule)), None)


def _is_best_practice(constraint: Json) -> bool:
    marks = constraint.get("extension", [])
    is_marked = any(each["url"] == _BEST_PRACTICE and each.get("valueBoolean") for each in marks)
    return is_marked or constraint["key"] == "dom-6"


def _strip_version(canonical: str) -> str:
    return canonical.partition("|")[0]
