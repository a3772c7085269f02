// Works with a list through the types that openapi-typescript makes of the OpenAPI document.

import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./api";

const client = createClient<paths>({ baseUrl: process.argv[2]! });
const feature = { entity_type: "user", name: "typescript" };
const list = { path: { entity_type: "user", feature: "typescript", entity_id: "a/b é" } };
// Digits, since nanoseconds and 64-bit values are more than a number of this language can hold.
const now = `${Date.now()}000001`;
const value = "9007199254740993";

const body: components["schemas"]["FeatureInput"] = { ...feature, value_type: "int64", ttl: "30d" };
const created = await client.POST("/v1/features", { body });
assert.equal(created.data?.name, "typescript");

const items = "/v1/lists/{entity_type}/{feature}/{entity_id}/items";
const added = await client.POST(items, { params: list, body: { items: [{ timestamp: now, value }] } });
assert.equal(added.data?.added, 1);
const page = await client.GET(items, { params: { ...list, query: { int64_as: "string" } } });
// Pages are text where they are asked for line by line.
const read = typeof page.data === "object" ? page.data.items : [];
assert.deepEqual(read.map((item) => item.value), [value]);
assert.match(read[0]!.timestamp, /000001Z$/);
const removed = await client.POST(`${items}:remove`, { params: list, body: { value } });
assert.equal(removed.data?.removed, 1);

const named = "/v1/features/{entity_type}/{name}";
const missing = await client.GET(named, { params: { path: { entity_type: "user", name: "nothing" } } });
const code: components["schemas"]["ErrorCode"] | undefined = missing.error?.code;
assert.equal(code, "feature_not_found");
const deleted = await client.DELETE(named, { params: { path: feature } });
assert.equal(typeof deleted.data?.items_expire_by, "string");
