"""Notes what a user was shown, and asks which of some stories are new to them.

    openapi-python-client generate --url http://127.0.0.1:8080/openapi.json --output-path client
    PYTHONPATH=client python feed.py http://127.0.0.1:8080
"""

import sys
import time

from liststore_client import Client
from liststore_client.api.features import create_feature
from liststore_client.api.lists import add_items, contains_items, get_items
from liststore_client.models import AddItemsInput, ContainsInput, FeatureInput, ItemInput, ValueType

# With an API key: AuthenticatedClient(base_url=…, token=…)
client = Client(base_url=sys.argv[1])
shown = ("user", "story_shown", "u-123")

# Answered with a problem where it is there already.
feature = FeatureInput(entity_type="user", name="story_shown", value_type=ValueType.STRING, ttl="30d")
create_feature.sync(client=client, body=feature)

now = time.time_ns()
items = [ItemInput(timestamp=now + place, value=story) for place, story in enumerate(["story-1", "story-2"])]
add_items.sync(*shown, client=client, body=AddItemsInput(items=items))

page = get_items.sync(*shown, client=client, limit=50)
print("shown, newest first:", [item.value for item in page.items])
known = contains_items.sync(*shown, client=client, body=ContainsInput(values=["story-2", "story-3"]))
print("new:", [result.value for result in known.results if result.timestamp is None])
