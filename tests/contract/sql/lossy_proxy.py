"""A proxy in front of PostgreSQL's socket that cuts a connection before a request or before its answer."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit


class LossyProxy:
    """A proxy that cuts one connection at the next request that contains a word, then forwards everything
    again.

    `cuts` counts the connections it has cut.
    """

    def __init__(self, url: str, folder: Path) -> None:
        parts = urlsplit(url)
        where = parse_qs(parts.query)
        self._server = f"{where['host'][0]}/.s.PGSQL.{where['port'][0]}"
        self.url = f"postgresql://postgres@{parts.path}?host={quote(str(folder), safe='')}&port=5432"
        self._word: bytes | None = None
        self._is_heard = False
        self.cuts = 0
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / ".s.PGSQL.5432"))
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, word: bytes, *, is_heard: bool) -> None:
        """Cut at the next `word`. With `is_heard` the server runs the request and its answer is lost."""
        self._word, self._is_heard = word, is_heard

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        """Forward requests to the server, until the connection ends or is cut."""
        answers = threading.Event()
        answers.set()
        back = threading.Thread(target=_forward_answers, args=(server, client, answers), daemon=True)
        back.start()
        with suppress(OSError):
            while content := client.recv(65536):
                word = self._word
                if word is not None and word in content:
                    self._word, self.cuts = None, self.cuts + 1
                    answers.clear()
                    if self._is_heard:
                        server.sendall(content)
                        _wait_for_answer(client, server)
                    break
                server.sendall(content)
        for end in (client, server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        back.join()
        client.close()
        server.close()


def _wait_for_answer(client: socket.socket, server: socket.socket) -> None:
    """Forward the rest of the request until the server answers; the answer stays unread in the buffer."""
    while True:
        ready, _, _ = select.select([client, server], [], [])
        if server in ready:
            return
        server.sendall(client.recv(65536))


def _forward_answers(server: socket.socket, client: socket.socket, answers: threading.Event) -> None:
    """Forward the server's answers while `answers` is set."""
    with suppress(OSError):
        while server.recv(1, socket.MSG_PEEK) and answers.is_set():
            client.sendall(server.recv(65536))
    with suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)
