#!/usr/bin/env python3
"""A very small CQL client: enough to see whether a node answers, and to look into a table.

Speaks the native protocol, version 4 (Apache Cassandra, doc/native_protocol_v4.spec), one
request at a time, with nothing but the standard library. scripts/cassandra calls it; it is no
driver, and nothing of Liststore uses it.

    cql.py ready HOST:PORT [--pid PID] [--peers N] [--consistency C] [--seconds S] [LOGIN]
        waits until the node answers OPTIONS and a query, knows N other nodes, and can read at C;
        ends at once with an error if the process PID is gone
    cql.py query HOST:PORT [--consistency C] [LOGIN] STATEMENT
        runs one statement and prints its rows, tab-separated under a header line
    LOGIN: [--user NAME --password WORD] [--ca FILE [--cert FILE --key FILE]]
"""

import argparse
import ipaddress
import os
import socket
import ssl
import struct
import sys
import time
import uuid

ERROR, STARTUP, READY, AUTHENTICATE, OPTIONS, SUPPORTED = 0x00, 0x01, 0x02, 0x03, 0x05, 0x06
QUERY, RESULT, AUTH_RESPONSE, AUTH_SUCCESS = 0x07, 0x08, 0x0F, 0x10
CONSISTENCIES = {"one": 1, "two": 2, "three": 3, "quorum": 4, "all": 5, "local_quorum": 6}
# A table of three replicas on every node: reading it at THREE needs three live nodes, as seen by the queried node.
REPLICATED = (
    "SELECT status FROM system_distributed.view_build_status"
    " WHERE keyspace_name = 'none' AND view_name = 'none'"
)


class CqlError(Exception):
    """The node answered, and the answer was an error."""


def short_string(text):
    data = text.encode()
    return struct.pack(">H", len(data)) + data


class Reader:
    """Takes the protocol's notations off a frame's body, one after another."""

    def __init__(self, body):
        self.body, self.at = body, 0

    def take(self, length):
        piece = self.body[self.at : self.at + length]
        if len(piece) != length:
            raise CqlError("the frame is shorter than what it announces")
        self.at += length
        return piece

    def short(self):
        return struct.unpack(">H", self.take(2))[0]

    def int(self):
        return struct.unpack(">i", self.take(4))[0]

    def string(self):
        return self.take(self.short()).decode()

    def value(self):
        length = self.int()
        return None if length < 0 else self.take(length)

    def type(self):
        code = self.short()
        if code == 0x00:
            return (code, self.string())
        if code in (0x20, 0x22):
            return (code, self.type())
        if code == 0x21:
            return (code, self.type(), self.type())
        if code == 0x30:
            self.string(), self.string()
            return (code, [(self.string(), self.type()) for _ in range(self.short())])
        if code == 0x31:
            return (code, [self.type() for _ in range(self.short())])
        return (code,)


def show(kind, data):
    """A column's value as text; what has no plain form is shown as hexadecimal bytes."""
    if data is None:
        return "null"
    code = kind[0]
    if code in (0x01, 0x0A, 0x0D):
        return data.decode(errors="backslashreplace")
    if code in (0x02, 0x05, 0x09, 0x0B, 0x12, 0x13, 0x14):
        return str(int.from_bytes(data, "big", signed=True))
    if code == 0x04:
        return str(data != b"\x00").lower()
    if code == 0x07:
        return repr(struct.unpack(">d", data)[0])
    if code in (0x0C, 0x0F):
        return str(uuid.UUID(bytes=data))
    if code == 0x10:
        return str(ipaddress.ip_address(data))
    if code in (0x20, 0x21, 0x22):
        reader, parts = Reader(data), []
        for _ in range(reader.int()):
            parts.append(": ".join(show(inner, reader.value()) for inner in kind[1:]))
        return ("[%s]" if code == 0x20 else "{%s}") % ", ".join(parts)
    return "0x" + data.hex()


