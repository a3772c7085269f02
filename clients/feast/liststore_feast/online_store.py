"""Liststore as an online store of Feast.

A feature view is an entity type, `PROJECT.VIEW`. A row is the bag of one entity: its features by their names, and the
time of the row. A field with the tag `liststore: list` is a list feature instead: a write adds items to the list, and a
read returns its newest items, newest first.
"""

import hashlib
import re
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
from .values import from_json, list_type, to_json, types_of

# Properties of a bag in addition to the features: the time of the row, and types that JSON does not show. Feast has no
# features with such names.
EVENT_TIMESTAMP = "__event_timestamp"
TYPES = "__types"
TAG = "liststore"
TAG_LIMIT = "liststore_limit"
LIMIT = 100
LIMIT_MAX = 10_000
TTL_MAX = timedelta(days=7300)
# Bounds of one call.
ENTITIES_MAX = 1000
LISTS_MAX = 1000
ITEMS_MAX = 1000
# Lists that are returned with a bag in one call.
JOINED_LISTS_MAX = 16
# Bounds of names and IDs.
NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9_.-]{1,128}", re.ASCII)
ID_BYTES_MAX = 512
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# How often a bag is written again that another writer changed at the same time.
TURNS_MAX = 10

Row = Tuple[EntityKey, Dict[str, Value], datetime, Optional[datetime]]


class ListstoreOnlineStoreConfig(FeastConfigBaseModel):
    """The `online_store` of a feature_store.yaml."""

    type: Literal["liststore_feast.ListstoreOnlineStore"] = "liststore_feast.ListstoreOnlineStore"
    url: str = "http://127.0.0.1:8080"
    # An API key. An open server needs none.
    token: Optional[str] = None
    timeout_secs: float = 10.0


