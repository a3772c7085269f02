"""A name server for one name, for tests: answers with one address, and for all others that there is none.

usage: name_server.py NAME ADDRESS    listens on 127.0.0.1:53 until it is ended; prints a line when it does
"""

import socket
import struct
import sys

NAME, ADDRESS = sys.argv[1], sys.argv[2]
TYPE_A, NO_SUCH_NAME = 1, 3

server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
print("listening", flush=True)
while True:
    query, caller = server.recvfrom(512)
    end, labels = 12, []
    while query[end]:
        labels.append(query[end + 1 : end + 1 + query[end]].decode("ascii", "replace"))
        end += 1 + query[end]
    (kind,) = struct.unpack(">H", query[end + 1 : end + 3])
    question = query[12 : end + 5]
    known = ".".join(labels).lower() == NAME
    answer = b""
    if known and kind == TYPE_A:
        answer = b"\xc0\x0c" + struct.pack(">HHIH", TYPE_A, 1, 1, 4) + socket.inet_aton(ADDRESS)
    flags = 0x8580 | (0 if known else NO_SUCH_NAME)
    head = query[:2] + struct.pack(">HHHHH", flags, 1, 1 if answer else 0, 0, 0)
    server.sendto(head + question + answer, caller)