class Connection:
    def __init__(self, address, login, seconds):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=seconds)
        self.login = login
        if login.ca:
            context = ssl.create_default_context(cafile=login.ca)
            if login.cert:
                context.load_cert_chain(login.cert, login.key)
            self.socket = context.wrap_socket(self.socket, server_hostname=host)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def receive(self, length):
        data = b""
        while len(data) < length:
            piece = self.socket.recv(length - len(data))
            if not piece:
                raise ConnectionError("the node closed the connection")
            data += piece
        return data

    def ask(self, opcode, body=b""):
        self.socket.sendall(struct.pack(">BBhBi", 4, 0, 0, opcode, len(body)) + body)
        _, flags, _, answer, length = struct.unpack(">BBhBi", self.receive(9))
        reader = Reader(self.receive(length))
        if flags & 0x08:
            for _ in range(reader.short()):
                print("warning: " + reader.string(), file=sys.stderr)
        if answer == ERROR:
            code = reader.int()
            raise CqlError("%s (0x%04x)" % (reader.string(), code))
        return answer, reader

    def open(self):
        version = short_string("CQL_VERSION") + short_string("3.0.0")
        answer, reader = self.ask(STARTUP, struct.pack(">H", 1) + version)
        if answer == AUTHENTICATE:
            if self.login.user is None:
                raise CqlError("the node asks for a login: %s" % reader.string())
            token = ("\0%s\0%s" % (self.login.user, self.login.password)).encode()
            answer, _ = self.ask(AUTH_RESPONSE, struct.pack(">i", len(token)) + token)
        if answer not in (READY, AUTH_SUCCESS):
            raise CqlError("unexpected answer 0x%02x to STARTUP" % answer)

    def query(self, statement, consistency="one"):
        """The names of the columns and the rows, as text. Only the first page (5,000 rows)."""
        text = statement.encode()
        tail = struct.pack(">HBi", CONSISTENCIES[consistency], 0x04, 5000)
        _, reader = self.ask(QUERY, struct.pack(">i", len(text)) + text + tail)
        if reader.int() != 2:
            return [], []
        flags, count = reader.int(), reader.int()
        if flags & 0x02:
            reader.value()
        if flags & 0x01:
            reader.string(), reader.string()
        names, kinds = [], []
        for _ in range(count):
            if not flags & 0x01:
                reader.string(), reader.string()
            names.append(reader.string())
            kinds.append(reader.type())
        rows = [[show(kind, reader.value()) for kind in kinds] for _ in range(reader.int())]
        return names, rows


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def ready(options):
    deadline = time.monotonic() + options.seconds
    while True:
        try:
            with Connection(options.address, options, 5) as node:
                node.ask(OPTIONS)
                node.open()
                _, peers = node.query("SELECT peer FROM system.peers_v2")
                if len(peers) < options.peers:
                    raise CqlError("it knows %d of %d other nodes" % (len(peers), options.peers))
                if options.consistency != "one":
                    node.query(REPLICATED, options.consistency)
                return 0
        except (OSError, CqlError) as error:
            reason = error
        if options.pid and not is_alive(options.pid):
            print("the process %d has ended" % options.pid, file=sys.stderr)
            return 1
        if time.monotonic() > deadline:
            seconds = "not ready within %g s" % options.seconds
            print("%s: %s: %s" % (options.address, seconds, reason), file=sys.stderr)
            return 1
        time.sleep(0.1)


def query(options):
    with Connection(options.address, options, 30) as node:
        node.open()
        names, rows = node.query(options.statement, options.consistency)
    for line in ([names] if names else []) + rows:
        print("\t".join(line))
    return 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    waits, asks = commands.add_parser("ready"), commands.add_parser("query")
    for command in (waits, asks):
        command.add_argument("address")
        command.add_argument("--consistency", choices=CONSISTENCIES, default="one")
        for name in ("user", "password", "ca", "cert", "key"):
            command.add_argument("--" + name)
    waits.add_argument("--pid", type=int)
    waits.add_argument("--peers", type=int, default=0)
    waits.add_argument("--seconds", type=float, default=120)
    asks.add_argument("statement")
    options = parser.parse_args()
    try:
        return ready(options) if options.command == "ready" else query(options)
    except (OSError, CqlError) as error:
        print("%s: %s" % (options.address, error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
