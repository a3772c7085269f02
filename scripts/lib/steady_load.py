"""Asks servers over HTTP from many connections until standard input ends, and counts failures.

usage: steady_load.py [--exact] URL [URL…]
                             asks until standard input ends; then prints one line of JSON. The API keys of the URLs are
                             taken from the environment, LISTSTORE_TOKEN, with commas between them

Callers that meet a server that goes away in different ways: `busy` keep a connection and ask again at once, `fresh`
open one for each request, `idle` keep one and ask every two seconds, and `writer` keep one and add and remove an item
by turns. An answer that is not 200, and anything but an answer, has failed, and is printed with the time (UTC). With
--exact, so has an add or a removal of anything but one item: the servers must share their items. Nothing is tried
again.
"""

import http.client
import json
import os
import sys
import threading
import time
import urllib.parse
import uuid
from datetime import UTC, datetime

KINDS = {"busy": (6, 0.0), "fresh": (3, 0.02), "idle": (6, 2.0), "writer": (3, 0.1)}

exact = "--exact" in sys.argv
urls = [urllib.parse.urlsplit(argument) for argument in sys.argv[1:] if argument != "--exact"]
tokens = os.environ["LISTSTORE_TOKEN"].split(",") if "LISTSTORE_TOKEN" in os.environ else []
headers = [{"Authorization": f"Bearer {token}"} for token in tokens] or [{}] * len(urls)
stop = threading.Event()
lock = threading.Lock()
asked = dict.fromkeys(KINDS, 0)
closed = 0
failed = []


def request_of(kind, number, path, caller):
    """The method, the path and the body of a request, and what the answer must have."""
    if kind != "writer":
        return "GET", path, None, {}
    value = f"{caller}-{number // 2}"
    if number % 2:
        return "POST", f"{path}:remove", {"value": value}, {"removed": 1}
    return "POST", path, {"items": [{"timestamp": str(time.time_ns()), "value": value}]}, {"added": 1}


def call(kind, pause, url, header):
    global closed
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=30)
    # The first write is an add. No earlier caller left its value.
    number, caller = 1, uuid.uuid4().hex
    while not stop.is_set():
        wrong, ends, number = None, False, number + 1
        method, path, body, expected = request_of(kind, number, url.path, caller)
        try:
            if body is None:
                connection.request(method, path, headers=header)
            else:
                connection.request(method, path, json.dumps(body), {**header, "Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            ends = answer.getheader("Connection") == "close"
            if answer.status != 200 or (exact and expected and not expected.items() <= json.loads(text).items()):
                wrong = f"{method} {answer.status} {text[:200]!r}"
        except (OSError, ValueError, http.client.HTTPException) as error:
            wrong = repr(error)
        with lock:
            asked[kind] += 1
            closed += ends
            if wrong:
                failed.append(f"{datetime.now(UTC):%T.%f} {url.hostname} {kind}: {wrong}")
        if wrong or kind == "fresh":
            connection.close()
        stop.wait(pause)


threads = [
    threading.Thread(target=call, args=(kind, pause, url, header))
    for url, header in zip(urls, headers, strict=True)
    for kind, (count, pause) in KINDS.items()
    for _ in range(count)
]
for thread in threads:
    thread.start()
sys.stdin.read()
stop.set()
for thread in threads:
    thread.join()
print(json.dumps({"asked": asked, "closing": closed, "failed": len(failed), "first": failed[:5]}))