class ListstoreOnlineStore(OnlineStore):
    _client: Optional[Client] = None

    def update(self, config: RepoConfig, tables_to_delete: Sequence[FeatureView], tables_to_keep: Sequence[FeatureView],
               entities_to_delete: Sequence[Entity], entities_to_keep: Sequence[Entity], partial: bool) -> None:
        client = self._connected(config)
        # Nothing is changed before all is known to be possible.
        for view in tables_to_keep:
            _check(client, config, view)
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
            # Items first, so that a reader of the new bag finds them.
            since = _oldest_item(table)
            _add_items(client, kind, lists, part, since)
            _put_bags(client, kind, lists, part, since)
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
        for part in _parts(ids, min(ENTITIES_MAX, LISTS_MAX // max(1, min(JOINED_LISTS_MAX, len(limits))))):
            for bag in _bags_with_lists(client, kind, part, limits):
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
    """The only key as it is, if it is a valid ID. Otherwise `key=value&…` in the order of the names, each encoded as in
    a URL; or its hash, if that is too long. No two keys have the same ID."""
    pairs = [(quote(name, safe=""), value) for name, value in zip(key.join_keys, key.entity_values)]
    if len(pairs) == 1:
        (name, value), = pairs
        plain = str(to_json(value))
        is_valid = plain not in ("", ".", "..") and "\0" not in plain and len(plain.encode()) <= ID_BYTES_MAX
        if is_valid and value.WhichOneof("val") and not plain.startswith(f"{name}="):
            return plain
    whole = "&".join(f"{name}={_quoted(value)}" for name, value in sorted(pairs, key=lambda pair: pair[0]))
    if len(whole) <= ID_BYTES_MAX:
        return whole or "="
    # No encoded text has this sign.
    first = sorted(name for name, _ in pairs)[0][:ID_BYTES_MAX // 2]
    return f"{first}=#{hashlib.sha256(whole.encode()).hexdigest()}"


def _quoted(value: Value) -> str:
    return quote(str(to_json(value)), safe="") if value.WhichOneof("val") else "#null"


def _lists_of(view: FeatureView) -> Dict[str, int]:
    """The fields that are lists, with the number of items that a read returns of each."""
    return {field.name: _limit(field) for field in view.features
            if field.tags.get(TAG) == "list"}


def _parts(all_of_them: Sequence, size: int):
    return (all_of_them[at:at + size] for at in range(0, len(all_of_them), size))


def _ttl(view: FeatureView) -> str:
    return f"{int(min(view.ttl or TTL_MAX, TTL_MAX).total_seconds()) or 1}s"


def _check(client: Client, config: RepoConfig, view: FeatureView) -> None:
    """Refuses a view that cannot be stored."""
    kind = entity_type(config, view)
    if not NAME.fullmatch(kind):
        raise ValueError(
            f"feature view {view.name}: its entity type in Liststore, {kind!r}, has {len(kind)} characters, and must have "
            "1 to 128 characters of A-Z a-z 0-9 _ . -: shorten the name of the view or of the project"
        )
    for field in view.features:
        if field.tags.get(TAG) != "list":
            continue
        place = f"feature view {view.name}, field {field.name}"
        wanted = list_type(field.dtype.to_value_type())
        if wanted is None:
            raise ValueError(f"{place}: {field.dtype} is not a list of scalars: remove the tag {TAG}=list")
        if not NAME.fullmatch(field.name):
            raise ValueError(
                f"{place}: the name of a list has 1 to 128 characters of A-Z a-z 0-9 _ . -, and this one has "
                f"{len(field.name)}: rename the field, or remove the tag {TAG}=list"
            )
        if not str(field.tags.get(TAG_LIMIT, LIMIT)).isascii() or not 1 <= _limit(field) <= LIMIT_MAX:
            raise ValueError(f"{place}: the tag {TAG_LIMIT} must be a number from 1 to {LIMIT_MAX}")
        feature = client.call("GET", path("v1", "features", kind, field.name), accept=["feature_not_found"])
        if feature and feature["value_type"] != wanted:
            raise ValueError(
                f"{place}: its list has elements of the type {feature['value_type']}, and {field.dtype} needs {wanted}, "
                f"which cannot be changed: use a new field name, or delete the list with "
                f"liststore feature delete {kind} {field.name}"
            )


def _limit(field: Any) -> int:
    text = str(field.tags.get(TAG_LIMIT, LIMIT))
    return int(text) if text.isdigit() else 0


def _declare(client: Client, config: RepoConfig, view: FeatureView) -> None:
    """Creates what a view needs, or sets its time to live to that of the view."""
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


def _bags_with_lists(client: Client, kind: str, ids: Sequence[str], limits: Dict[str, int]) -> List[Optional[dict]]:
    """The same with items of any number of lists, some in each call."""
    parts = list(_parts(list(limits.items()), JOINED_LISTS_MAX)) or [[]]
    bags = _bags(client, kind, ids, dict(parts[0]))
    for part in parts[1:]:
        for bag, further in zip(bags, _bags(client, kind, ids, dict(part))):
            if bag is not None:
                # A bag that was deleted in between has no items.
                bag["lists"].update(further["lists"] if further else {name: {"items": []} for name, _ in part})
    return bags


def _bags(client: Client, kind: str, ids: Sequence[str], limits: Dict[str, int]) -> List[Optional[dict]]:
    """The bags of some entities, each with items of its lists; None where there is none."""
    if not ids:
        return []
    asked = {"requests": [{"entity_type": kind, "entity_id": one} for one in ids]}
    lists = ",".join(f"{name}:{limit}" for name, limit in limits.items())
    found = []
    # However the features are defined.
    params = {"lists": lists, "int64_as": "number"} if lists else None
    for number, bag in enumerate(client.call("POST", "/v1/entities:batchGet", asked, params)["results"]):
        code = bag.get("problem", {}).get("code")
        if code == "response_too_large" and number > 0:
            # The remaining ones did not fit into one answer.
            return found + _bags(client, kind, ids[number:], limits)
        if code not in (None, "bag_not_found"):
            raise RuntimeError(f"the bag of {ids[number]} was not read: {bag['problem']}")
        found.append(None if code else bag)
    return found


def _row(bag: dict, fields, limits: Dict[str, int], oldest: Optional[datetime]):
    """A row as Feast takes it; nothing if it is older than the view's time to live."""
    properties = bag["properties"]
    written_at = _event_timestamp(bag)
    by_feast = written_at is not None
    happened = written_at or datetime.fromisoformat(bag["updated_at"][:26] + "+00:00")
    types = properties.get(TYPES)
    types = types if isinstance(types, dict) else {}
    if oldest is not None and happened < oldest:
        return None, None
    values = {}
    for field in fields:
        if field.name in limits:
            items = bag["lists"][field.name]
            if "problem" in items:
                raise RuntimeError(f"the list {field.name} was not read: {items['problem']}")
            read = [item["value"] for item in items["items"]]
            older = properties.get(field.name)
            read = (read + (older if isinstance(older, list) else []))[:limits[field.name]]
            values[field.name] = from_json(read, None, field.dtype.to_value_type(), by_feast=False)
        else:
            recorded = types.get(field.name)
            recorded = recorded if isinstance(recorded, str) else None
            values[field.name] = from_json(properties.get(field.name), recorded, field.dtype.to_value_type(), by_feast)
    return happened, values


def _event_timestamp(bag: dict) -> Optional[datetime]:
    """The time of a row; none if another program put the bag."""
    text = bag["properties"].get(EVENT_TIMESTAMP)
    try:
        return _utc(datetime.fromisoformat(text))
    except (TypeError, ValueError):
        return None


def _oldest_item(view: FeatureView) -> datetime:
    """The oldest time that an item of a list can have: after 1970, and visible for a day at least."""
    if view.ttl and view.ttl < TTL_MAX:
        return EPOCH
    return max(EPOCH, datetime.now(timezone.utc) - TTL_MAX + timedelta(days=1))


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)


def _add_items(client: Client, kind: str, lists: Dict[str, int], rows: Sequence[Row], since: datetime) -> None:
    """Adds the elements of lists as items, in their order, each a nanosecond after the previous one. Rows of before
    `since` have none."""
    requests, count = [], 0

    def send():
        for result in client.call("POST", "/v1/lists:batchAdd", {"requests": requests})["results"] if requests else []:
            if "problem" in result:
                raise RuntimeError(f"items were not added: {result['problem']}")
        requests.clear()

    for key, values, happened, _ in rows:
        moment = _utc(happened)
        if moment < since:
            continue
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


def _put_bags(client: Client, kind: str, lists: Dict[str, int], rows: Sequence[Row], since: datetime) -> None:
    """Puts each row as a bag, but never an older row in place of a newer one. The bag of a row from before `since` has
    the elements of its lists, too."""
    newest: Dict[str, Tuple[datetime, dict]] = {}
    for key, values, happened, _ in rows:
        one, moment = entity_id(key), _utc(happened)
        if one not in newest or newest[one][0] <= moment:
            plain = {name: value for name, value in values.items() if name not in lists}
            bag = {name: to_json(value) for name, value in plain.items()}
            if moment < since:
                bag.update({name: (to_json(values[name]) or [])[::-1] for name in lists if name in values})
            if types := types_of(plain):
                bag[TYPES] = types
            newest[one] = (moment, {**bag, EVENT_TIMESTAMP: moment.isoformat()})
    with ThreadPoolExecutor(CONNECTIONS_MAX) as pool:
        for _ in range(TURNS_MAX):
            ids = list(newest)
            tries = [pool.submit(_put_newer, client, kind, one, newest[one], bag)
                     for one, bag in zip(ids, _bags(client, kind, ids, {}))]
            newest = {one: newest[one] for one, attempt in zip(ids, tries) if not attempt.result()}
            if not newest:
                return
    raise RuntimeError(f"{len(newest)} rows were not written, because other writers changed them {TURNS_MAX} times")


def _put_newer(client: Client, kind: str, one: str, row: Tuple[datetime, dict], present: Optional[dict]) -> bool:
    """Whether the row or a newer one is stored; not if another writer was faster. A bag that another program put has no
    time of a row, and is replaced."""
    moment, bag = row
    written_at = _event_timestamp(present) if present else None
    if written_at is not None and written_at > moment:
        return True
    condition = {"If-Match": present["etag"]} if present else {"If-None-Match": "*"}
    return client.call("PUT", path("v1", "entities", kind, one), bag, headers=condition, accept=["etag_mismatch"]) is not None
