"""Works with a list through the client that openapi-python-client makes of the OpenAPI document."""

import sys
import time

from liststore_client import Client
from liststore_client.api.features import create_feature, delete_feature, get_feature
from liststore_client.api.lists import add_items, get_items, remove_items
from liststore_client.models import (
    AddItemsInput, Deleted, ErrorCode, Feature, FeatureInput, ItemInput, ItemPage, Problem, RemoveValueInput, ValueType,
)

client = Client(base_url=sys.argv[1])
now, value, names = time.time_ns(), 9007199254740993, ("user", "python", "a/b é")

feature = FeatureInput(entity_type="user", name="python", value_type=ValueType.INT64, ttl="30d")
created = create_feature.sync(client=client, body=feature)
assert isinstance(created, Feature) and created.name == "python", created

items = AddItemsInput(items=[ItemInput(timestamp=now, value=value)])
added = add_items.sync(*names, client=client, body=items)
assert added.added == 1, added
page = get_items.sync(*names, client=client)
assert isinstance(page, ItemPage) and [item.value for item in page.items] == [value], page
assert page.items[0].timestamp.endswith(f"{now % 1_000_000_000:09}Z"), page
removed = remove_items.sync(*names, client=client, body=RemoveValueInput(value=value))
assert removed.removed == 1, removed

missing = get_feature.sync("user", "nothing", client=client)
assert isinstance(missing, Problem) and missing.code == ErrorCode.FEATURE_NOT_FOUND, missing
deleted = delete_feature.sync("user", "python", client=client)
assert isinstance(deleted, Deleted), deleted
