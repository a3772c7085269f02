// The console's requests about entity types and bags.

import { Problem, call, get } from "./api.js";
import { elements, members } from "./json.js";
import { path } from "./router.js";
import { refusal } from "./session.js";
import { shell } from "./shell.js";

/** The most types that the page searches in memory. */
export const TYPES_MAX = 20000;
export const BAG_BYTES_MAX = 262144;
/** How long a bag lives whose type says nothing. */
export const TTL_DEFAULT = "7300d";

export const typePath = (type) => `/v1/entity-types${path(type)}`;
export const entityPath = (type, id) => `/v1/entities${path(type, id)}`;
/** The page of an entity type, or one of its views. */
export const pageOfType = (type, view = "") => `/console/entities/type${path(type)}${view && `/${view}`}`;
export const pageOfEntity = (type, id) => `/console/entities/entity?${new URLSearchParams({ type, id })}`;

/** All types, up to TYPES_MAX: { types, more }. */
export async function loadTypes(signal) {
  const types = [];
  let token;
  do {
    const { data } = await get("/v1/entity-types", { page_size: 1000, page_token: token }, { signal });
    types.push(...data.entity_types);
    token = data.next_page_token;
  } while (token && types.length < TYPES_MAX);
  return { types, more: Boolean(token) };
}

export async function loadType(type, signal) {
  const { data, etag } = await get(typePath(type), {}, { signal });
  return { definition: data, etag };
}

/** How long the bags of a type live; null without the permission to read it. */
export const ttlOf = async (type, signal) =>
  (refusal("features:read", type, "") ? null : (await loadType(type, signal)).definition.ttl);

export const createType = (input) => call("POST", "/v1/entity-types", { body: input });
export const changeType = (type, patch, etag) =>
  call("PATCH", typePath(type), { body: patch, headers: { "If-Match": etag } });
export const deleteType = async (type, etag) =>
  (await call("DELETE", typePath(type), { headers: { "If-Match": etag } })).data;

/** Bags as they were written, { id, text, etag, updatedAt }, or a problem for each that is not there. */
async function askBags(type, ids, signal) {
  const requests = ids.map((id) => ({ entity_type: type, entity_id: id }));
  const { text } = await call("POST", "/v1/entities:batchGet", { body: { requests }, signal });
  return bagsIn(text, "results");
}

/** The bags of an answer. Their properties stay text: numbers keep all their digits. */
export const bagsIn = (text, name) => elements(members(text).get(name)).map((one) => {
  const bag = members(one);
  const said = (member) => JSON.parse(bag.get(member));
  return bag.has("problem") ? { problem: new Problem(said("problem")) }
    : { id: said("entity_id"), updatedAt: said("updated_at"), etag: said("etag"), text: bag.get("properties") };
});

/** The bag of one entity; null if it has none, which is no failure. */
export async function loadBag(type, id, signal) {
  const [bag] = await askBags(type, [id], signal);
  if (bag.problem && bag.problem.code !== "bag_not_found") throw bag.problem;
  return bag.problem ? null : bag;
}

/** Puts a whole bag in the place of what was looked at; where there was none, only if there still is none. */
export const putBag = (type, id, text, etag) =>
  call("PUT", entityPath(type, id), { body: text, headers: etag ? { "If-Match": etag } : { "If-None-Match": "*" } });
export const patchBag = (type, id, text, etag) => call("PATCH", entityPath(type, id), {
  body: text, headers: { "If-Match": etag, "Content-Type": "application/merge-patch+json" },
});
export const deleteBag = (type, id, etag) => call("DELETE", `${entityPath(type, id)}/bag`, { headers: { "If-Match": etag } });

/** A page of the IDs of those that have bags. */
export const bagIds = async (type, query, signal) => (await get(`/v1/entities${path(type)}`, query, { signal })).data;

/** The bags of some entities; what has gone meanwhile is left out. */
export const bagsOf = async (type, ids, signal) =>
  (ids.length ? (await askBags(type, ids, signal)).filter(({ problem }) => !problem) : []);

export const entityAsCommand = (type, id) => shell("liststore entity get", [], [type, id]);
export const idError = (id) =>
  new TextEncoder().encode(id).length > 512 ? "At most 512 bytes." : [".", ".."].includes(id) ? "Not . or .."
    : id.includes("\0") ? "It must not contain NUL." : null;
