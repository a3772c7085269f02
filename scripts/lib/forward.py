"""Hands connections on: for a server on loopback that others are to reach, in tests.

usage: forward.py HOST:PORT PORT    listens on HOST:PORT, and connects to 127.0.0.1:PORT, until it is ended
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


async def hand_on(reader, writer):
    there_reader, there_writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
    await asyncio.gather(copy(reader, there_writer), copy(there_reader, writer))


async def main():
    host, port = sys.argv[1].rsplit(":", 1)
    server = await asyncio.start_server(hand_on, host, int(port))
    await server.serve_forever()


asyncio.run(main())
