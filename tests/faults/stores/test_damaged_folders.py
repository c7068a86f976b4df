"""Every damage to every file of a data folder, while it is in use and while it is not.

Whatever happens to a file: each acknowledged write is read back, or a store refuses and names what is
damaged. No store returns something else, leaves something out or starts empty. `holdfast doctor --deep` finds
whatever makes a store refuse. `make test` runs a tenth of the cases; `HOLDFAST_SEED` repeats a run.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Bucket, Queue, System, Table
from holdfast.cli import main
from tests.faults.stores.damage.contents import MISSING, REFUSED, RIGHT, STORES, WRONG
from tests.faults.stores.damage.folders import (
    CLOSED,
    FOLDER_KINDS,
    KILLED,
    KINDS,
    LAST,
    STATES,
    USERS,
    Client,
    DataFolder,
    build_templates,
    find_store,
    is_object,
    list_targets,
)
from tests.processes import preload

# The stores import the packages that they need when they are opened.
preload(
    "tests.faults.stores.damage.process",
    "holdfast.stores.tables.embedded",
    "holdfast.stores.queues.embedded",
    "holdfast.stores.objects.local",
    "cryptography.hazmat.primitives.ciphers.aead",
)

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
SEED = int(os.environ.get("HOLDFAST_SEED", str(int.from_bytes(os.urandom(4), "big"))))
PARTS = 8
FLIPS = 24 if SOAK else 1
Case = tuple[str, str]


class Task(BaseModel):
    id: str


OFFICE = System(
    "office",
    "An office",
    tables=[Table("Rows", partition="pk")],
    queues=[Queue("jobs", Task, purpose="Jobs")],
    buckets=[Bucket("files", purpose="Files")],
)


def list_cases() -> list[Case]:
    """Return every target with every damage to it, and changed bits several times."""
    cases: list[Case] = []
    for target in list_targets():
        is_folder = target.startswith("objects") and not target.endswith(("@", ".json", "lock"))
        kinds = FOLDER_KINDS if is_folder else KINDS
        cases += [(target, kind) for kind in kinds for _ in range(FLIPS if kind == "flipped" else 1)]
    return cases


def select_cases(state: str, part: int) -> list[Case]:
    """Return this part of the cases; a tenth of them unless this is a soak run."""
    cases = list_cases()
    Random(f"{SEED} {state}").shuffle(cases)
    found = cases[part::PARTS]
    return found if SOAK else found[::10]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build_templates(tmp_path_factory.mktemp("templates"))


@pytest.fixture(autouse=True)
def office(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.model.system.load_systems", lambda: {"office": OFFICE})


@pytest.mark.parametrize(("state", "part"), list(product(STATES, range(PARTS))))
def test_no_damage_makes_a_store_lie(
    templates: dict[str, Path],
    state: str,
    part: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    record_property: Any,
) -> None:
    record_property("seed", SEED)
    for number, (target, kind) in enumerate(select_cases(state, part)):
        root = tmp_path / str(number)
        shutil.copytree(templates[KILLED if state == KILLED else CLOSED], root)
        run = Run(
            DataFolder(root), state, target, kind, Random(f"{SEED} {state} {number} {target} {kind}"), capsys
        )
        run.check()
        shutil.rmtree(root)


class Run:
    """One damage to one target in one state of the folder."""

    def __init__(
        self,
        folder: DataFolder,
        state: str,
        target: str,
        kind: str,
        random: Random,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self._folder, self._random, self._capsys = folder, random, capsys
        self._state, self._target, self._kind = state, target, kind
        self._is_in_use = False
        self._acknowledged: dict[str, list[int]] = {store: list(range(LAST)) for store in STORES}

    def check(self) -> None:
        """Damage the target, use the stores, and check everything that they and the doctor say."""
        with ExitStack() as self._processes:
            clients = [self._open() for _ in range(USERS[self._state])]
            for number, client in enumerate(clients):
                self._put(client, 100 + number)
            if clients and self._random.random() < 0.5:
                clients[0].move_logs()
            self._folder.damage(self._target, self._kind, self._random)
            if clients:
                self._is_in_use = True
                self._use(clients)
                self._is_in_use = False
            self._check_next_start(writes=True)
            self._check_next_start(writes=False)

    def _open(self) -> Client:
        """Open the folder in a process, which ends with the case."""
        client = Client(self._folder.path)
        self._processes.callback(client.end, killed=True)
        return client

    def _use(self, clients: list[Client]) -> None:
        """Read and write by processes that had the folder open, and by one that opens it now; end them."""
        # A write brings the pages that it changes from the memory of its process.
        if self._random.random() < 0.5:
            self._put(clients[0], 110)
        clients.append(self._open())
        for number in range(2):
            for place, client in enumerate(clients):
                self._read(client)
                self._put(client, 120 + 10 * number + place)
        for client in clients:
            client.end(killed=self._random.random() < 0.5)

    def _check_next_start(self, *, writes: bool) -> None:
        """Read by a process that opens the folder now. What it refuses, the doctor has found."""
        problems = self._run_doctor()
        client = self._open()
        refusals = self._read(client)
        if writes:
            self._put(client, 200)
        client.end(killed=False)
        assert problems or not refusals, f"{self} the doctor finds nothing, but {refusals}"

    def _put(self, client: Client, number: int) -> None:
        """Write under a number in every store, and remember what was acknowledged."""
        for store in client.put(number):
            self._acknowledged[store].append(number)

    def _read(self, client: Client) -> list[str]:
        """Read everything that was acknowledged, check it, and return the refusals."""
        before = len(client.errors)
        for store in STORES:
            letters = client.read(store, self._acknowledged[store])
            context = f"{self} {store} {letters} {client.errors[before:]}"
            assert WRONG not in letters, context
            assert MISSING not in letters or self._may_miss(store), context
            assert store == find_store(self._target) or set(letters) <= {RIGHT}, context
            assert client.errors[before:] or REFUSED not in letters, context
        return client.errors[before:]

    def _may_miss(self, store: str) -> bool:
        """Return whether something may be missing, as the guide to damaged data says: a removed object looks
        like one that was never put, and changed keys in a log in use are noticed when it is moved.
        """
        if store == "objects":
            return is_object(self._target) or self._kind.startswith("replaced")
        is_changed = self._kind.startswith(("flipped", "zeroed", "overwritten"))
        is_log = self._target.endswith(("-wal", "-shm", "*")) and is_changed
        # Another process that opens the store fills a cut index with zeros.
        is_index = self._target.endswith(("-shm", "*")) and self._kind in {"emptied", "halved", "shortened"}
        return self._is_in_use and (is_log or is_index)

    def _run_doctor(self) -> list[str]:
        """Return what `holdfast doctor --deep` finds wrong in the folder."""
        with pytest.raises(SystemExit) as exited:
            main(["doctor", "--deep", "--json", "--data", str(self._folder.path)])
        found = json.loads(self._capsys.readouterr().out)
        problems = [each["detail"] for each in found if not each["ok"]]
        assert exited.value.code == int(bool(problems))
        return problems

    def __str__(self) -> str:
        return f"seed {SEED}: {self._target} {self._kind} while {self._state}:"
