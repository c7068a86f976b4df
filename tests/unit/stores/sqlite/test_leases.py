"""Leases in a SQLite file: one holder at a time, takeover after expiry, and fencing of former holders."""

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
from holdfast.stores.sqlite.leases import require_lease
from tests.unit.stores.sqlite.pairs import numbers_in, open_pairs, pair

ROOT = Path(__file__).parents[4]
TAKE_AND_WAIT = """
import sys
from holdfast.stores.sqlite import Leases
from tests.unit.stores.sqlite.pairs import open_pairs
print(Leases(open_pairs(sys.argv[1]), lambda: 1000.0, seconds=30).take("reaper").token, flush=True)
sys.stdin.read()
"""


class FakeNow:
    """A clock that moves only by hand."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def now() -> FakeNow:
    return FakeNow()


def take(leases: Leases, name: str = "reaper") -> Lease:
    """Take the lease; fail if another process holds it."""
    lease = leases.take(name)
    assert lease is not None
    return lease


def test_a_lease_has_one_holder(database: Database, now: FakeNow) -> None:
    ours, theirs = Leases(database, now), Leases(database, now)

    lease = take(ours)

    assert lease == Lease("reaper", ours.owner, 1030.0, 1)
    assert theirs.take("reaper") is None
    assert ours.take("reaper") is None
    assert theirs.take("backfill") is not None
    assert theirs.holder("reaper") == lease


def test_asking_for_a_lease_another_holds_writes_nothing(file_database: Database, now: FakeNow) -> None:
    take(Leases(file_database, now))
    before = file_database.committer.commits
    assert Leases(file_database, now).take("reaper") is None
    assert file_database.committer.commits == before


def test_a_renewed_lease_lasts_longer_with_the_same_token(database: Database, now: FakeNow) -> None:
    ours, theirs = Leases(database, now), Leases(database, now)
    lease = take(ours)
    now.seconds += 20
    renewed = ours.renew(lease)
    now.seconds += 20

    assert (renewed.token, renewed.expires_at) == (lease.token, 1050.0)
    assert theirs.take("reaper") is None


def test_a_lease_that_ran_out_is_taken_over_with_a_greater_token(database: Database, now: FakeNow) -> None:
    ours, theirs = Leases(database, now), Leases(database, now)
    lease = take(ours)
    now.seconds += 30

    assert take(theirs).token == lease.token + 1
    with pytest.raises(LeaseLost, match="'reaper' was taken over"):
        ours.renew(lease)


def test_a_lease_that_ran_out_but_was_not_taken_can_be_renewed(database: Database, now: FakeNow) -> None:
    ours = Leases(database, now)
    lease = take(ours)
    now.seconds += 100
    assert ours.renew(lease).expires_at == 1130.0


def test_a_released_lease_can_be_taken_at_once_with_a_greater_token(database: Database, now: FakeNow) -> None:
    ours, theirs = Leases(database, now), Leases(database, now)
    lease = take(ours)
    ours.release(lease)
    assert take(theirs).token == lease.token + 1


def test_releasing_a_lease_that_was_taken_over_does_nothing(database: Database, now: FakeNow) -> None:
    ours, theirs = Leases(database, now), Leases(database, now)
    lease = take(ours)
    now.seconds += 30
    take(theirs)
    ours.release(lease)
    assert ours.take("reaper") is None


def test_former_holder_may_not_write(database: Database, now: FakeNow) -> None:
    ours, theirs = Leases(database, now), Leases(database, now)
    lease = take(ours)

    def work_under(lease: Lease, number: int) -> None:
        def unit(connection: apsw.Connection) -> None:
            require_lease(connection, lease)
            pair(number)(connection)

        database.write(unit)

    work_under(lease, 1)
    now.seconds += 30
    successor = take(theirs)
    with pytest.raises(LeaseLost):
        work_under(lease, 2)
    work_under(successor, 3)
    assert numbers_in(database) == {1, 3}


def test_a_lease_from_a_clock_that_was_ahead_can_be_taken(database: Database, now: FakeNow) -> None:
    ours, theirs = Leases(database, now), Leases(database, now)
    now.seconds += 3600
    lease = take(ours)
    now.seconds -= 3600

    successor = take(theirs)
    assert (successor.token, successor.expires_at) == (lease.token + 1, 1030.0)
    with pytest.raises(LeaseLost):
        ours.renew(lease)
    assert ours.take("reaper") is None


def test_stale_clock_reading_does_not_win_a_taken_lease(database: Database, now: FakeNow) -> None:
    ours = Leases(database, now)

    def slow_now() -> float:
        seen = now.seconds
        if ours.holder("reaper") is None:
            now.seconds += 5
            take(ours)
        return seen

    assert Leases(database, slow_now).take("reaper") is None


def test_one_of_many_concurrent_callers_gets_the_lease(database: Database, now: FakeNow) -> None:
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


def test_the_lease_of_a_killed_process_is_taken_over_once_it_runs_out(tmp_path: Path, now: FakeNow) -> None:
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
        assert take(leases).token == 2
