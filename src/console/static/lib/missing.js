// Explains why an item is missing, from the information that a client can read.

import { get, parse } from "./api.js";
import { featurePath, identityOf, versionName } from "./features.js";
import { dayTime, group, millisOf, nanos, readTtl, relative, rfc3339, span, ttlWords } from "./format.js";
import { canonical } from "./json.js";
import { getItems, itemsPath, lookUp } from "./lists.js";
import { refusal } from "./session.js";

const LOOKED_AT = 1000;
const VERSIONS_LOOKED_AT = 20;
const TRAIL_PAGES_LOOKED_AT = 50;
const SECOND = 1000000000n;
const around = (ns, by) =>
  ({ min_timestamp: rfc3339(ns > by ? ns - by : 0n), max_timestamp: rfc3339(ns + by), limit: LOOKED_AT });
const millis = (ns) => Number(ns / 1000000n);

/** Explains an item of a moment, with its value (JSON) and key if they are known: { kind, title, points }. */
export async function explain(list, feature, ttl, ns, json, key) {
  const end = millis(ns) + readTtl(ttl).secs * 1000;
  if (end <= Date.now()) return expired(ns, ttl, end);
  const query = around(ns, SECOND);
  const near = (await getItems(list, query)).items;
  const wanted = json === undefined ? null : canonical(parse(json));
  const isWanted = (item) => (wanted === null || canonical(item.value) === wanted) && (key === undefined || item.key === key);
  // A person who knows the item's content may remember the time less exactly.
  const looked = near.some(isWanted) || (wanted === null && key === undefined) ? near : (await getItems(list, around(ns, 600n * SECOND))).items;
  const off = (item) => { const by = nanos(item.timestamp) - ns; return by < 0n ? -by : by; };
  const same = looked.filter(isWanted).sort((a, b) => (off(a) < off(b) ? -1 : 1));
  if (same.length) return there(same[0], millis(off(same[0])) / 1000, end);
  const other = await otherOfMember(list, feature, ns, json, key);
  if (other) return other;
  const elsewhere = [];
  for (const { version } of feature.versions.filter(({ version }) => version !== list.version).slice(0, VERSIONS_LOOKED_AT)) {
    const found = (await getItems({ ...list, version }, query)).items;
    if (found.some(isWanted)) elsewhere.push(versionName(version));
  }
  if (elsewhere.length) {
    return { kind: "warn", title: `It is in another version: ${elsewhere.join(", ")}.`, points: [
      "Writers and readers must use the same version." ] };
  }
  const beyond = await beyondNewest(list, feature, ns);
  if (beyond) return beyond;
  const known = [...await whatHistoryTells(list, ns), ...await whatTrailTells(list, ns)];
  return { kind: "warn", title: "It is not stored, although it would not have expired yet.", points: [
    near.length ? `${near.length} other items, with other values, are within a second of that time.`
      : "No item is within a second of that time.",
    ...known,
    known.length ? "Otherwise it was never added, was removed, or was added with another time or entity ID."
      : "It was never added, was removed, or was added with another time or entity ID.",
  ] };
}

const expired = (ns, ttl, end) => ({ kind: "warn", title: `It has expired, ${relative(end)}.`, points: [
  `The time to live is ${ttlWords(ttl)}: an item of ${dayTime(millis(ns))} was visible until ${dayTime(end)}.`,
  "A longer time to live shows it again only until the store reclaims its space, and not beyond the " +
    "expiry it was stored with.",
] });

const there = (item, secs, end) => ({ kind: "good", title: secs === 0 ? "It exists." : `It exists, ${span(secs)} from that time.`, points: [
  `Its time is ${item.timestamp}, and it is visible until ${dayTime(end)}.`,
  "A reader that does not see it uses a smaller limit, other times, another " +
    "version or another entity ID.",
] });

/** A set keeps one item per member: it may have kept another item. */
async function otherOfMember(list, feature, ns, json, key) {
  const version = feature.versions.find(({ version }) => version === list.version);
  const identity = identityOf(feature, version);
  const member = identity === "key" ? key !== undefined && { key } : identity === "value" && json !== undefined && { valueText: json };
  const found = member && await lookUp(list, member);
  const isNewest = (version?.keep ?? feature.keep) !== "oldest";
  if (!found || (nanos(found.timestamp) > ns) !== isNewest) return null;
  const [which, stays] = isNewest ? ["A newer", "newest"] : ["An older", "oldest"];
  return { kind: "warn", title: `${which} item with its ${identity} has replaced it.`, points: [
    `Each ${identity} occurs once in this list, and its ${stays} item is kept: the item of ${dayTime(millisOf(found.timestamp))} (${found.timestamp}).` ] };
}

/** A version may limit its number of items: older items are hidden. */
async function beyondNewest(list, feature, ns) {
  const max = feature.versions.find(({ version }) => version === list.version)?.max_items;
  if (!max) return null;
  const query = { version: list.version, min_timestamp: rfc3339(ns), max };
  const { count } = (await get(`${itemsPath(list)}:count`, query)).data;
  return count < max ? null : { kind: "warn", title: `It is beyond the newest ${group(max)} items.`, points: [
    `This version shows at most ${group(max)} items of a list (max_items), and as many are newer.`,
    "A larger bound shows it again only until the store reclaims its space.",
  ] };
}

/** Deletions since then, and times to live by which it had expired already. */
async function whatHistoryTells({ type, feature, version }, ns) {
  const { data } = await get(`${featurePath(type, feature)}/history`, { page_size: LOOKED_AT });
  const said = [];
  for (const { at, action, version: changed, before, by } of data.history) {
    if (nanos(at) < ns) break;
    const isDeletion = action === "delete_feature" || (action === "delete_version" && changed === version);
    if (isDeletion) {
      said.push(`${by} deleted the ${action === "delete_feature" ? "feature" : "version"} on ${dayTime(millisOf(at))}: earlier items are unreachable.`);
      break;
    }
    const then = before?.versions ? before.versions.find((one) => one.version === version)?.ttl
      : changed === version ? before?.ttl : undefined;
    if (then && millis(ns) + (readTtl(then).secs ?? Infinity) * 1000 <= millisOf(at)) {
      said.push(`Until ${dayTime(millisOf(at))} the time to live was ${ttlWords(then)}: the item had expired by then, and the store may have reclaimed it.`);
    }
  }
  return said;
}

/** Erasures of the entity and purges of the feature since then, for callers who may read the trail. */
async function whatTrailTells({ type, feature, id }, ns) {
  if (refusal("keys:write")) return [];
  const asked = [["erase_entity", `entity:${type}/${id}`, "erased the entity"], ["purge", `${type}.${feature}`, "purged the feature"]];
  const found = await Promise.all(asked.map(async ([action, target, words]) => {
    const change = await lastChange({ action, target, since: rfc3339(ns) });
    return change && `${change.by} ${words} on ${dayTime(millisOf(change.at))}.`;
  }));
  if (found.includes(undefined)) {
    found.push("The audit trail is too long to search completely: the entity may have been erased or the feature purged.");
  }
  return found.filter(Boolean);
}

/** The last change that fits: null if there is none, undefined if the search ended before the trail did. */
async function lastChange(filter) {
  let token;
  for (let pages = 0; pages < TRAIL_PAGES_LOOKED_AT; pages++) {
    const { data } = await get("/v1/audit", { ...filter, page_size: 1, page_token: token });
    if (data.changes.length) return data.changes[0];
    // A page that has looked through much may be empty, and not be the last.
    token = data.next_page_token;
    if (!token) return null;
  }
  return undefined;
}
