// The console's requests about features, and the values that the server accepts.

import { call, get } from "./api.js";
import { readTtl } from "./format.js";
import { path } from "./router.js";

/** The most features that the page searches in memory. Beyond that, the API searches. */
export const FEATURES_MAX = 20000;

export const TYPES = {
  string: ["Text", "story-17", "Any UTF-8 text."],
  int64: ["Whole numbers", "-42", "From −2⁶³ to 2⁶³−1. Send values beyond 2⁵³ as text, because many JSON libraries round them."],
  double: ["Floating point", "0.75", "64 bits. NaN and infinity are refused."],
  bool: ["Yes or no", "true", "true or false: each list has at most two different values."],
  bytes: ["Bytes", "3q2+7w==", "Sent and returned as Base64, for serialised data."],
  json: ["JSON", '{"id": 7, "shown": true}', "Stored in the canonical form of RFC 8785, so that equal values are identical."],
};

/** The property that distinguishes the items of a list. */
export const IDENTITIES = {
  item: ["Time and value", "A list of events."],
  value: ["Value", "A set: each value occurs once."],
  key: ["Key", "A set: each key occurs once, with a value."],
};
/** The periods whose items can share a partition. */
export const BUCKETS = { "": "none: one partition per list", day: "day", week: "week", month: "month", year: "year" };
export const KEEPS = { newest: "the newest item is kept", oldest: "the oldest item is kept" };
/** The identity of a version. Older servers know only `item`. */
export const identityOf = (feature, version) => version?.identity ?? feature.identity ?? "item";
/** A bound on the items of a list that are shown. */
export const MAX_ITEMS_MAX = 100000;
export const maxItemsError = (text) =>
  !text || (/^\d{1,6}$/.test(text) && Number(text) >= 1 && Number(text) <= MAX_ITEMS_MAX) ? null : "From 1 to 100,000.";

/** How far a timestamp may be ahead of the server's clock; empty for the server's setting. */
export const aheadMaxError = (text) => (!text || text === "none" || readTtl(text).secs ? null
  : 'A duration from 1s to 7300d such as "12h", or "none" for any time.');

export const featurePath = (entityType, name) => `/v1/features${path(entityType, name)}`;
export const versionPath = (entityType, name, version) =>
  `${featurePath(entityType, name)}/versions/${encodeURIComponent(version)}`;
export const pageOf = (feature) => `/console/features${path(feature.entity_type, feature.name)}`;
export const purgeOf = (feature) =>
  `/console/erasure?${new URLSearchParams({ type: feature.entity_type, feature: feature.name })}`;
export const titleOf = (feature) => `${feature.entity_type}.${feature.name}`;
export const versionName = (version) => version || "default";

/**
 * Labels mark what is deprecated: `deprecated` all of a feature, `deprecated/v1` its version v1, and
 * `deprecated/` the default version. Their values say what to use instead.
 */
const DEPRECATED = "deprecated";
const LABEL_KEY_CHARS_MAX = 63;
const ownLabel = (feature, key) => (Object.hasOwn(feature.labels, key) ? feature.labels[key] : undefined);

/** The label that deprecates a version, or without one the whole feature. */
export const deprecationLabel = (version) => (version === undefined ? DEPRECATED : `${DEPRECATED}/${version}`);
export const isDeprecation = (key) => key === DEPRECATED || key.startsWith(`${DEPRECATED}/`);
/** Why a version cannot be marked; null if it can. */
export const deprecationError = (version = "") =>
  deprecationLabel(version).length > LABEL_KEY_CHARS_MAX ? "The version's name is too long for a label." : null;
/** The note of a deprecated feature, or of one version; undefined if that is not deprecated. */
export const deprecationOf = (feature, version) => ownLabel(feature, deprecationLabel(version));
/** The note of a deprecated version, by its own label or by the feature's label. */
export const deprecation = (feature, version) => deprecationOf(feature, version) ?? deprecationOf(feature);
export const deprecatedVersions = (feature) =>
  feature.versions.filter(({ version }) => deprecation(feature, version) !== undefined);

/** All features, page by page, up to FEATURES_MAX. `onSome` gets the features so far. */
export async function loadFeatures(filter, onSome, signal) {
  const features = [];
  let token;
  do {
    const { data } = await get("/v1/features", { ...filter, page_size: 1000, page_token: token }, { signal });
    features.push(...data.features);
    token = data.next_page_token;
    onSome([...features], Boolean(token));
  } while (token && features.length < FEATURES_MAX);
  return { features, more: Boolean(token) };
}

export const loadFeature = async (entityType, name, signal) => {
  const { data, etag } = await get(featurePath(entityType, name), {}, { signal });
  return { feature: data, etag };
};

/**
 * The feature with a title, from the server; null if there is none, and undefined if the caller may not know. A title
 * does not show at which of its dots the name begins.
 */
export async function findFeature(title, signal) {
  for (const { index } of title.matchAll(/\./g)) {
    const [type, name] = [title.slice(0, index), title.slice(index + 1)];
    if (nameError(type) || nameError(name)) continue;
    try {
      return (await loadFeature(type, name, signal)).feature;
    } catch (problem) {
      if (problem.status === 403) return undefined;
      if (problem.code !== "feature_not_found") throw problem;
    }
  }
  return null;
}

export const createFeature = (input) => call("POST", "/v1/features", { body: input });
export const changeFeature = (entityType, name, patch, etag) =>
  call("PATCH", featurePath(entityType, name), { body: patch, headers: { "If-Match": etag } });

const NAME = /^[A-Za-z0-9_.-]+$/;
const LABEL = /^[A-Za-z0-9_./:-]*$/;

/** What the server would say of a name; null if it is fine. */
export function nameError(text) {
  if (!text) return "Required.";
  if (text.length > 128) return `At most 128 characters are allowed; this has ${text.length}.`;
  if (text === "." || text === "..") return "It must not be . or ..";
  return NAME.test(text) ? null : "Only letters A–Z and a–z, digits, and _ . - are allowed.";
}

export function versionError(text) {
  if (!text) return "Required: the version without a label is the default version, which already exists.";
  if (text.length > 64) return `At most 64 characters are allowed; this has ${text.length}.`;
  if (text === "." || text === "..") return "It must not be . or ..";
  return LABEL.test(text) ? null : "Only letters A–Z and a–z, digits, and _ . / : - are allowed.";
}

export const textError = (text, max) =>
  text.length > 2 * max ? `At most ${max} characters are allowed.`
    : [...text].length > max ? `At most ${max} characters are allowed; this has ${[...text].length}.`
    : text.includes("\0") ? "It must not contain NUL." : null;

/** Labels as they are written in a field: one key=value a line. */
export const labelsText = (labels) => Object.entries(labels).map(([key, value]) => `${key}=${value}`).join("\n");

export function readLabels(text) {
  const labels = {};
  for (const line of text.split("\n").map((line) => line.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    const key = (at < 0 ? line : line.slice(0, at)).trim();
    const value = at < 0 ? "" : line.slice(at + 1).trim();
    if (!key || [...key].length > 63) return { error: `"${key.slice(0, 70)}": a key must have 1 to 63 characters.` };
    if ([...value].length > 255) return { error: `"${key}": a value must have at most 255 characters.` };
    if (Object.hasOwn(labels, key)) return { error: `Duplicate label "${key}".` };
    labels[key] = value;
  }
  if (Object.keys(labels).length > 64) return { error: "At most 64 labels are allowed." };
  return { labels };
}
