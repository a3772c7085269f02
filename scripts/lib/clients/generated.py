"""Works with lists through the client that openapi-generator makes in Python: generated.py URL."""

import sys
import time

import ls_client as api
from ls_client.exceptions import ApiException

client = api.ApiClient(api.Configuration(host=sys.argv[1]))
features, lists, entities = api.FeaturesApi(client), api.ListsApi(client), api.EntitiesApi(client)
value, now = 9007199254740993, time.time_ns()
numbers, members = ("generated", "numbers", "a/b é"), ("generated", "members", "a/b é")

features.create_feature(api.FeatureInput(entity_type="generated", name="numbers", value_type="int64", ttl="7300d"))
members_input = {"entity_type": "generated", "name": "members", "value_type": "string", "ttl": "30d", "identity": "key"}
created = features.create_feature(api.FeatureInput.from_dict(members_input))
assert created.name == "members" and created.identity == "key", created

# A timestamp is an integer or a text.
stamps = [now, str(now - 1), "2024-08-29T00:00:00Z"]
added = lists.add_items(*numbers, api.AddItemsInput(items=[api.ItemInput(timestamp=at, value=value) for at in stamps]))
assert added.added == 3, added
page = lists.get_items(*numbers, limit=2, int64_as="string")
assert [item.value for item in page.items] == [str(value)] * 2 and page.next_page_token, page
page = lists.get_items(*numbers, max_timestamp=str(now - 1), order="oldest")
assert [item.value for item in page.items] == [value] * 2, page
found = lists.contains_items(*numbers, api.ContainsInput(values=[value, 1]))
assert [result.timestamp is None for result in found.results] == [False, True], found
both = [{"entity_type": "generated", "feature": name, "entity_id": "a/b é", "as_of": now} for name in ("numbers", "none")]
results = lists.batch_get(api.BatchGetInput.from_dict({"requests": both})).results
assert results[0].actual_instance.items[0].value == value, results
assert results[1].actual_instance.problem.code == "feature_not_found", results

keyed = [{"timestamp": now, "value": key, "key": key} for key in ("a", "b")]
lists.add_items(*members, api.AddItemsInput.from_dict({"items": keyed}))
looked = lists.lookup_items(*members, api.LookupInput.from_dict({"keys": ["a", "none"]})).results
assert looked[0].value == "a" and looked[1] is None, looked
removed = [lists.remove_items(*members, api.RemoveItemsInput.from_dict(form)).removed for form in ({"key": "a"}, {"keys": ["b"]})]
assert removed == [1, 1], removed
removed = [lists.remove_items(*numbers, api.RemoveItemsInput.from_dict(form)).removed for form in (
    {"items": [{"timestamp": now, "value": value}]}, {"max_timestamp": "2024-08-29T00:00:00Z"},
    {"min_timestamp": now, "max_timestamp": now}, {"min_timestamp": now + 1},
)]
assert removed == [1, 1, 0, 0], removed
removed = lists.remove_items(*numbers, api.RemoveItemsInput(api.RemoveValueInput(value=value)))
assert removed.removed == 1, removed

patched = features.update_feature("generated", "numbers", api.FeaturePatch.from_dict({"max_items": 5, "int64_as": "string"}))
assert (patched.max_items, patched.int64_as) == (5, "string"), patched
history = features.get_history("generated", "numbers").history
assert [change.action for change in history[:2]] == ["update_feature", "create_feature"], history

entities.create_entity_type(api.EntityTypeInput(entity_type="generated"))
entities.create_index("generated", api.IndexInput(name="by_country", properties=["/country"]))
entities.put_bag("generated", "e", {"country": "CH", "score": 1.5})
assert entities.get_bag("generated", "e").properties["country"] == "CH"
bags = entities.find_bags_by_body("generated", "by_country", api.FindBagsInput(values=["CH"]))
assert [bag.entity_id for bag in bags.entities] == ["e"], bags

try:
    lists.get_items("generated", "none", "e")
    raise SystemExit("a missing feature was found")
except ApiException as error:
    assert error.status == 404 and "feature_not_found" in error.body, error
for name in ("numbers", "members"):
    features.delete_feature("generated", name)
entities.delete_entity_type("generated")
