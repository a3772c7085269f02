"""Liststore as an online store of Feast.

A feature view is an entity type, `PROJECT.VIEW`, and a row of it is the bag of one entity: what the features are by
their names, and when the row happened. A field whose tags say `liststore: list` is a list feature instead: what is
written is added to the list, and what is read are its newest items, the newest first.
"""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Dict, List, Literal, Optional, Sequence, Tuple
from urllib.parse import quote

from feast import Entity, FeatureView
from feast.infra.online_stores.online_store import OnlineStore
from feast.protos.feast.types.EntityKey_pb2 import EntityKey
from feast.protos.feast.types.Value_pb2 import Value
from feast.repo_config import FeastConfigBaseModel, RepoConfig

from .client import CONNECTIONS_MAX, Client, path
from .values import from_json, list_type, to_json

# Where a row's time stands in its bag. Feast has no feature of this name.
EVENT_TIMESTAMP = "__event_timestamp"
TAG = "liststore"
TAG_LIMIT = "liststore_limit"
LIMIT = 100
TTL_MAX = timedelta(days=7300)
# Bounds of one call.
ENTITIES_MAX = 1000
LISTS_MAX = 1000
ITEMS_MAX = 1000
# How often a bag is written again that somebody else changed meanwhile.
TURNS_MAX = 10

Row = Tuple[EntityKey, Dict[str, Value], datetime, Optional[datetime]]


class ListstoreOnlineStoreConfig(FeastConfigBaseModel):
    """The `online_store` of a feature_store.yaml."""

    type: Literal["liststore_feast.ListstoreOnlineStore"] = "liststore_feast.ListstoreOnlineStore"
    url: str = "http://127.0.0.1:8080"
    # An API key; with a server that is open none is needed.
    token: Optional[str] = None
    timeout_secs: float = 10.0


