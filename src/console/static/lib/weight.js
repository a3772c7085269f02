// The size of a feature: counts its lists by paging through them, and estimates their bytes from some of them.

import { call, get } from "./api.js";
import { featurePath } from "./features.js";
import { itemsPath } from "./lists.js";
import { storedBytes } from "./values.js";

const PAGE_SIZE = 1000;
/** Lists of each version that are looked into, and how far. */
const SAMPLE = 20;
const SAMPLE_ITEMS = 50;
const COUNT_MAX = 100000;
/** What an item has beside its value. */
const TIMESTAMP_BYTES = 8;

/**
 * Counts the lists of some versions. `onSome` is told as it goes: { lists, isWhole, items, bytes }, of which the
 * last two are estimates. It stops after so many calls.
 */
export async function weigh(feature, versions, { callsMax, onSome, signal }) {
  const found = versions.map((version) => ({ version, lists: 0, sample: [], isWhole: false, each: null }));
  let calls = 0;
  for (const one of found) {
    let token;
    do {
      if (calls === callsMax) return;
      calls += 1;
      const query = { version: one.version, page_size: PAGE_SIZE, page_token: token };
      const { data } = await get(`${featurePath(feature.entity_type, feature.name)}/entities`, query, { signal });
      const before = one.sample.length;
      one.lists += data.entities.length;
      one.sample.push(...data.entities.slice(0, SAMPLE - before));
      token = data.next_page_token;
      one.isWhole = !token;
      if (one.sample.length > before) one.each = await lookInto(feature, one, signal);
      onSome(sum(found));
    } while (token);
  }
}

function sum(found) {
  const total = (of) => found.reduce((sum, one) => sum + of(one), 0);
  return {
    lists: total(({ lists }) => lists), isWhole: found.every(({ isWhole }) => isWhole),
    items: total(({ lists, each }) => lists * (each?.items ?? 0)),
    bytes: total(({ lists, each }) => lists * (each ? each.items * each.bytes : 0)),
  };
}

/** How many items lists have, and what an item weighs, in the mean of a sample. */
async function lookInto(feature, { version, sample }, signal) {
  const list = (id) => ({ type: feature.entity_type, feature: feature.name, id });
  const counts = await Promise.all(sample.map(async (id) =>
    (await get(`${itemsPath(list(id))}:count`, { version, max: COUNT_MAX }, { signal })).data.count));
  const requests = sample.map((id) =>
    ({ entity_type: feature.entity_type, feature: feature.name, version, entity_id: id, limit: SAMPLE_ITEMS }));
  const { data } = await call("POST", "/v1/lists:batchGet", { body: { requests }, signal });
  const sizes = data.results.flatMap(({ items = [] }) => items.map(({ value }) => storedBytes(feature.value_type, value)));
  const mean = (numbers) => numbers.reduce((a, b) => a + b, 0) / Math.max(1, numbers.length);
  return { items: mean(counts), bytes: TIMESTAMP_BYTES + mean(sizes) };
}
