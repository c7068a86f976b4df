"""A process that writes pairs with several threads and prints the number of each acknowledged pair.

    python -m tests.unit.stores.sqlite.writer_process FILE FIRST_NUMBER THREADS COUNT

It prints "ready", waits for a line on its standard input, then writes until that closes, or until each thread
has written COUNT pairs, and ends its output with "commits N".
"""

from __future__ import annotations

import itertools
import os
import sys
import threading

from tests.unit.stores.sqlite.pairs import open_pairs, pair


def main(path: str, first: int, threads: int, count: int) -> None:
    """Write pairs numbered from `first` with this many threads, at most `count` pairs each."""
    database = open_pairs(path)
    numbers = itertools.count(first)
    asked_to_stop = threading.Event()

    def write_pairs() -> None:
        for _ in range(count):
            if asked_to_stop.is_set():
                return
            number = database.write(pair(next(numbers)))
            os.write(1, b"%d\n" % number)

    os.write(1, b"ready\n")
    sys.stdin.readline()
    writers = [threading.Thread(target=write_pairs) for _ in range(threads)]
    for writer in writers:
        writer.start()
    sys.stdin.read()
    asked_to_stop.set()
    for writer in writers:
        writer.join()
    os.write(1, b"commits %d\n" % database.committer.commits)
    database.close()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
