"""Compares Liststore with Feast's own SQLite store: side_by_side.py URL.

Both stores get the same views and rows. Each read of Liststore must return what SQLite returns, or `apply` must refuse
the view. Fails by an exception.
"""

import json
import logging
import sys
import tempfile
import urllib.request
import warnings
from datetime import datetime, timedelta, timezone
from pathlib import Path

warnings.simplefilter("ignore")

import pandas  # noqa: E402
from feast import Entity, FeatureStore, FeatureView, Field, FileSource, PushSource, ValueType  # noqa: E402
from feast.types import (  # noqa: E402
    Array, Bool, Bytes, Float32, Float64, ImageBytes, Int32, Int64, Json, Map, PdfBytes, String, UnixTimestamp, Uuid,
)

URL = sys.argv[1]
NOW = datetime.now(timezone.utc).replace(microsecond=0)
HOUR_AGO = NOW - timedelta(hours=1)
USER = Entity(name="user", join_keys=["user_id"], value_type=ValueType.INT64)
LIST = {"liststore": "list"}
SQLITE = {"type": "sqlite"}
LISTSTORE = {"type": "liststore_feast.ListstoreOnlineStore", "url": URL}


class Store:
    """A Feast with one of the two stores, in a separate folder."""

    def __init__(self, online: dict, project: str):
        self._folder = tempfile.TemporaryDirectory(prefix="liststore-feast-")
        self.folder = Path(self._folder.name)
        online = online if online is LISTSTORE else {**online, "path": str(self.folder / "online.db")}
        settings = {"project": project, "provider": "local", "registry": str(self.folder / "registry.db"),
                    "online_store": online, "offline_store": {"type": "file"}, "entity_key_serialization_version": 3}
        (self.folder / "feature_store.yaml").write_text(json.dumps(settings))
        self.feast = FeatureStore(repo_path=self._folder.name)

    def apply(self, fields: dict, tags=None, name="view", entities=(USER,), ttl=timedelta(days=30)):
        schema = [Field(name=field, dtype=dtype, tags=tags or {}) for field, dtype in fields.items()]
        keys = [Field(name=key, dtype=Int64) for key in [entity.join_key for entity in entities if entity is USER]]
        path = str(self.folder / "rows.parquet")
        pandas.DataFrame({"event_timestamp": [HOUR_AGO]}).to_parquet(path)
        source = PushSource(name="push", batch_source=FileSource(name="rows", path=path, timestamp_field="event_timestamp"))
        view = FeatureView(name=name, entities=list(entities), ttl=ttl, source=source, schema=keys + schema)
        self.feast.apply([*entities, view])

    def write(self, row: dict, at=HOUR_AGO, name="view"):
        rows = {column: [value] for column, value in row.items()}
        self.feast.write_to_online_store(name, pandas.DataFrame({**rows, "event_timestamp": [at]}))

    def read(self, features, keys, name="view"):
        found = self.feast.get_online_features([f"{name}:{feature}" for feature in features], keys).to_dict()
        return {feature: found[feature] for feature in features}


def both(project: str, work):
    """The results of both stores for the same work: of Liststore, then of SQLite."""
    return [work(Store(online, project)) for online in (LISTSTORE, SQLITE)]


def same(found, expected, what):
    # NaN differs from itself.
    assert repr(found) == repr(expected), f"{what}: {found!r}, and SQLite has {expected!r}"


def refused(apply, *words):
    try:
        apply()
    except ValueError as error:
        assert all(word in str(error) for word in words), error
        return
    raise AssertionError(f"not refused: {words}")


def values_of_every_type():
    nan, inf = float("nan"), float("inf")
    for number, (dtype, values) in enumerate([
        (Int32, [0, -1, 2**31 - 1]), (Int64, [2**63 - 1, -(2**63)]), (Float32, [0.5, inf]), (Float64, [0.1, nan, -inf, -0.0]),
        (String, ["", "é☃", "nan", "AP8="]), (Bool, [True, False]), (Bytes, [b"", b"\x00\xff"]), (PdfBytes, [b"%PDF\xff"]),
        (ImageBytes, [b"\x89PNG"]), (UnixTimestamp, [NOW]), (Array(String), [["a", ""], []]), (Array(Int64), [[2**53 + 1]]),
        (Array(Float64), [[1.5, nan, inf]]), (Array(Bool), [[True, False]]), (Array(Bytes), [[b"\xff", b""]]),
        (Array(UnixTimestamp), [[NOW]]), (Map, [{"a": "b"}]), (Json, ['{"a": [1]}']),
        (Uuid, ["7d444840-9dc0-11d1-b245-5ffdce74fad2"]),
    ]):
        def work(store):
            store.apply({"x": dtype})
            for key, value in enumerate(values):
                store.write({"user_id": key, "x": value})
            return store.read(["x"], [{"user_id": key} for key in range(len(values) + 1)])
        same(*both(f"types{number}", work), f"values of {dtype}")