class ListstoreOnlineStore(OnlineStore):
    _client: Optional[Client] = None

    def update(self, config: RepoConfig, tables_to_delete: Sequence[FeatureView], tables_to_keep: Sequence[FeatureView],
               entities_to_delete: Sequence[Entity], entities_to_keep: Sequence[Entity], partial: bool) -> None:
        client = self._connected(config)
        for view in tables_to_delete:
            _forget(client, config, view)
        for view in tables_to_keep:
            _declare(client, config, view)

    def teardown(self, config: RepoConfig, tables: Sequence[FeatureView], entities: Sequence[Entity]) -> None:
        client = self._connected(config)
        for view in tables:
            _forget(client, config, view)
        client.close()
        self._client = None

    def online_write_batch(self, config: RepoConfig, table: FeatureView, data: List[Row],
                           progress: Optional[Callable[[int], Any]]) -> None:
        client = self._connected(config)
        kind, lists = entity_type(config, table), _lists_of(table)
        for part in _parts(data, ENTITIES_MAX):
            # Items first: whoever sees the new bag sees them, too.
            _add_items(client, kind, lists, part)
            _put_bags(client, kind, lists, part)
            if progress:
                progress(len(part))

    def online_read(self, config: RepoConfig, table: FeatureView, entity_keys: List[EntityKey],
                    requested_features: Optional[List[str]] = None,
                    ) -> List[Tuple[Optional[datetime], Optional[Dict[str, Value]]]]:
        client = self._connected(config)
        kind = entity_type(config, table)
        fields = [field for field in table.features if requested_features is None or field.name in requested_features]
        limits = {name: limit for name, limit in _lists_of(table).items() if any(field.name == name for field in fields)}
        ids = [entity_id(key) for key in entity_keys]
        oldest = datetime.now(timezone.utc) - table.ttl if table.ttl else None
        rows = []
        for part in _parts(ids, max(1, min(ENTITIES_MAX, LISTS_MAX // max(1, len(limits))))):
            for bag in _bags(client, kind, part, limits):
                rows.append((None, None) if bag is None else _row(bag, fields, limits, oldest))
        return rows

    def _connected(self, config: RepoConfig) -> Client:
        if self._client is None:
            store = config.online_store
            self._client = Client(store.url, store.token, store.timeout_secs)
        return self._client


def entity_type(config: RepoConfig, view: FeatureView) -> str:
    """The entity type of a feature view."""
    return f"{config.project}.{view.name}"


def entity_id(key: EntityKey) -> str:
    """The only key as it is; of several, `key=value&…` in the order of their names."""
    values = [str(to_json(value)) for value in key.entity_values]
    if len(values) == 1:
        return values[0]
    pairs = sorted(zip(key.join_keys, values))
    return "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs)


def _lists_of(view: FeatureView) -> Dict[str, int]:
    """The fields that are lists, and how many items of each are read."""
    return {field.name: int(field.tags.get(TAG_LIMIT, LIMIT)) for field in view.features
            if field.tags.get(TAG) == "list"}


def _parts(all_of_them: Sequence, size: int):
    return (all_of_them[at:at + size] for at in range(0, len(all_of_them), size))


def _ttl(view: FeatureView) -> str:
    return f"{int(min(view.ttl or TTL_MAX, TTL_MAX).total_seconds()) or 1}s"


def _declare(client: Client, config: RepoConfig, view: FeatureView) -> None:
    """Creates what a view needs, or brings its time to live to that of the view."""
    kind, ttl = entity_type(config, view), _ttl(view)
    made = {"entity_type": kind, "ttl": ttl, "description": view.description, "owner": view.owner}
    if client.call("POST", "/v1/entity-types", made, accept=["entity_type_exists"]) is None:
        client.call("PATCH", path("v1", "entity-types", kind), {"ttl": ttl})
    for field in view.features:
        if field.tags.get(TAG) == "list":
            feature = {"entity_type": kind, "name": field.name, "ttl": ttl,
                       "value_type": list_type(field.dtype.to_value_type())}
            if client.call("POST", "/v1/features", feature, accept=["feature_exists"]) is None:
                client.call("PATCH", path("v1", "features", kind, field.name), {"ttl": ttl})


def _forget(client: Client, config: RepoConfig, view: FeatureView) -> None:
    kind = entity_type(config, view)
    client.call("DELETE", path("v1", "entity-types", kind), accept=["entity_type_not_found"])
    for name in _lists_of(view):
        client.call("DELETE", path("v1", "features", kind, name), accept=["feature_not_found"])


def _bags(client: Client, kind: str, ids: Sequence[str], limits: Dict[str, int]) -> List[Optional[dict]]:
    """The bags of some entities, each with items of its lists; None where there is none."""
    if not ids:
        return []
    asked = {"requests": [{"entity_type": kind, "entity_id": one} for one in ids]}
    lists = ",".join(f"{name}:{limit}" for name, limit in limits.items())
    found = []
    for number, bag in enumerate(client.call("POST", "/v1/entities:batchGet", asked, {"lists": lists} if lists else None)["results"]):
        code = bag.get("problem", {}).get("code")
        if code == "response_too_large" and number > 0:
            # The others did not fit into one answer.
            return found + _bags(client, kind, ids[number:], limits)
        if code not in (None, "bag_not_found"):
            raise RuntimeError(f"the bag of {ids[number]} was not read: {bag['problem']}")
        found.append(None if code else bag)
    return found


def _row(bag: dict, fields, limits: Dict[str, int], oldest: Optional[datetime]):
    """A row as Feast takes it; nothing of one that has outlived its view's time to live."""
    happened = datetime.fromisoformat(bag["properties"][EVENT_TIMESTAMP])
    if oldest is not None and happened < oldest:
        return None, None
    values = {}
    for field in fields:
        if field.name in limits:
            items = bag["lists"][field.name]
            if "problem" in items:
                raise RuntimeError(f"the list {field.name} was not read: {items['problem']}")
            read = [item["value"] for item in items["items"]]
        else:
            read = bag["properties"].get(field.name)
        values[field.name] = from_json(read, field.dtype.to_value_type())
    return happened, values


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)


def _add_items(client: Client, kind: str, lists: Dict[str, int], rows: Sequence[Row]) -> None:
    """Adds what rows have of lists: each element an item, in their order, a nanosecond after the one before."""
    requests, count = [], 0

    def send():
        for result in client.call("POST", "/v1/lists:batchAdd", {"requests": requests})["results"] if requests else []:
            if "problem" in result:
                raise RuntimeError(f"items were not added: {result['problem']}")
        requests.clear()

    for key, values, happened, _ in rows:
        moment = _utc(happened)
        nanos = int(moment.timestamp()) * 10**9 + moment.microsecond * 1000
        for name in lists:
            elements = to_json(values.get(name, Value())) or []
            items = [{"timestamp": nanos + number, "value": one} for number, one in enumerate(elements)]
            for some in _parts(items, ITEMS_MAX):
                if count + len(some) > ITEMS_MAX or len(requests) == LISTS_MAX:
                    send()
                    count = 0
                requests.append({"entity_type": kind, "feature": name, "entity_id": entity_id(key), "items": some})
                count += len(some)
    send()


def _put_bags(client: Client, kind: str, lists: Dict[str, int], rows: Sequence[Row]) -> None:
    """Puts each row as a bag, but never an older row in the place of a newer one."""
    newest: Dict[str, Tuple[datetime, dict]] = {}
    for key, values, happened, _ in rows:
        one, moment = entity_id(key), _utc(happened)
        if one not in newest or newest[one][0] <= moment:
            bag = {name: to_json(value) for name, value in values.items() if name not in lists}
            newest[one] = (moment, {**bag, EVENT_TIMESTAMP: moment.isoformat()})
    with ThreadPoolExecutor(CONNECTIONS_MAX) as pool:
        for _ in range(TURNS_MAX):
            ids = list(newest)
            tries = [pool.submit(_put_newer, client, kind, one, newest[one], bag)
                     for one, bag in zip(ids, _bags(client, kind, ids, {}))]
            newest = {one: newest[one] for one, attempt in zip(ids, tries) if not attempt.result()}
            if not newest:
                return
    raise RuntimeError(f"{len(newest)} rows were not written: others changed them at the same time, again and again")


def _put_newer(client: Client, kind: str, one: str, row: Tuple[datetime, dict], present: Optional[dict]) -> bool:
    """Whether the row stands, or a newer one; not if somebody else was faster."""
    moment, bag = row
    if present is not None and datetime.fromisoformat(present["properties"][EVENT_TIMESTAMP]) > moment:
        return True
    condition = {"If-Match": present["etag"]} if present else {"If-None-Match": "*"}
    return client.call("PUT", path("v1", "entities", kind, one), bag, headers=condition, accept=["etag_mismatch"]) is not None
