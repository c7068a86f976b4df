"""Leases: one holder at a time, taken over when it runs out, and a former holder is kept from writing."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import apsw
import pytest

from holdfast.core.errors import LeaseLost
from holdfast.stores.sqlite import Database, Lease, Leases
from holdfast.stores.sqlite.leases import require
from tests.unit.sqlite.pairs import numbers_in, open_pairs, pair

ROOT = Path(__file__).parents[3]
TAKE_AND_WAIT = """
import sys
from holdfast.stores.sqlite import Leases
from tests.unit.sqlite.pairs import open_pairs
print(Leases(open_pairs(sys.argv[1]), lambda: 1000.0, seconds=30).take("reaper").token, flush=True)
sys.stdin.read()
"""


class Now:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def now() -> Now:
    return Now()


def taken(leases: Leases, name: str = "reaper") -> Lease:
    lease = leases.take(name)
    assert lease is not None
    return lease


def test_a_lease_has_one_holder(database: Database, now: Now) -> None:
    ours, theirs = Leases(database, now), Leases(database, now)

    lease = taken(ours)

    assert lease == Lease("reaper", ours.owner, 1030.0, 1)
    assert theirs.take("reaper") is None
    assert ours.take("reaper") is None
    assert theirs.take("backfill") is not None
    assert theirs.holder("reaper") == lease


def test_asking_for_a_lease_another_holds_writes_nothing(file_database: Database, now: Now) -> None:
    taken(Leases(file_database, now))
    before = file_database.committer.commits
    assert Leases(file_database, now).take("reaper") is None
    assert file_database.committer.commits == before


def test_a_renewed_lease_lasts_longer_with_the_same_token(database: Database, now: Now) -> None:
    ours, theirs = Leases(database, now), Leases(database, now)
    lease = taken(ours)
    now.seconds += 20
    renewed = ours.renew(lease)
    now.seconds += 20

    assert (renewed.token, renewed.expires_at) == (lease.token, 1050.0)
    assert theirs.take("reaper") is None


def test_a_lease_that_ran_out_is_taken_over_with_a_greater_token(database: Database, now: Now) -> None:
    ours, theirs = Leases(database, now), Leases(database, now)
    lease = taken(ours)
    now.seconds += 30

    assert taken(theirs).token == lease.token + 1
    with pytest.raises(LeaseLost, match="'reaper' was taken over"):
        ours.renew(lease)


def test_a_lease_that_ran_out_but_was_not_taken_can_be_renewed(database: Database, now: Now) -> None:
    ours = Leases(database, now)
    lease = taken(ours)
    now.seconds += 100
    assert ours.renew(lease).expires_at == 1130.0


def test_a_released_lease_can_be_taken_at_once_with_a_greater_token(database: Database, now: Now) -> None:
    ours, theirs = Leases(database, now), Leases(database, now)
    lease = taken(ours)
    ours.release(lease)
    assert taken(theirs).token == lease.token + 1


def test_releasing_a_lease_that_was_taken_over_does_nothing(database: Database, now: Now) -> None:
    ours, theirs = Leases(database, now), Leases(database, now)
    lease = taken(ours)
    now.seconds += 30
    taken(theirs)
    ours.release(lease)
    assert ours.take("reaper") is None


def test_a_former_holder_is_kept_from_writing(database: Database, now: Now) -> None:
    ours, theirs = Leases(database, now), Leases(database, now)
    lease = taken(ours)

    def work_under(lease: Lease, number: int) -> None:
        def unit(connection: apsw.Connection) -> None:
            require(connection, lease)
            pair(number)(connection)

        database.write(unit)

    work_under(lease, 1)
    now.seconds += 30
    successor = taken(theirs)
    with pytest.raises(LeaseLost):
        work_under(lease, 2)
    work_under(successor, 3)
    assert numbers_in(database) == {1, 3}


def test_a_lease_from_a_clock_that_was_ahead_can_be_taken(database: Database, now: Now) -> None:
    ours, theirs = Leases(database, now), Leases(database, now)
    now.seconds += 3600
    lease = taken(ours)
    now.seconds -= 3600

    successor = taken(theirs)
    assert (successor.token, successor.expires_at) == (lease.token + 1, 1030.0)
    with pytest.raises(LeaseLost):
        ours.renew(lease)
    assert ours.take("reaper") is None


def test_who_looked_at_the_clock_before_another_took_the_lease_does_not_get_it(
    database: Database, now: Now
) -> None:
    ours = Leases(database, now)

    def slow_now() -> float:
        seen = now.seconds
        if ours.holder("reaper") is None:
            now.seconds += 5
            taken(ours)
        return seen

    assert Leases(database, slow_now).take("reaper") is None


def test_of_many_who_ask_at_once_one_gets_it(database: Database, now: Now) -> None:
    got: list[Lease | None] = []
    start = threading.Barrier(8)

    def ask() -> None:
        start.wait(30)
        got.append(Leases(database, now).take("reaper"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(got) == 8
    assert len([lease for lease in got if lease is not None]) == 1


def test_the_lease_of_a_killed_process_is_taken_over_once_it_runs_out(tmp_path: Path, now: Now) -> None:
    path = str(tmp_path / "pairs.db")
    command = [sys.executable, "-c", TAKE_AND_WAIT, path]
    with (
        open_pairs(path) as database,
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder,
    ):
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"1\n"
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        leases = Leases(database, now)

        assert leases.take("reaper") is None
        now.seconds += 30
        assert taken(leases).token == 2
