// Notes what a user was shown, and asks which of some stories are new to them.
//
//   npx openapi-typescript http://127.0.0.1:8080/openapi.json -o api.d.ts
//   npx tsc … feed.ts && node feed.js http://127.0.0.1:8080

import createClient from "openapi-fetch";
import type { paths } from "./api";

// With an API key: headers: { Authorization: `Bearer ${key}` }
const client = createClient<paths>({ baseUrl: process.argv[2]! });
const items = "/v1/lists/{entity_type}/{feature}/{entity_id}/items";
const shown = { path: { entity_type: "user", feature: "story_shown", entity_id: "u-123" } };

// Answered with a problem where it is there already.
const feature = { entity_type: "user", name: "story_shown", value_type: "string", ttl: "30d" } as const;
await client.POST("/v1/features", { body: feature });

// Nanoseconds as digits: they are more than a number of this language can hold.
const story = (place: number, value: string) => ({ timestamp: `${Date.now()}00000${place}`, value });
await client.POST(items, { params: shown, body: { items: [story(1, "story-1"), story(2, "story-2")] } });

const page = await client.GET(items, { params: { ...shown, query: { limit: 50 } } });
// Pages are text where they are asked for line by line.
const seen = typeof page.data === "object" ? page.data.items : [];
console.log("shown, newest first:", seen.map((item) => item.value));
const known = await client.POST(`${items}:contains`, { params: shown, body: { values: ["story-2", "story-3"] } });
console.log("new:", known.data?.results.filter((result) => result.timestamp === null).map((result) => result.value));
