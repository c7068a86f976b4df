"""The file cipher's key file: created once, readable only by its owner, rotated atomically."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.core.errors import InvalidRequest, KeyUnavailable, SettingsError, StoreFileError
from holdfast.security.ciphers import Envelope, open_file_cipher

OPENING = """
import sys
from pathlib import Path
from holdfast.security.ciphers import open_file_cipher
sys.stdin.readline()
print(open_file_cipher(Path(sys.argv[1])).current_key_id)
"""


def test_creates_a_key_file_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    open_file_cipher(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert {each.name for each in tmp_path.iterdir()} == {"keys.json", ".keys.json.identity"}


def test_rejects_a_key_file_that_others_can_read(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    open_file_cipher(path)
    for mode in (0o640, 0o604, 0o660):
        path.chmod(mode)
        with pytest.raises(SettingsError, match="chmod 600"):
            open_file_cipher(path)


def test_processes_that_create_the_file_at_once_get_the_same_key(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    openers = [
        subprocess.Popen(
            [sys.executable, "-c", OPENING, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write("\n")
        opener.stdin.flush()
    ids = {opener.communicate()[0] for opener in openers}
    assert ids == {open_file_cipher(path).current_key_id + "\n"}


def test_a_rotation_reaches_a_cipher_that_is_open(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    here, elsewhere = open_file_cipher(path), open_file_cipher(path)
    old = here.encrypt(b"text", {})
    id = elsewhere.rotate()
    assert here.current_key_id == id == Envelope.parse(here.encrypt(b"text", {})).key_id
    assert here.decrypt(elsewhere.encrypt(b"new", {}), {}) == b"new"
    assert elsewhere.decrypt(old, {}) == b"text"
    assert path.stat().st_mode & 0o777 == 0o600


def test_lost_key_file_is_not_replaced_by_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    cipher = open_file_cipher(path)
    message = cipher.encrypt(b"text", {})
    path.unlink()
    with pytest.raises(StoreFileError, match="says that it held data"):
        open_file_cipher(path)
    with pytest.raises(KeyUnavailable, match=r"keys\.json"):
        cipher.decrypt(message, {})
    with pytest.raises(KeyUnavailable, match=r"keys\.json"):
        cipher.encrypt(b"text", {})
    assert not path.exists()


def test_error_names_the_lost_key(tmp_path: Path) -> None:
    message = open_file_cipher(tmp_path / "one.json").encrypt(b"text", {})
    other = open_file_cipher(tmp_path / "other.json")
    with pytest.raises(KeyUnavailable, match=Envelope.parse(message).key_id):
        other.decrypt(message, {})


def test_a_key_under_the_id_of_another_does_not_decrypt(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    cipher = open_file_cipher(path)
    message = cipher.encrypt(b"text", {})
    held = json.loads(path.read_text())
    other = json.loads((_make_key_file(tmp_path / "other.json")).read_text())
    held["keys"][held["current"]] = next(iter(other["keys"].values()))
    path.write_text(json.dumps(held))
    with pytest.raises(KeyUnavailable, match=held["current"]):
        cipher.decrypt(message, {})
    # A file of an older version has no check values.
    del held["checks"]
    path.write_text(json.dumps(held))
    with pytest.raises(InvalidRequest, match="damaged"):
        open_file_cipher(path).decrypt(message, {})


def test_no_changed_character_of_a_key_goes_unnoticed(tmp_path: Path) -> None:
    path = _make_key_file(tmp_path / "keys.json")
    open_file_cipher(path).rotate()
    sound = json.loads(path.read_text())
    for id, key in sound["keys"].items():
        # The last character before the padding has bits that are no part of the key.
        for at in range(len(key) - 2):
            changed = key[:at] + ("A" if key[at] != "A" else "B") + key[at + 1 :]
            path.write_text(json.dumps(sound | {"keys": sound["keys"] | {id: changed}}))
            with pytest.raises(KeyUnavailable, match=f"The key '{id}' in .* was changed"):
                open_file_cipher(path)


def test_a_key_that_lost_its_id_is_named(tmp_path: Path) -> None:
    path = _make_key_file(tmp_path / "keys.json")
    cipher = open_file_cipher(path)
    message, old = cipher.encrypt(b"text", {}), cipher.current_key_id
    cipher.rotate()
    path.write_text(path.read_text().replace(f'"{old}":', '"key-other":', 1))
    with pytest.raises(KeyUnavailable, match=old):
        open_file_cipher(path).decrypt(message, {})


def test_a_file_without_check_values_gets_them_with_its_next_key(tmp_path: Path) -> None:
    path = _make_key_file(tmp_path / "keys.json")
    cipher = open_file_cipher(path)
    message = cipher.encrypt(b"text", {})
    older = json.loads(path.read_text())
    del older["checks"]
    path.write_text(json.dumps(older))

    assert open_file_cipher(path).decrypt(message, {}) == b"text"
    cipher.rotate()
    written = json.loads(path.read_text())
    assert (written["version"], set(written["checks"])) == (older["version"], set(written["keys"]))
    assert open_file_cipher(path).decrypt(message, {}) == b"text"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version": 1, "current": "a", "keys": {}}',
        '{"version": 2, "current": "a", "keys": {"a": ""}}',
        '{"version": 1, "current": "a", "keys": {"a": "c2hvcnQ="}}',
        '{"version": 1, "current": "a", "keys": {"a": "%"}}',
    ],
)
def test_rejects_a_file_that_is_not_a_key_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
    path.touch(mode=0o600)
    path.write_text(text)
    with pytest.raises(SettingsError, match="Invalid key file"):
        open_file_cipher(path)


def test_reports_a_deleted_key_file(tmp_path: Path) -> None:
    cipher = open_file_cipher(_path := tmp_path / "keys.json")
    _path.unlink()
    with pytest.raises(KeyUnavailable, match="Failed to read"):
        cipher.encrypt(b"", {})


def test_rejects_a_path_where_no_file_can_be_created(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="setting `keys`"):
        open_file_cipher(tmp_path / "none" / "keys.json")


def _make_key_file(path: Path) -> Path:
    open_file_cipher(path)
    return path
