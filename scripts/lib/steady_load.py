"""Asks a server over HTTP from many connections until it is told to stop, and counts what failed.

usage: steady_load.py URL    asks until standard input ends; then prints one line of JSON. An API key is taken from
                             the environment, LISTSTORE_TOKEN

Callers that meet a server that goes away in different ways: `busy` keep a connection and ask again at once, `fresh`
open one for each request, `idle` keep one and ask every two seconds, and `writer` keep one and add and remove an item
by turns. An answer that is
not 200, and anything but an answer, has failed, and is told with the time (UTC). Nothing is tried again.
"""

import http.client
import json
import os
import sys
import threading
import time
import urllib.parse
from datetime import UTC, datetime

KINDS = {"busy": (6, 0.0), "fresh": (3, 0.02), "idle": (6, 2.0), "writer": (3, 0.1)}

headers = {"Authorization": f"Bearer {os.environ['LISTSTORE_TOKEN']}"} if "LISTSTORE_TOKEN" in os.environ else {}
url = urllib.parse.urlsplit(sys.argv[1])
stop = threading.Event()
lock = threading.Lock()
asked = dict.fromkeys(KINDS, 0)
closed = 0
failed = []


def call(kind, pause):
    global closed
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=30)
    number = 0
    while not stop.is_set():
        wrong, ends, number = None, False, number + 1
        try:
            if kind == "writer":
                value = f"{threading.get_ident()}-{number // 2}"
                add = {"items": [{"timestamp": str(time.time_ns()), "value": value}]}
                path, body = (f"{url.path}:remove", {"value": value}) if number % 2 else (url.path, add)
                connection.request("POST", path, json.dumps(body), {**headers, "Content-Type": "application/json"})
            else:
                connection.request("GET", url.path, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
            ends = answer.getheader("Connection") == "close"
            if answer.status != 200:
                wrong = f"{answer.status} {body[:200]!r}"
        except (OSError, http.client.HTTPException) as error:
            wrong = repr(error)
        with lock:
            asked[kind] += 1
            closed += ends
            if wrong:
                failed.append(f"{datetime.now(UTC):%T.%f} {kind}: {wrong}")
        if wrong or kind == "fresh":
            connection.close()
        stop.wait(pause)


threads = [
    threading.Thread(target=call, args=(kind, pause)) for kind, (count, pause) in KINDS.items() for _ in range(count)
]
for thread in threads:
    thread.start()
sys.stdin.read()
stop.set()
for thread in threads:
    thread.join()
print(json.dumps({"asked": asked, "told_to_close": closed, "failed": len(failed), "first": failed[:5]}))
