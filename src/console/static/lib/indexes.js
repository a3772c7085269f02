// The console's requests about indexes, and its checks before the server's.

import { call, get } from "./api.js";
import { bagIds, bagsIn, bagsOf, typePath } from "./entities.js";
import { isBranch, parseExact } from "./json.js";
import { path } from "./router.js";
import { curl, shell } from "./shell.js";

export const PROPERTIES_MAX = 8;
export const indexesPath = (type) => `${typePath(type)}/indexes`;
const indexPath = (type, name) => `${indexesPath(type)}${path(name)}`;

export const loadIndexes = async (type, signal) => (await get(indexesPath(type), {}, { signal })).data.indexes;
export const createIndex = (type, input) => call("POST", indexesPath(type), { body: input });
export const dropIndex = (type, name) => call("DELETE", indexPath(type, name));

/** The properties of a field with one path a line. */
export const readPointers = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);

export const pointerError = (pointer) =>
  !pointer.startsWith("/") ? `"${pointer.slice(0, 60)}": a path must begin with "/", such as /city or /address/city.`
    : /~(?![01])/.test(pointer) ? `"${pointer.slice(0, 60)}": write "~" as "~0", and "/" within a name as "~1".` : null;

export function pointersError(pointers) {
  if (!pointers.length) return "Required: at least one path.";
  if (pointers.length > PROPERTIES_MAX) return `At most ${PROPERTIES_MAX}.`;
  const malformed = pointers.map(pointerError).find(Boolean);
  return malformed ?? (new Set(pointers).size < pointers.length ? "Duplicate path." : null);
}

/** The number of bags that are searched for properties, and the depth of the search. */
const SAMPLE = 50;
const DEPTH_MAX = 4;
const OFFERED_MAX = 24;
const TIME = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d/;

/** Paths that bags of a type have: [path, an example, whether it can order]. The most frequent come first. */
export async function sampledPaths(type, signal) {
  const { entities } = await bagIds(type, { page_size: SAMPLE }, signal);
  const found = new Map();
  for (const { text } of await bagsOf(type, entities, signal)) {
    for (const [pointer, value] of pathsOf(parseExact(text), "", 0)) {
      const { count = 0 } = found.get(pointer) ?? {};
      const isOrder = typeof value === "number" || (isBranch(value) === false && typeof value === "object" && value !== null)
        || (typeof value === "string" && TIME.test(value));
      found.set(pointer, { count: count + 1, value: String(value?.text ?? value), isOrder });
    }
  }
  return [...found].sort((a, b) => b[1].count - a[1].count || (a[0] < b[0] ? -1 : 1)).slice(0, OFFERED_MAX)
    .map(([pointer, { value, isOrder }]) => [pointer, value, isOrder]);
}

function* pathsOf(value, at, depth) {
  for (const [key, member] of Object.entries(value)) {
    const pointer = `${at}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    if (Array.isArray(member)) {
      const scalar = member.find((element) => !isBranch(element));
      if (scalar !== undefined) yield [pointer, scalar];
    } else if (!isBranch(member)) yield [pointer, member];
    else if (depth + 1 < DEPTH_MAX) yield* pathsOf(member, pointer, depth + 1);
  }
}

/** The JSON of a typed value. A text that is no JSON scalar is a string, as on the command line. */
export function scalarOf(text) {
  try {
    if (!isBranch(JSON.parse(text))) return text.trim();
  } catch {
    // A text.
  }
  return JSON.stringify(text);
}

const findPath = (type, index) => `${indexPath(type, index)}/entities`;

/** The found bags: { bags, next }. `asked` is { index, values, min, max, order }, with JSON values. */
export async function findBags(type, asked, { limit, token }, signal) {
  const query = new URLSearchParams(asked.values.map((value) => ["value", value]));
  for (const [name, value] of Object.entries({ min: asked.min, max: asked.max, order: asked.order, limit, page_token: token })) {
    if (value) query.set(name, value);
  }
  const { text, data } = await get(`${findPath(type, asked.index)}?${query}`, {}, { signal });
  return { bags: bagsIn(text, "entities"), next: data.next_page_token };
}

export const findAsCurl = (type, { index, values, min, max, order }, limit) =>
  curl(findPath(type, index), { value: values, min, max, order, limit });
export const findAsCommand = (type, { index, values, min, max, order }, limit) =>
  shell("liststore entity find", [...values.map((value) => ["--value", value]), ["--min", min], ["--max", max], ["--order", order],
    ["--limit", limit]], [type, index]);
export const creationAsCommand = (type, { name, properties, order_by: order }) =>
  shell("liststore index create", [...properties.map((property) => ["--property", property]), ["--order-by", order]], [type, name]);
