// Why an item is not there, as far as can be told from outside.

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

/** What is said of an item of a moment, and of a value (JSON) and a key if they are known: { kind, title, points }. */
export async function explain(list, feature, ttl, ns, json, key) {
  const end = millis(ns) + readTtl(ttl).secs * 1000;
  if (end <= Date.now()) return expired(ns, ttl, end);
  const query = around(ns, SECOND);
  const near = (await getItems(list, query)).items;
  const wanted = json === undefined ? null : canonical(parse(json));
  const isWanted = (item) => (wanted === null || canonical(item.value) === wanted) && (key === undefined || item.key === key);
  // Who knows what it holds may remember the time less exactly.
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
      "Whoever adds and whoever reads must name the same version." ] };
  }
  const beyond = await beyondNewest(list, feature, ns);
  if (beyond) return beyond;
  const known = [...await whatHistoryTells(list, ns), ...await whatTrailTells(list, ns)];
  return { kind: "warn", title: "It is not stored, though it would not have expired.", points: [
    near.length ? `${near.length} other items are within a second of that time, with other values.`
      : "No item is within a second of that time.",
    ...known,
    known.length ? "Else it was never added, was removed, or was added under another time or entity ID."
      : "It was never added, was removed by its value or with the whole list, or was added under another time or entity ID.",
  ] };
}

const expired = (ns, ttl, end) => ({ kind: "warn", title: `It has expired, ${relative(end)}.`, points: [
  `The time to live is ${ttlWords(ttl)}: an item of ${dayTime(millis(ns))} counted until ${dayTime(end)}.`,
  "A longer time to live brings it back only as long as the store has not given its space back, and not beyond the " +
    "expiry that it was stored with.",
] });

const there = (item, secs, end) => ({ kind: "good", title: secs === 0 ? "It is there." : `It is there, ${span(secs)} from that time.`, points: [
  `It has the time ${item.timestamp}, and counts until ${dayTime(end)}.`,
  "A reader that does not see it asks for fewer items than stand before it (limit), between other times, of another " +
    "version, or of another entity ID.",
] });

/** Of a member of a set one item stays: it may be another one. */
async function otherOfMember(list, feature, ns, json, key) {
  const version = feature.versions.find(({ version }) => version === list.version);
  const identity = identityOf(feature, version);
  const member = identity === "key" ? key !== undefined && { key } : identity === "value" && json !== undefined && { valueText: json };
  const found = member && await lookUp(list, member);
  const isNewest = (version?.keep ?? feature.keep) !== "oldest";
  if (!found || (nanos(found.timestamp) > ns) !== isNewest) return null;
  const [which, stays] = isNewest ? ["A newer", "newest"] : ["An older", "oldest"];
  return { kind: "warn", title: `${which} item of its ${identity} stands in its place.`, points: [
    `Each ${identity} stands once in this list, and the ${stays} item of it stays: that of ${dayTime(millisOf(found.timestamp))} (${found.timestamp}).` ] };
}

/** A version may show so many items and no more: whatever is older than those is hidden. */
async function beyondNewest(list, feature, ns) {
  const max = feature.versions.find(({ version }) => version === list.version)?.max_items;
  if (!max) return null;
  const query = { version: list.version, min_timestamp: rfc3339(ns), max };
  const { count } = (await get(`${itemsPath(list)}:count`, query)).data;
  return count < max ? null : { kind: "warn", title: `It is beyond the newest ${group(max)} items.`, points: [
    `This version shows ${group(max)} items of a list at most (max_items), and so many are newer.`,
    "A larger bound brings it back only as long as the store has not given its space back.",
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
      said.push(`${by} deleted the ${action === "delete_feature" ? "feature" : "version"} on ${dayTime(millisOf(at))}: what was added before is out of reach.`);
      break;
    }
    const then = before?.versions ? before.versions.find((one) => one.version === version)?.ttl
      : changed === version ? before?.ttl : undefined;
    if (then && millis(ns) + (readTtl(then).secs ?? Infinity) * 1000 <= millisOf(at)) {
      said.push(`Until ${dayTime(millisOf(at))} the time to live was ${ttlWords(then)}: it had expired by that, and the store may have given it back.`);
    }
  }
  return said;
}

/** Erasures of the entity and purges of the feature since then, for those who may see them. */
async function whatTrailTells({ type, feature, id }, ns) {
  if (refusal("keys:write")) return [];
  const asked = [["erase_entity", `entity:${type}/${id}`, "erased the entity"], ["purge", `${type}.${feature}`, "purged the feature"]];
  const found = await Promise.all(asked.map(async ([action, target, words]) => {
    const change = await lastChange({ action, target, since: rfc3339(ns) });
    return change && `${change.by} ${words} on ${dayTime(millisOf(change.at))}.`;
  }));
  if (found.includes(undefined)) {
    found.push("The audit trail is too long to be searched to its end here: whether somebody erased the entity or purged the feature is not known.");
  }
  return found.filter(Boolean);
}

/** The last change that fits: null if there is none, undefined if so much of the trail does not tell. */
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
