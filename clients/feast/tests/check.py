"""Works with a live server through a stock Feast: check.py URL.

It applies, pushes, materializes and reads, in the process itself and through `feast serve` with a client of the type
`remote`, and fails by an exception.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pandas
from feast import Entity, FeatureStore, FeatureView, Field, FileSource, PushSource, RepoConfig
from feast.data_source import PushMode
from feast.types import Array, Bool, Bytes, Float32, Float64, Int64, String, UnixTimestamp

URL = sys.argv[1]
NOW = datetime.now(timezone.utc).replace(microsecond=0)
FEATURES = ["user_stats:" + name for name in ("visits", "score", "ratio", "city", "is_buyer", "digest", "since", "tags", "stories")]


def definitions(folder: Path):
    """A view of scalars, of a list that is a value, and of a list to which is added."""
    rows = pandas.DataFrame({
        "user_id": [1, 2, 3], "visits": [7, -(2**62) - 1, 0], "score": [0.1, 1e300, float("nan")],
        "ratio": [0.5, 0.25, 0.0], "city": ["Paris", "Ⓡome", ""], "is_buyer": [True, False, True],
        "digest": [b"\x00\xff", b"", b"x"], "since": [NOW, NOW, NOW], "tags": [["a", "b"], [], ["c"]],
        "stories": [["s-1", "s-2"], [], ["s-9"]],
        "event_timestamp": [NOW - timedelta(hours=2), NOW - timedelta(hours=1), NOW - timedelta(days=40)],
    })
    rows.to_parquet(folder / "rows.parquet")
    user = Entity(name="user", join_keys=["user_id"])
    source = FileSource(name="rows", path=str(folder / "rows.parquet"), timestamp_field="event_timestamp")
    view = FeatureView(
        name="user_stats", entities=[user], ttl=timedelta(days=30), source=PushSource(name="push", batch_source=source),
        schema=[
            Field(name="user_id", dtype=Int64), Field(name="visits", dtype=Int64), Field(name="score", dtype=Float64),
            Field(name="ratio", dtype=Float32), Field(name="city", dtype=String), Field(name="is_buyer", dtype=Bool),
            Field(name="digest", dtype=Bytes), Field(name="since", dtype=UnixTimestamp), Field(name="tags", dtype=Array(String)),
            Field(name="stories", dtype=Array(String), tags={"liststore": "list", "liststore_limit": "3"}),
        ],
    )
    return user, view, rows


def configuration(folder: Path, online: dict) -> dict:
    return {"project": "shop", "provider": "local", "registry": str(folder / "registry.db"), "online_store": online,
            "offline_store": {"type": "file"}, "entity_key_serialization_version": 3}


def read(store: FeatureStore, *users: int) -> list:
    found = store.get_online_features(FEATURES, [{"user_id": user} for user in users]).to_dict()
    return [{name: found[name][at] for name in found} for at in range(len(users))]


def same(found, expected, what):
    assert found == expected, f"{what}: {found!r} is not {expected!r}"


def pushed(rows, hours_ago, **changes):
    row = rows.iloc[[0]].copy()
    row["event_timestamp"] = NOW - timedelta(hours=hours_ago)
    for name, value in changes.items():
        row[name] = [value]
    return row


def direct(store: FeatureStore, view, rows):
    """Materialized and pushed rows are read, and expired ones are not."""
    same(read(store, 1)[0]["visits"], None, "before anything was written")
    store.materialize(NOW - timedelta(days=60), NOW)
    one, two, three, none = read(store, 1, 2, 3, 404)
    same([one[name] for name in ("visits", "score", "ratio", "city", "is_buyer", "digest", "tags")],
         [7, 0.1, 0.5, "Paris", True, b"\x00\xff", ["a", "b"]], "scalars")
    same(one["stories"], ["s-2", "s-1"], "a list, the newest first")
    same([two[name] for name in ("visits", "score", "city", "digest", "tags", "stories")],
         [-(2**62) - 1, 1e300, "Ⓡome", b"", [], []], "values at their edges")
    same((three["visits"], three["stories"], none["visits"]), (None, None, None), "what has expired, and what never was")
    # Newer rows replace older ones, never the reverse. Lists grow.
    store.push("push", pushed(rows, 1, visits=8, stories=["s-3", "s-4"]), to=PushMode.ONLINE)
    store.push("push", pushed(rows, 3, visits=6, stories=["s-0"]), to=PushMode.ONLINE)
    one = read(store, 1)[0]
    same((one["visits"], one["stories"]), (8, ["s-4", "s-3", "s-2"]), "after two pushes")
    # Among concurrent writers, the newest row stays.
    with ThreadPoolExecutor(8) as pool:
        stores = [FeatureStore(repo_path=str(store.repo_path)) for _ in range(8)]
        rows_of = [pushed(rows, 0, visits=100 + number).assign(event_timestamp=NOW - timedelta(seconds=60 - number)) for number in range(8)]
        list(pool.map(lambda one, row: one.write_to_online_store("user_stats", row), stores, rows_of))
    same(read(store, 1)[0]["visits"], 107, "after eight writes at once")
    store.push("push", pushed(rows, 0, visits=8, stories=["s-3", "s-4"]), to=PushMode.ONLINE)
    # Clients without Feast can read it.
    with urllib.request.urlopen(f"{URL}/v1/entities/shop.user_stats/1?lists=stories:1") as answer:
        bag = json.load(answer)
    same((bag["properties"]["city"], bag["lists"]["stories"]["items"][0]["value"]), ("Paris", "s-4"), "over HTTP")
    many = pandas.concat([rows.iloc[[0]]] * 1200, ignore_index=True)
    many["user_id"] = range(10_000, 11_200)
    many["visits"] = range(1200)
    store.push("push", many, to=PushMode.ONLINE)
    found = read(store, *range(10_000, 11_200))
    same([row["visits"] for row in found], list(range(1200)), "more than one call takes")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def remote(folder: Path):
    """A client of the type `remote` reads and writes through `feast serve` with this store behind it."""
    port = free_port()
    feast = Path(sys.executable).parent / "feast"
    with open(folder / "serve.log", "w") as log:
        server = subprocess.Popen([str(feast), "-c", str(folder), "serve", "-h", "127.0.0.1", "-p", str(port)], stdout=log,
                                  stderr=log, env={**os.environ, "FEAST_USAGE": "False"})
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
                break
            except OSError:
                if server.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"feast serve does not answer: {(folder / 'serve.log').read_text()[-2000:]}")
                time.sleep(0.2)
        store = FeatureStore(config=RepoConfig(**configuration(folder, {"type": "remote", "path": f"http://127.0.0.1:{port}"})))
        one, three = read(store, 1, 3)
        same((one["visits"], one["city"], one["stories"], three["visits"]), (8, "Paris", ["s-4", "s-3", "s-2"], None), "a remote client")
    finally:
        server.terminate()
        server.wait(20)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = configuration(folder, {"type": "liststore_feast.ListstoreOnlineStore", "url": URL})
        (folder / "feature_store.yaml").write_text(json.dumps(settings))
        store = FeatureStore(repo_path=name)
        user, view, rows = definitions(folder)
        store.apply([user, view])
        store.apply([user, view])
        direct(store, view, rows)
        remote(folder)
        store.teardown()
        with urllib.request.urlopen(f"{URL}/v1/entity-types") as answer:
            same([one for one in json.load(answer)["entity_types"] if one["entity_type"] == "shop.user_stats"], [], "after a teardown")
    print("feast: applied, materialized, pushed and read, here and through feast serve")


if __name__ == "__main__":
    main()