def a_view_without_entities():
    def work(store):
        store.apply({"rides": Int64}, entities=())
        store.write({"rides": 7})
        return store.read(["rides"], [{"user_id": 1}])
    same(*both("entityless", work), "a view without entities")


def changed_types():
    """Rows of before a change are read in the type that they were written in."""
    for number, (before, after, old, new) in enumerate([
        (Int64, Float64, 1, 2.5), (Float64, Int64, 1.5, 2), (Int64, String, 1, "b"), (String, Int64, "a", 2),
        (String, Bytes, "AP8=", b"b"), (Bytes, String, b"\x00", "b"), (Int64, UnixTimestamp, 5, NOW), (Bool, Int64, True, 2),
        (Int64, Array(Int64), 1, [2]), (Array(Int64), Int64, [1], 2), (Array(Int64), Array(String), [1], ["b"]),
        (PdfBytes, String, b"%PDF", "b"), (String, Json, "a", "{}"), (Float64, String, float("nan"), "b"),
    ]):
        def work(store):
            store.apply({"x": before})
            store.write({"user_id": 1, "x": old})
            store.apply({"x": after})
            first = store.read(["x"], [{"user_id": 1}])
            store.write({"user_id": 1, "x": new}, at=HOUR_AGO + timedelta(minutes=1))
            return first, store.read(["x"], [{"user_id": 1}])
        same(*both(f"changes{number}", work), f"{before} becomes {after}")


def blank_and_impossible_keys():
    names = ["good", "", ".", "..", "x" * 600, "y" * 512, "a\0b", "k=", "k=a%00b", "#", "é" * 300, "a/b", " "]
    entity = Entity(name="entity", join_keys=["k"], value_type=ValueType.STRING)

    def work(store):
        store.apply({"n": Int64}, entities=[entity])
        for number, name in enumerate(names):
            store.write({"k": name, "n": number})
        return store.read(["n"], [{"k": name} for name in [*names, "none", "x" * 601]])
    same(*both("keys", work), "keys")

    pairs = [("", ""), ("1", "2&b=x"), ("1&b=2", "x"), ("x" * 600, "1"), ("x" * 600, "2"), ("..", "\0")]
    entities = [Entity(name=name, join_keys=[name], value_type=ValueType.STRING) for name in ("a", "b")]

    def work(store):
        store.apply({"n": Int64}, entities=entities)
        for number, (a, b) in enumerate(pairs):
            store.write({"a": a, "b": b, "n": number})
        return store.read(["n"], [{"b": b, "a": a} for a, b in pairs])
    same(*both("pairs", work), "pairs of keys")


def elements_of_lists():
    """The content of a list after one row, newest first: the elements of SQLite's array in reverse."""
    nan = float("nan")
    for number, (dtype, value, at, ttl) in enumerate([
        (Array(Float64), [1.5, nan, float("inf"), 3.0], HOUR_AGO, timedelta(days=30)),
        (Array(Float32), [0.5, nan], HOUR_AGO, timedelta(days=30)),
        (Array(Int64), [2**63 - 1, 1], HOUR_AGO, timedelta(days=30)),
        (Array(Bytes), [b"\xff", b""], HOUR_AGO, timedelta(days=30)),
        (Array(UnixTimestamp), [NOW, HOUR_AGO], HOUR_AGO, timedelta(days=30)),
        (Array(String), [], HOUR_AGO, timedelta(days=30)),
        (Array(String), ["a", "b"], datetime(1969, 12, 31, 23, 59, 59, tzinfo=timezone.utc), timedelta(0)),
        (Array(String), ["a", "b"], datetime(1970, 1, 1, tzinfo=timezone.utc), timedelta(0)),
        (Array(String), ["a", "b"], datetime(2001, 1, 1, tzinfo=timezone.utc), timedelta(0)),
        (Array(Float64), [nan, 1.0], datetime(1901, 1, 1, tzinfo=timezone.utc), timedelta(0)),
    ]):
        def work(store):
            store.apply({"x": dtype}, tags=LIST, ttl=ttl)
            store.write({"user_id": 1, "x": value}, at=at)
            return store.read(["x"], [{"user_id": 1}])["x"][0]
        found, expected = both(f"lists{number}", work)
        same(found, expected[::-1], f"a list of {dtype} at {at}")


