"""A connection to PostgreSQL that breaks at a chosen message: before it, in it, or before its answer.

What the server writes is its own affair; what a collector can lose is the connection, and with it the answer
to a commit that happened. A message is here what the server acts upon at once: everything up to the
protocol's next Sync or Flush, a simple query, or the start of a session.
"""

import socket
import struct
import threading
import time
from contextlib import suppress

_LENGTH = struct.Struct("!I")
# Sync, Flush, Query and Terminate; of the server, ReadyForQuery.
_ENDS, _READY = b"SHQX", b"Z"
_FLUSH = b"H\x00\x00\x00\x04"
# Seconds in which the server has answered; after a Flush it does not say when it is ready.
_LONGEST, _AFTER_FLUSH = 10, 0.05

# before: nothing of it arrives; half: some of it; after: all of it, but the answer is lost; delay: slowly.
MODES = ("before", "half", "after", "delay")


class CuttingProxy:
    """Listens on the loopback, for one test; counts messages, and breaks the connection at one of them."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._mode, self._at, self.n_messages = "", 0, 0
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, mode: str = "", at: int = 0) -> None:
        """Count anew; the `at`-th message from now on meets the fault."""
        with self._lock:
            self._mode, self._at, self.n_messages = mode, at, 0

    def close(self) -> None:
        """Take no more connections."""
        # A listener that somebody waits on ends by being shut down.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _met(self) -> str:
        with self._lock:
            self.n_messages += 1
            return self._mode if self.n_messages == self._at else ""

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self._server_port))
        for side in (client, server):
            # Answers come in many small pieces; none waits for the one before to be confirmed.
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        is_answered, is_lost = threading.Event(), threading.Event()
        back = threading.Thread(target=_answer, args=(server, client, is_lost, is_answered), daemon=True)
        back.start()
        with suppress(OSError, EOFError):
            message = _read_start(client)
            while message:
                mode = self._met()
                if mode == "delay":
                    time.sleep(0.005)
                if mode == "after":
                    is_lost.set()
                if mode == "half":
                    server.sendall(message[: len(message) // 2])
                elif mode != "before":
                    server.sendall(message)
                if mode == "after":
                    is_answered.wait(_AFTER_FLUSH if message.endswith(_FLUSH) else _LONGEST)
                if mode in ("before", "half", "after"):
                    break
                message = _read_message(client)
        for side in (client, server):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
        back.join(_LONGEST)
        client.close()
        server.close()


def _answer(server, client, is_lost, is_answered) -> None:
    """Bring the server's answers back, unless they are lost."""
    with suppress(OSError, EOFError):
        while True:
            kind, answer = _read_one(server)
            if not is_lost.is_set():
                client.sendall(answer)
            elif kind == _READY:
                break
    is_answered.set()
    with suppress(OSError):
        client.shutdown(socket.SHUT_WR)


def _read_start(client: socket.socket) -> bytes:
    head = _exactly(client, _LENGTH.size)
    return head + _exactly(client, _LENGTH.unpack(head)[0] - _LENGTH.size)


def _read_message(client: socket.socket) -> bytes:
    parts, kind = [], b""
    while kind not in _ENDS or not kind:
        kind, part = _read_one(client)
        parts.append(part)
    return b"".join(parts)


def _read_one(side: socket.socket) -> tuple[bytes, bytes]:
    """A message's letter, and all of it."""
    head = _exactly(side, 1 + _LENGTH.size)
    return head[:1], head + _exactly(side, _LENGTH.unpack(head[1:])[0] - _LENGTH.size)


def _exactly(side: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = side.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)
