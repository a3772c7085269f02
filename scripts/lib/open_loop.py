"""Load that comes whatever the server does: so many requests a second of each kind, over connections that are kept.

A request's latency counts from when it was due, so that one which had to wait for a connection counts whole. Needs
nothing but the standard library.
"""

import select
import socket
import time
from collections import deque

from measure import Failed

RECEIVE_BYTES = 256 << 10
ANSWER_SECONDS_MAX = 60


class _Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answer, self.exchange, self.kind, self.due = b"", None, None, 0.0

    def fileno(self):
        return self.socket.fileno()

    def send(self, kind, due, exchange):
        self.answer, self.exchange, self.kind, self.due = b"", exchange, kind, due
        self.socket.sendall(exchange.request)


def run(port, kinds, is_running, connections=64):
    """Sends requests of each kind, {name: (so many a second, exchanges)}, while `is_running(seconds)`, which
    is asked twice a second. Returns the latencies of each kind, in seconds. Every request that was due is answered
    before that."""
    # The one that has been idle longest is next, because a server closes idle connections.
    free = deque(_Connection(port) for _ in range(connections))
    everyone, waiting = list(free), deque()
    latencies = {kind: [] for kind in kinds}
    began = time.perf_counter()
    due = {kind: began for kind in kinds}
    asked, is_over, answered = began, False, began
    while not is_over or waiting or len(free) < connections:
        now = time.perf_counter()
        if not is_over and now - asked > 0.5:
            asked, is_over = now, not is_running(now - began)
        for kind, (rate, _) in kinds.items():
            while not is_over and due[kind] <= now:
                waiting.append((kind, due[kind]))
                due[kind] += 1 / rate
        while waiting and free:
            kind, at = waiting.popleft()
            free.popleft().send(kind, at, next(kinds[kind][1]))
        if now - answered > ANSWER_SECONDS_MAX:
            raise Failed("the server answers nothing")
        # Sockets without an awaited answer are silent, so all may be polled.
        pause = 0.01 if is_over else max(0.0, min(due.values()) - time.perf_counter())
        for connection in select.select(everyone, [], [], pause)[0]:
            received = connection.socket.recv(RECEIVE_BYTES)
            if not received:
                raise Failed("the server closed a connection")
            connection.answer += received
            answered = now
            if connection.exchange.is_whole(connection.answer):
                latencies[connection.kind].append(time.perf_counter() - connection.due)
                free.append(connection)
    for connection in everyone:
        connection.socket.close()
    return latencies