def many_lists():
    fields = {f"l{number}": Array(String) for number in range(35)}

    def work(store):
        store.apply(fields, tags=LIST)
        for user in (1, 2):
            store.write({"user_id": user, **{name: [f"{name} of {user}"] for name in fields}})
        return store.read(fields, [{"user_id": 1}, {"user_id": 2}, {"user_id": 3}])
    same(*both("many", work), "35 lists")


def refusals():
    """`apply` refuses views that Liststore cannot store, before anything is created."""
    store = Store(LISTSTORE, "refusals")
    longest = "v" * (128 - len("refusals."))
    store.apply({"x": Int64}, name=longest)
    store.write({"user_id": 1, "x": 5}, name=longest)
    same(store.read(["x"], [{"user_id": 1}], name=longest), {"x": [5]}, "the longest name of a view")
    refused(lambda: store.apply({"x": Int64}, name=longest + "v"), "129 characters", "128", "shorten")
    refused(lambda: store.apply({"l" * 129: Array(String)}, tags=LIST, name="names"), "129", "rename")
    refused(lambda: store.apply({"x": Int64}, tags=LIST, name="scalars"), "not a list of scalars", "liststore=list")
    refused(lambda: store.apply({"x": Array(String)}, tags={**LIST, "liststore_limit": "many"}, name="limits"), "10000")
    store.apply({"x": Array(Int64)}, tags=LIST, name="elements")
    refused(lambda: store.apply({"x": Array(String)}, tags=LIST, name="elements"), "int64", "string", "new field name")
    with urllib.request.urlopen(f"{URL}/v1/entity-types?q=refusals.") as answer:
        kinds = [one["entity_type"] for one in json.load(answer)["entity_types"]]
    same(kinds, ["refusals.elements", f"refusals.{longest}"], "the created entity types")


def call(method: str, path: str, body: dict):
    headers = {"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers, method=method)
    urllib.request.urlopen(request).close()


def rows_of_other_programs():
    store = Store(LISTSTORE, "others")
    fields = {"n": Int64, "digest": Bytes, "tags": Array(String), "stories": Array(String)}
    store.apply(fields)
    store.write({"user_id": 1, "n": 1, "digest": b"\xff", "tags": ["a"], "stories": ["s"]})
    at = "/v1/entities/others.view"
    call("PUT", f"{at}/2", {"n": 2, "digest": "AP8=", "tags": ["x"]})
    call("PUT", f"{at}/3", {"n": "seven", "digest": 5, "tags": {"a": 1}, "stories": [1, "b"], "__event_timestamp": 7, "__types": []})
    call("PATCH", f"{at}/1", {"n": "one", "tags": 5})
    found = store.read(fields, [{"user_id": user} for user in (1, 2, 3, 4)])
    same(found, {
        "n": ["one", 2, "seven", None], "digest": [b"\xff", b"\x00\xff", 5, None],
        "tags": [5, ["x"], '{"a": 1}', None], "stories": [["s"], None, '[1, "b"]', None],
    }, "rows of other programs")
    # A row of Feast replaces them, whenever it happened.
    store.write({"user_id": 2, "n": 22, "digest": b"", "tags": [], "stories": []}, at=NOW - timedelta(days=3))
    same(store.read(["n"], [{"user_id": 2}]), {"n": [22]}, "a row in place of another program's")


def main():
    logging.disable(logging.WARNING)
    for check in (values_of_every_type, a_view_without_entities, changed_types, blank_and_impossible_keys,
                  elements_of_lists, many_lists, refusals, rows_of_other_programs):
        check()
    print("feast: reads are as SQLite's, or apply refuses")


if __name__ == "__main__":
    main()
