"""Verification of objects, for `holdfast doctor --deep` and backups: every object against its hash."""

from __future__ import annotations

from pathlib import Path

import msgspec

from holdfast.core.errors import HoldfastError, InvalidRequest, ObjectDamaged
from holdfast.core.progress import Progress
from holdfast.security.ciphers import Cipher, Envelope
from holdfast.stores.objects.local import object_file
from holdfast.stores.objects.local.inspection import inspect_buckets
from holdfast.stores.objects.local.paths import FILE_SUFFIX, OBJECTS_FOLDER, parse_key


class ObjectsReport(msgspec.Struct, kw_only=True):
    """What a folder holds: the number of objects of each bucket, and of those encrypted with each key; and
    what is wrong, one line each.
    """

    counts: dict[str, int] = {}
    keys: dict[str, int] = {}
    problems: list[str] = []


def verify_objects(folder: Path, cipher: Cipher | None, progress: Progress) -> ObjectsReport:
    """Read every object of a folder and decrypt it; without a cipher, only read it. Nothing is changed."""
    report = ObjectsReport()
    try:
        report.counts = dict.fromkeys(inspect_buckets(folder), 0)
    except HoldfastError as error:
        report.problems.append(error.message)
    for bucket in report.counts:
        files = sorted((folder / bucket / OBJECTS_FOLDER).rglob(f"*{FILE_SUFFIX}"))
        for done, file in enumerate(files, start=1):
            key = parse_key(bucket, file.relative_to(folder).as_posix())
            if key is not None and file.is_file():
                _verify_object(report, file, bucket, key, cipher)
            progress(f"{bucket} (objects)", done, len(files))
    return report


def _verify_object(report: ObjectsReport, file: Path, bucket: str, key: str, cipher: Cipher | None) -> None:
    """Add the object in a file to the report, with what is wrong with it."""
    try:
        found = object_file.parse_file(file.read_bytes(), bucket, key)
        report.counts[bucket] += 1
        id = _read_key_id(found, bucket)
        report.keys[id] = report.keys.get(id, 0) + 1
        if cipher is not None:
            object_file.decrypt_body(found, bucket, cipher)
    except FileNotFoundError:
        # It was deleted after the folder was listed.
        return
    except ObjectDamaged as error:
        report.problems.append(f"the object {key} in {bucket} is damaged: {error.reason}")
    except HoldfastError as error:
        report.problems.append(f"the object {key} in {bucket} cannot be verified: {error.message}")
    except OSError as error:
        report.problems.append(f"the object {key} in {bucket} cannot be read: {error.strerror}")


def _read_key_id(file: object_file.ObjectFile, bucket: str) -> str:
    """Return the id of the key that the object is encrypted with. Raise `ObjectDamaged` without one."""
    try:
        return Envelope.parse(file.stored_body).key_id
    except InvalidRequest as error:
        raise ObjectDamaged(bucket, file.info.key, error.message.rstrip(".")) from error
