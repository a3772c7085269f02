"""Runs the configuration of docs/howto/stream-from-kafka.md on a server that is unavailable, and then busy, once each.

  connect.py URL PROGRAM PAGE

PROGRAM is connect.go. All files are written to the working directory.
"""

import collections
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.request

url, program, page = sys.argv[1:]
SERVER = "http://127.0.0.1:8080"
VALUE = '"value": this.story'
now_ms = time.time_ns() // 1_000_000


def call(method, path, body=None, address=url):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


class Flaky(http.server.ThreadingHTTPServer):
    """Passes calls on to the server. The first call fails, and the second reports that one list was busy."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.calls, self.lock = 0, threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.calls += 1
            number = self.server.calls
        if number == 1:
            return self.answer(503, {"code": "overloaded", "retryable": True})
        answer = call("POST", self.path, body)
        if number == 2:
            answer["results"][0] = {"problem": {"code": "overloaded", "retryable": True}}
        self.answer(200, answer)

    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def replaced(text, written, there):
    assert text.count(written) == 1, f"the page must have {written} once"
    return text.replace(written, there)


def run(name, configuration, events):
    """Runs a configuration to the end of its events. Returns its log, the refused adds and the number of calls."""
    folder = pathlib.Path(name)
    folder.mkdir()
    flaky = Flaky()
    configuration = replaced(configuration, SERVER, flaky.url) + "\nhttp:\n  enabled: false\n"
    (folder / "views.yaml").write_text(configuration)
    (folder / "events.ndjson").write_text("".join(event + "\n" for event in events))
    variables = {"LISTSTORE_CHECK_EVENTS": "events.ndjson", "LISTSTORE_CHECK_ACKNOWLEDGED": "acknowledged"}
    ended = subprocess.run(
        [program, "run", "views.yaml"], cwd=folder, env=os.environ | variables, timeout=300,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    assert ended.returncode == 0, ended.stdout
    acknowledged = (folder / "acknowledged").read_text().splitlines()
    assert len(acknowledged) == len(events), (len(acknowledged), len(events), ended.stdout)
    refused = folder / "refused.ndjson"
    lines = refused.read_text().splitlines() if refused.exists() else []
    return ended.stdout, [json.loads(line) for line in lines], flaky.calls


def items_of(feature, user):
    return call("GET", f"/v1/lists/user/{feature}/{user}/items?limit=1000&order=oldest")["items"]


text = pathlib.Path(page).read_text(encoding="utf8")
(configuration,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)

# Three batches, with events that the configuration drops and that the server refuses.
call("POST", "/v1/features", {"entity_type": "user", "name": "story_seen", "value_type": "string", "ttl": "30d"})
expected, events = collections.defaultdict(list), []
for number in range(1200):
    user, story = number % 60, f"story-{number}"
    seconds, millis = divmod(now_ms - 2_000_000 + number, 1000)
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{millis:03}Z"
    events.append(json.dumps({"user": user if user == 7 else f"u-{user}", "story": story, "at": at}))
    expected["7" if user == 7 else f"u-{user}"].append(story)
at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_ms // 1000 + 7 * 86400))
events[10:10] = ["not JSON", '{"user": "u-1", "at": "2024-08-29T16:44:05Z"}']
events[900:900] = [
    json.dumps({"user": "u-1", "story": "late", "at": at}),
    '{"user": "u-1", "story": "odd", "at": "yesterday"}',
]
for attempt in ("first", "again"):
    log, refused, calls = run(attempt, configuration, events)
    assert log.count("dropped an event") == 2, log
    codes = sorted((line["problem"]["code"], line["request"]["items"][0]["value"]) for line in refused)
    assert codes == [("invalid_timestamp", "odd"), ("timestamp_too_far_ahead", "late")], refused
    assert calls >= 5, f"{calls} calls: three batches, and two that were repeated"
    for user, stories in expected.items():
        assert [item["value"] for item in items_of("story_seen", user)] == stories, user

# Equal events are kept with their positions as keys, and their times are in milliseconds.
feature = {"entity_type": "user", "name": "story_keyed", "value_type": "string", "ttl": "30d", "identity": "key"}
call("POST", "/v1/features", feature)
(millis,) = re.findall(r"For milliseconds, write `([^`]+)`", text)
(key,) = re.findall(r"`(\"key\": [^`]+)`", text)
configuration = replaced(configuration, '"story_seen"', '"story_keyed"')
configuration = replaced(configuration, "this.at.not_null().string()", millis)
configuration = replaced(configuration, VALUE, f"{key}, {VALUE}")
event = json.dumps({"user": "u-1", "story": "story-1", "at": now_ms})
log, refused, _ = run("keyed", configuration, [event] * 3)
assert not refused, refused
items = items_of("story_keyed", "u-1")
assert {item["key"] for item in items} == {"0-0", "0-1", "0-2"}, items
assert all(item["value"] == "story-1" for item in items), items
assert all(item["timestamp"].endswith(f"{now_ms % 1000:03}000000Z") for item in items), items
