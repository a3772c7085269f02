"""Load for the comparisons that `liststore bench` has no words for: a closed loop over raw sockets.

Each connection sends its next request once the one before is answered. Requests come ready made, so
that the generator does little beside them; it runs on the same machine, and counts in no ratio of CPU
time. Needs nothing but the standard library.
"""

import json
import selectors
import socket
import struct
import time
from functools import partial

from measure import Failed, cpu_secs

RECEIVE_BYTES = 256 << 10
# A server without an answer for this long hangs.
PATIENCE_SECS = 60


class Exchange:
    """A request, and how its answer is known to be whole and good."""

    def __init__(self, request, is_whole, units=1):
        self.request = request
        self.is_whole = is_whole
        # Its weight: an add of ten items counts ten.
        self.units = units


def http(method, path, body=None, units=1, word=None):
    """A request of Liststore's API, answered with any 2xx, which has a word, if one is given, once for each unit."""
    content = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    is_whole = partial(_http_has, word, units) if word else _http_is_whole
    return Exchange(head.encode() + b"\r\n" + content, is_whole, units)


def _http_is_whole(answer):
    end = answer.find(b"\r\n\r\n")
    if end < 0:
        return False
    if not answer.startswith(b"HTTP/1.1 2"):
        raise Failed(f"refused: {answer[:2_000].decode(errors='replace')}")
    head = answer[:end].lower()
    at = head.find(b"content-length:")
    length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
    return len(answer) >= end + 4 + length


def _http_has(word, times, answer):
    if not _http_is_whole(answer):
        return False
    if answer.count(word) != times:
        raise Failed(f"not {times} of {word.decode()}: {answer[:2_000].decode(errors='replace')}")
    return True


def redis(*commands, lines, units=1):
    """Commands of Redis's protocol, sent together, whose answers have so many lines in all."""
    request = b"".join(_command(words) for words in commands)

    def is_whole(answer):
        if not answer.endswith(b"\r\n") or answer.count(b"\r\n") < lines:
            return False
        if any(line.startswith(b"-") for line in answer.split(b"\r\n")):
            raise Failed(f"refused: {answer[:2_000].decode(errors='replace')}")
        return True

    return Exchange(request, is_whole, units)


def _command(words):
    parts = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class Postgres:
    """Statements of one text on Postgres, prepared once on each connection (its manual, chapter "Frontend/Backend
    Protocol", extended query). It sends no password: the server trusts every client."""

    READY = b"Z\0\0\0\5"

    def __init__(self, user, database, statement):
        start = b"".join(f"{word}\0".encode() for word in ("user", user, "database", database)) + b"\0"
        self.start = struct.pack("!ii", 8 + len(start), 196_608) + start
        self.parse = self._message(b"P", f"q\0{statement}\0".encode() + b"\0\0") + self._message(b"S")

    def open(self, connection):
        """What comes before a connection's first statement."""
        for message in self.start, self.parse:
            connection.sendall(message)
            answer = b""
            while not self._is_whole(answer):
                received = connection.recv(RECEIVE_BYTES)
                if not received:
                    raise Failed(f"Postgres closed a connection: {answer[:2_000].decode(errors='replace')}")
                answer += received

    def execute(self, *values, units=1, tag=None):
        """`tag` is what the server has to say once it is done, such as `SELECT 20`, if that is known."""
        parts = [text.encode() for text in values]
        bound = b"".join(struct.pack("!i", len(part)) + part for part in parts)
        bind = self._message(b"B", b"\0q\0" + struct.pack("!hh", 0, len(parts)) + bound + struct.pack("!h", 0))
        execute = self._message(b"E", b"\0" + struct.pack("!i", 0)) + self._message(b"S")
        return Exchange(bind + execute, partial(self._is_done, tag) if tag else self._is_whole, units)

    @staticmethod
    def _message(kind, body=b""):
        return kind + struct.pack("!i", 4 + len(body)) + body

    @classmethod
    def _is_whole(cls, answer):
        # At once, or after a BindComplete.
        if answer.startswith((b"E", b"2\0\0\0\4E")):
            raise Failed(f"refused: {answer[:2_000].decode(errors='replace')}")
        return answer[-6:-1] == cls.READY

    @classmethod
    def _is_done(cls, tag, answer):
        if not cls._is_whole(answer):
            return False
        if not answer[:-6].endswith(f"{tag}\0".encode()):
            raise Failed(f"not {tag}, but {answer[-100:].decode(errors='replace')}")
        return True


class Done:
    """What a run came to."""

    def __init__(self, requests, units, seconds, server_secs):
        self.requests = requests
        self.units = units
        self.seconds = seconds
        self.server_secs = server_secs

    @property
    def micros_per_request(self):
        """CPU time of the server for a request."""
        return 1e6 * self.server_secs / self.requests

    @property
    def units_per_cpu_sec(self):
        return self.units / self.server_secs


class _Connection:
    def __init__(self, port, opened):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if opened:
            opened(self.socket)
        self.answer = b""
        self.exchange = None

    def send(self, exchange):
        self.exchange = exchange
        self.answer = b""
        self.socket.sendall(exchange.request)


def run(pid, port, exchanges, connections=50, seconds=None, opened=None):
    """Sends what an iterator gives until it ends, or for so many seconds, and returns what the server
    with this process did for it. Every request that was sent is answered before that. Each connection is
    given to `opened` before, which counts for nothing."""
    selector = selectors.DefaultSelector()
    source = iter(exchanges)
    ready = [_Connection(port, opened) for _ in range(connections)]
    began = time.monotonic()
    server_began = cpu_secs(pid)
    open_requests = requests = units = 0
    for connection in ready:
        exchange = next(source, None)
        if exchange is None:
            continue
        connection.send(exchange)
        open_requests += 1
        selector.register(connection.socket, selectors.EVENT_READ, connection)
    while open_requests:
        events = selector.select(PATIENCE_SECS)
        if not events:
            raise Failed(f"{open_requests} requests had no answer for {PATIENCE_SECS} s")
        for key, _ in events:
            connection = key.data
            received = connection.socket.recv(RECEIVE_BYTES)
            if not received:
                raise Failed("the server closed a connection")
            connection.answer = connection.answer + received if connection.answer else received
            if not connection.exchange.is_whole(connection.answer):
                continue
            requests += 1
            units += connection.exchange.units
            is_over = seconds is not None and time.monotonic() - began >= seconds
            exchange = None if is_over else next(source, None)
            if exchange is None:
                open_requests -= 1
                selector.unregister(connection.socket)
            else:
                connection.send(exchange)
    done = Done(requests, units, time.monotonic() - began, cpu_secs(pid) - server_began)
    # Not before: Postgres has a process for each connection, which ends with it.
    for connection in ready:
        connection.socket.close()
    return done
