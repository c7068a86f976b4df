"""Masking of values that a page shows: personal data, and content that is encrypted.

`Masker` masks the attributes of an item, the columns of a row, or any JSON-like value. Texts pass the
system's own redactor, the one that its logs pass; a system without one gets the default. A redactor finds a
phone number anywhere, but a person's name only by the name of its field, so values are also masked by their
names: those that the redactor masks, those of `PERSONAL_NAMES`, and those that the system declares
(`Privacy(personal_names=…)`). Encrypted content is never shown,
revealed or not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from holdfast.guarantees import Redactor
from holdfast.model.system import System
from holdfast.security.ciphers import is_encrypted

__all__ = ["MASK", "Hidden", "Masker"]

MASK: Final = "***"
ENCRYPTED: Final = "encrypted"
# Names of attributes whose values are personal whatever their form.
PERSONAL_NAMES: Final = re.compile(
    r"(?:^|_)(?:birth_?date|date_of_birth|birthday|dob|ssn|social_security\w*|passport\w*|iban|card_number"
    r"|(?:first|last|full|given|family|middle|maiden)_name|surname|family|given"
    r"|(?:customer|patient|passenger|traveller|traveler|employee|member|subscriber|contact|guest|person)_name"
    r"|street|post_?code|zip_?code|(?:street|postal|home|billing|shipping|mailing)_address|address_line\w*"
    r"|e_?mails?|phones?|mobile|telephone|fax|whats_?app)(?:_|$)"
)
_SECRET_NAMES: Final = re.compile(r"encrypted|cipher_?text")
_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# What a redactor may mask because of the name of its field.
_PROBES: Final = ("x", "1980-01-31", "4812")
MAX_PARSED_CHARS: Final = 65_536


@dataclass(frozen=True)
class Hidden:
    """What is shown in place of a value: a mask, or a word for what it is. `tag` is its DynamoDB type."""

    text: str
    tag: str = "S"

    def __str__(self) -> str:
        return self.text


class Masker:
    """Masks the personal data of one system. With `is_revealed`, only encrypted content is hidden."""

    def __init__(
        self,
        redact: Callable[[str], str] | None = None,
        *,
        is_revealed: bool = False,
        personal_names: frozenset[str] = frozenset(),
    ) -> None:
        self._redact, self._declared_names = redact or _DEFAULT.redact, personal_names
        self.is_revealed = is_revealed
        self._personal_names: dict[str, bool] = {}

    @classmethod
    def for_system(cls, system: System, *, is_revealed: bool = False) -> Masker:
        """Return the masker with the system's redactor and its personal names."""
        privacy = system.privacy
        return cls(privacy.redact_logs, is_revealed=is_revealed, personal_names=privacy.personal_names)

    def mask_attributes(
        self, item: Mapping[str, Any], visible: frozenset[str] = frozenset()
    ) -> dict[str, Any]:
        """Return the attributes with personal data masked, except `visible` ones: an item's own key."""
        return {name: self.mask(name, value, is_key=name in visible) for name, value in item.items()}

    def mask(self, name: str, value: Any, *, is_key: bool = False) -> Any:
        """Return a value as it may be shown: masked in part, `Hidden`, or unchanged."""
        if is_secret(name, value):
            return Hidden(ENCRYPTED, "B" if isinstance(value, bytes) else "S")
        if is_key or (self.is_revealed and not isinstance(value, (dict, list))):
            return value
        return self._mask_value(name, value)

    def is_masked(self, name: str, value: Any) -> bool:
        """Return whether a user without the role sees less than the value."""
        return bool(self.mask(name, value) != value)

    # --- values ---------------------------------------------------------------------------------------------

    def _mask_value(self, name: str, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, dict):
            # Under a personal name, such as `full_name`, every member is personal.
            names = {inner: name if self.is_personal(name) else inner for inner in value}
            return {self._mask_name(inner): self.mask(names[inner], each) for inner, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.mask(name, each) for each in value]
        if isinstance(value, frozenset | set):
            return self._mask_set(name, frozenset(value))
        if self.is_revealed:
            return value
        if isinstance(value, bytes | memoryview):
            return Hidden(f"{len(bytes(value)):,} bytes", "B")
        if self.is_personal(name):
            return Hidden(MASK, "N" if isinstance(value, int | float | Decimal) else "S")
        return self._mask_text(value) if isinstance(value, str) else value

    def _mask_set(self, name: str, values: frozenset[Any]) -> Any:
        """Return the set, or a list of its elements if one of them is masked."""
        masked = [self._mask_value(name, each) for each in sorted(values, key=str)]
        return values if all(each in values for each in masked) else masked

    def _mask_name(self, name: str) -> str:
        """Return the name of a map's member, which may be data."""
        return name if self.is_revealed else self._redact(name)

    def _mask_text(self, text: str) -> str:
        """Return the text redacted. JSON in it is masked by the names of its members too, and hidden if it is
        too large for that.
        """
        if text.lstrip()[:1] in ("{", "["):
            if len(text) > MAX_PARSED_CHARS:
                return f"{MASK} ({len(text):,} characters)"
            with suppress(ValueError, RecursionError):
                masked = self._mask_value("", json.loads(text))
                return json.dumps(masked, ensure_ascii=False, separators=(",", ":"), default=str)
        return self._redact(text)

    def is_personal(self, name: str) -> bool:
        """Return whether values under this name are personal, whatever their form."""
        if name not in self._personal_names:
            self._personal_names[name] = bool(
                name in self._declared_names
                or PERSONAL_NAMES.search(to_words(name))
                or any(self._masks_by_name(name, each) for each in _PROBES)
            )
        return self._personal_names[name]

    def _masks_by_name(self, name: str, probe: str) -> bool:
        """Return whether the redactor masks a value under this name that it leaves alone elsewhere."""
        line = json.dumps({name: probe}, ensure_ascii=False)
        return self._redact(probe) == probe and probe not in self._redact(line).replace(json.dumps(name), "")


_DEFAULT: Final = Redactor()


def is_secret(name: str, value: Any) -> bool:
    """Return whether a value is encrypted, by its content or by the name of its attribute."""
    return is_encrypted(value) or (value is not None and bool(_SECRET_NAMES.search(to_words(name))))


def to_words(name: str) -> str:
    """Return a name in snake case: `birthDate` as `birth_date`."""
    return _WORD_START.sub("_", name).replace("-", "_").lower()
