"""Verification of an objects folder, for `holdfast doctor --deep`: every object against its hash."""

from __future__ import annotations

from pathlib import Path

from holdfast.core.errors import HoldfastError, ObjectDamaged
from holdfast.core.progress import Progress
from holdfast.security.ciphers import Cipher
from holdfast.stores.objects.local import object_file
from holdfast.stores.objects.local.inspection import inspect_buckets
from holdfast.stores.objects.local.paths import FILE_SUFFIX, parse_key, to_folder


def verify_objects(folder: Path, cipher: Cipher, progress: Progress) -> list[str]:
    """Return everything that is wrong with the objects of a folder, one line each.

    Each object is read and decrypted. Nothing is changed.
    """
    try:
        buckets = inspect_buckets(folder)
    except HoldfastError as error:
        return [error.message]
    problems: list[str] = []
    for bucket in buckets:
        files = sorted((folder / to_folder(bucket, "")).rglob(f"*{FILE_SUFFIX}"))
        for done, file in enumerate(files, start=1):
            key = parse_key(bucket, file.relative_to(folder).as_posix())
            if key is not None and file.is_file():
                problems += _verify_object(file, bucket, key, cipher)
            progress(f"{bucket} (objects)", done, len(files))
    return problems


def _verify_object(file: Path, bucket: str, key: str, cipher: Cipher) -> list[str]:
    """Return what is wrong with the object in a file: nothing, or one line."""
    try:
        found = object_file.parse_file(file.read_bytes(), bucket, key)
        object_file.decrypt_body(found, bucket, cipher)
    except FileNotFoundError:
        # It was deleted after the folder was listed.
        return []
    except ObjectDamaged as error:
        return [f"the object {key} in {bucket} is damaged: {error.reason}"]
    except HoldfastError as error:
        return [f"the object {key} in {bucket} cannot be verified: {error.message}"]
    except OSError as error:
        return [f"the object {key} in {bucket} cannot be read: {error.strerror}"]
    return []
