"""Random numbers: no id follows the shared generator of `random`, and no two processes make the same id."""

from __future__ import annotations

import subprocess
import sys
from base64 import urlsafe_b64decode
from pathlib import Path

from holdfast.core.rng import draw_bits, draw_bytes, make_hex_token, make_url_token, make_uuid

ROOT = Path(__file__).parents[3]

# Each id maker once in the parent and once in two forked children, always after the same seed of `random`,
# with a clock that stands still. Each process prints one line.
PROGRAM = """
import os, random, sys
from datetime import UTC, datetime
from holdfast.core.correlation import bind_correlation_id
from holdfast.core.rng import draw_bits, draw_bytes, make_hex_token, make_url_token, make_uuid
from holdfast.model.ulids import UlidGenerator
from holdfast.wire.http.app import create_request_id
from pagw.model.audit import Actor, AuditEvent, _build_entry

class StoppedClock:
    def now(self):
        return 1_700_000_000.0

ulids = UlidGenerator(StoppedClock())
event = AuditEvent("READ", Actor.service("test"), "test")

def make_correlation_id():
    with bind_correlation_id() as id:
        return id

MAKERS = {
    "uuid": make_uuid,
    "bits": lambda: draw_bits(80),
    "bytes": lambda: draw_bytes(16).hex(),
    "hex": lambda: make_hex_token(8),
    "url": lambda: make_url_token(8),
    "ulid": ulids.new,
    "correlation": make_correlation_id,
    "request": lambda: create_request_id().decode(),
    "audit": lambda: _build_entry(event, datetime.now(UTC)).event_uuid,
}

def print_ids():
    random.seed(7)
    line = " ".join(f"{name}={make()}" for name, make in MAKERS.items())
    os.write(1, f"{line}\\n".encode())

print_ids()
for _ in range(2):
    child = os.fork()
    if child == 0:
        print_ids()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print_ids()
"""


def test_no_process_makes_an_id_again_whatever_seeds_the_shared_generator() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    processes = [dict(each.split("=", 1) for each in line.split()) for line in done.stdout.splitlines()]

    assert len(processes) == 4
    for name in processes[0]:
        assert len({ids[name] for ids in processes}) == 4, name
    ulids = [ids["ulid"] for ids in processes]
    assert max(ulids[1:]) > ulids[0] == min(ulids), "each sorts after those before the fork"


def test_tokens_have_the_length_and_letters_they_promise() -> None:
    assert len(bytes.fromhex(make_hex_token(5))) == 5
    assert len(urlsafe_b64decode(make_url_token(33))) == 33
    assert make_url_token(1).isascii() and "=" not in make_url_token(1)
    assert len(draw_bytes(7)) == 7
    assert make_uuid().version == 4


def test_bits_stay_in_their_range_and_reach_all_of_it() -> None:
    drawn = {draw_bits(3) for _ in range(500)}

    assert drawn == set(range(8))
    assert max(draw_bits(80) for _ in range(50)).bit_length() > 70


def test_ids_outlast_many_refills_of_the_pool() -> None:
    assert len({make_uuid() for _ in range(2000)}) == 2000
    assert draw_bits(8 * 10_000).bit_length() > 79_000
