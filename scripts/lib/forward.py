"""Hands connections on, in tests: to a server that others cannot reach.

usage: forward.py FROM TO    each HOST:PORT, or the path of a Unix socket, which leads out of a network namespace;
                             listens at FROM and connects to TO until it is ended
"""

import asyncio
import sys


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def connect(place):
    if "/" in place:
        return asyncio.open_unix_connection(place)
    host, port = place.rsplit(":", 1)
    return asyncio.open_connection(host, int(port))


def listen(place, hand_on):
    if "/" in place:
        return asyncio.start_unix_server(hand_on, place)
    host, port = place.rsplit(":", 1)
    return asyncio.start_server(hand_on, host, int(port))


async def hand_on(reader, writer):
    there_reader, there_writer = await connect(sys.argv[2])
    await asyncio.gather(copy(reader, there_writer), copy(there_reader, writer))


async def main():
    server = await listen(sys.argv[1], hand_on)
    await server.serve_forever()


asyncio.run(main())
