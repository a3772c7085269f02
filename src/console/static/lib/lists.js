// The console's requests about lists, and the same requests for other clients.

import { call, get } from "./api.js";
import { path } from "./router.js";
import { quoted, valueJson } from "./values.js";

export const itemsPath = ({ type, feature, id }) => `/v1/lists${path(type, feature, id)}/items`;

export async function getItems(list, query, signal) {
  const { data } = await get(itemsPath(list), { ...query, version: list.version || undefined }, { signal });
  return data;
}

const change = (method, at, list, body) =>
  call(method, at, { query: list.version ? { version: list.version } : {}, body });

const itemText = (timestamp, valueText, key) =>
  `{"items":[{"timestamp":${JSON.stringify(timestamp)},${key === undefined ? "" : `"key":${JSON.stringify(key)},`}"value":${valueText}}]}`;

export const addItem = async (list, timestamp, valueText, key) =>
  (await change("POST", itemsPath(list), list, itemText(timestamp, valueText, key))).data;
export const removeValue = async (list, valueText) =>
  (await change("POST", `${itemsPath(list)}:remove`, list, `{"value":${valueText}}`)).data;
export const removeItem = async (list, timestamp, valueText, key) =>
  (await change("POST", `${itemsPath(list)}:remove`, list, itemText(timestamp, valueText, key))).data;
export const removeKey = async (list, key) =>
  (await change("POST", `${itemsPath(list)}:remove`, list, { key })).data;
/** The item of a member of a set: of a key, or of a value as JSON; null if there is none. */
export const lookUp = async (list, { key, valueText }) => {
  const body = key === undefined ? `{"values":[${valueText}]}` : { keys: [key] };
  return (await change("POST", `${itemsPath(list)}:lookup`, list, body)).data.results[0];
};
export const removeAll = (list) => change("DELETE", itemsPath(list), list);

const urlOf = (list, query) => {
  const given = Object.entries({ version: list.version, ...query }).filter(([, value]) => value);
  const text = new URLSearchParams(given).toString();
  return `${location.origin}${itemsPath(list)}${text ? `?${text}` : ""}`;
};

/** The same get for a shell. The key is never in it: it is read from the environment. */
export function asCurl(list, query, withKey) {
  const key = withKey ? ' -H "Authorization: Bearer $LISTSTORE_TOKEN"' : "";
  return `curl -s${key} ${quoted(urlOf(list, query))}`;
}

export function asCommand(list, { min_timestamp, max_timestamp, limit, order } = {}) {
  const words = ["liststore list get"];
  if (list.version) words.push("--version", quoted(list.version));
  if (min_timestamp) words.push("--min-timestamp", min_timestamp);
  if (max_timestamp) words.push("--max-timestamp", max_timestamp);
  if (order) words.push("--order", order);
  if (limit) words.push("--limit", limit);
  words.push("--url", quoted(location.origin));
  if (list.id.startsWith("-")) words.push("--");
  return [...words, quoted(list.type), quoted(list.feature), /^-/.test(list.id) ? `'${list.id}'` : quoted(list.id)].join(" ");
}

/** `what` is removed: a single item, a key, or a value. */
export const removalAsCurl = (list, { value, timestamp, key: member, what }, withKey) => {
  const key = withKey ? ' -H "Authorization: Bearer $LISTSTORE_TOKEN"' : "";
  const url = urlOf(list, {}).replace("/items", "/items:remove");
  const body = { item: () => itemText(timestamp, valueJson(value), member), key: () => JSON.stringify({ key: member }),
    value: () => `{"value":${valueJson(value)}}` }[what]();
  return `curl -s${key} --json ${quoted(body)} ${quoted(url)}`;
};
