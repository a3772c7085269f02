"""Records the metrics of two servers, the second under load, as a test for `promtool test rules`.

usage: record_metrics.py MINUTES FOLDER IDLE BUSY
    FOLDER       gets rules.yaml, the alerts, and test.yaml, which expects that none of them is pending or fires
    IDLE, BUSY   the URLs of the servers. The busy one has the feature seen of user
"""

import json
import pathlib
import re
import sys
import threading
import time
import urllib.request

import yaml

INTERVAL = 15
SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$")


def call(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()


def load(url, stopped):
    """Adds, gets, counts and removals, some hundred in a second."""
    number = 0
    while not stopped.is_set():
        number += 1
        list_url = f"{url}/v1/lists/user/seen/u-{number % 200}/items"
        call(list_url, {"items": [{"timestamp": str(time.time_ns()), "value": f"story-{number}"}]})
        call(f"{list_url}?limit=50")
        if number % 10 == 0:
            call(f"{list_url}:remove", {"value": f"story-{number}"})
        stopped.wait(0.005)


def scrape(url, labels, series, count):
    for line in call(f"{url}/metrics").splitlines():
        found = SAMPLE.match(line)
        if found:
            name, own, value = found.groups()
            values = series.setdefault(f"{name}{{{','.join(filter(None, [labels, own]))}}}", ["_"] * count)
            values += ["_"] * (count - len(values)) + [value]


def main():
    minutes, folder = float(sys.argv[1]), pathlib.Path(sys.argv[2])
    stopped, series = threading.Event(), {}
    servers = [(f'namespace="lists",pod="{name}",instance="{name}",job="lists/liststore"', url.strip())
               for name, url in zip(("idle", "busy"), sys.argv[3:])]
    worker = threading.Thread(target=load, args=(servers[1][1], stopped))
    worker.start()
    scrapes = int(minutes * 60 / INTERVAL) + 1
    try:
        for count in range(scrapes):
            due = time.monotonic() + INTERVAL
            for labels, url in servers:
                scrape(url, labels, series, count)
                series.setdefault(f"up{{{labels}}}", []).append("1")
            if count + 1 < scrapes:
                time.sleep(max(0, due - time.monotonic()))
    finally:
        stopped.set()
        worker.join()
    alerts = yaml.safe_load(pathlib.Path("k8s/monitoring/alerts.yaml").read_text())["spec"]
    (folder / "rules.yaml").write_text(yaml.safe_dump(alerts))
    ends = f"{(scrapes - 1) * INTERVAL}s"
    minutes_of_record = range(1, int((scrapes - 1) * INTERVAL / 60) + 1)
    firing = 'count by (alertname, pod) (ALERTS{alertstate="firing"})'
    checks = [{"expr": firing, "eval_time": f"{minute}m", "exp_samples": []} for minute in minutes_of_record]
    checks.append({"expr": "count by (alertname, pod) (ALERTS)", "eval_time": ends, "exp_samples": []})
    # Else the test would pass without a record.
    checks.append({"expr": "count(liststore_build_info)", "eval_time": ends, "exp_samples": [{"labels": "{}", "value": 2}]})
    busy = 'sum(rate(liststore_items_added_total{pod="busy"}[2m])) > bool 1'
    checks.append({"expr": busy, "eval_time": ends, "exp_samples": [{"labels": "{}", "value": 1}]})
    given = [{"series": name, "values": " ".join(values)} for name, values in series.items()]
    test = {"interval": f"{INTERVAL}s", "input_series": given, "promql_expr_test": checks}
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": f"{INTERVAL}s", "tests": [test]}
    (folder / "test.yaml").write_text(yaml.safe_dump(document, width=10**9))
    print(f"check-alerts: {len(series)} series, {scrapes} scrapes", file=sys.stderr)


main()
