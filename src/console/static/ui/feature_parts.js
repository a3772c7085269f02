// Parts of features on several pages: labels, TTLs, differences, and the trail of changes.

import { html } from "../lib/html.js";
import { BUCKETS, IDENTITIES, KEEPS, isDeprecation, labelsText } from "../lib/features.js";
import { day, readTtl, ttlWords, dayTime } from "../lib/format.js";
import { Badge, SelectField, TextField, Time } from "./parts.js";
import { PROPERTIES } from "./properties.js";

/** `isBrief` omits the deprecation, which is shown separately. */
export const Labels = ({ labels, max = 64, isBrief }) => {
  const all = Object.entries(labels).filter(([key]) => !isBrief || !isDeprecation(key));
  if (!all.length) return null;
  return html`
    <ul class="labels" aria-label="Labels">
      ${all.slice(0, max).map(([key, value]) => html`
        <li><bdi>${key}</bdi>${value && html`<span class="muted">=</span><bdi>${value}</bdi>`}</li>`)}
      ${all.length > max && html`<li>+${all.length - max}</li>`}
    </ul>`;
};

const COMMON_TTLS = ["1d", "7d", "30d", "90d", "365d"];

const ITEM = { about: "How long an item is visible after its timestamp", now: "An item added now" };
/** The texts about a TTL of bags. */
export const BAG = { about: "How long a bag is stored after its last change", now: "A bag changed now" };

/** A TTL in words, and its effect on an item of now. */
export function TtlField({ value, onInput, label = "Time to live", what = ITEM, error, required, now = Date.now() }) {
  const read = readTtl(value);
  const hint = read.error ? `${what.about}: 30d, 12h, 1d12h.`
    : `${ttlWords(value)}. ${what.now} is visible until ${dayTime(now + read.secs * 1000)}.`;
  return html`
    <div class="ttl-field">
      <${TextField} label=${label} value=${value} onInput=${onInput} hint=${hint} required=${required}
        error=${error ?? (value ? read.error : null)} placeholder="30d" inputmode="text"/>
      <div class="chips" role="group" aria-label="Common times to live">
        ${COMMON_TTLS.map((ttl) => html`
          <button type="button" class="chip" aria-pressed=${value === ttl} onClick=${() => onInput(ttl)}>${ttl}</button>`)}
      </div>
    </div>`;
}

export const LabelsField = ({ value, onInput, error }) => html`
  <${TextField} label="Labels" area mono rows="3" value=${value} onInput=${onInput} error=${error}
    placeholder=${"team=ranking\nstage=production"} hint="One key=value per line, to find features. At most 64."/>`;

/** The choice of an identity, for new features and versions. An identity cannot be changed. */
export const IdentityChoice = ({ draft, onChange }) => html`
  <div class="columns">
    <${SelectField} label="Identity" value=${draft.identity} onChange=${(identity) => onChange({ identity })}
      hint=${`${IDENTITIES[draft.identity][1]} Cannot be changed.`}
      options=${Object.entries(IDENTITIES).map(([identity, [title]]) => [identity, title])}/>
    ${draft.identity !== "item" && html`
      <${SelectField} label="Kept item" value=${draft.keep} onChange=${(keep) => onChange({ keep })} options=${Object.entries(KEEPS)}/>`}
    ${draft.identity === "item" && draft.bucket !== undefined && html`
      <${SelectField} label="Bucket" value=${draft.bucket} onChange=${(bucket) => onChange({ bucket })} options=${Object.entries(BUCKETS)}
        hint="For long lists on ScyllaDB and Cassandra: a partition for each period. Cannot be changed."/>`}
  </div>`;

/** More than any definition has. The server refuses longer texts, so they are not drawn. */
const CHARS_SHOWN = 20000;

const shown = (name, value) => {
  if (value === undefined || value === null || value === "") return html`<em class="muted">nothing</em>`;
  if (name === "labels") return html`<bdi>${labelsText(value).slice(0, CHARS_SHOWN) || "none"}</bdi>`;
  if (Array.isArray(value)) return value.length ? value.join(", ") : html`<em class="muted">none</em>`;
  if (name === "ttl") return html`${value} <span class="muted">${ttlWords(value)}</span>`;
  if (/_at$/.test(name) && typeof value === "string") return html`<${Time} at=${value} kind="absolute"/>`;
  return html`<bdi>${(typeof value === "object" ? JSON.stringify(value) : String(value)).slice(0, CHARS_SHOWN)}</bdi>`;
};

const TITLES = {
  ttl: "Time to live", ...Object.fromEntries(PROPERTIES.map(({ name, field }) => [name, field.label])), identity: "Identity", keep: "Kept item", bucket: "Bucket", description: "Description", owner: "Owner", labels: "Labels", value_type: "Value type",
  entity_type: "Entity type", name: "Name", version: "Version", versions: "Versions", roles: "Roles", scopes: "Scopes",
  properties: "Found by", order_by: "Ordered by", expires_at: "Expires", revoked_at: "Revoked", rotated_at: "Rotated",
};
export const fieldTitle = (name) => TITLES[name] ?? name.replaceAll("_", " ");

const SILENT = new Set(["created_at", "updated_at", "versions", "created_by", "id", "hash", "state", "last_used_at",
  "previous_secret_until"]);
const isSame = (a, b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null);
const isNothing = (value) =>
  value === undefined || value === null || value === "" || (typeof value === "object" && !Object.keys(value).length);

/** The fields in which two states differ: [name, removed part, added part, whole afterwards]. */
export function differences(before, after) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  return names
    .filter((name) => !SILENT.has(name) && !isSame(before?.[name], after?.[name]))
    .filter((name) => !(isNothing(before?.[name]) && isNothing(after?.[name])))
    .map((name) => name === "labels" && before?.labels && after?.labels
      ? [name, others(before.labels, after.labels), others(after.labels, before.labels), after.labels]
      : [name, before?.[name], after?.[name], after?.[name]]);
}

/** The labels that differ from another set. */
const others = (labels, than) => Object.fromEntries(Object.entries(labels).filter(([key, value]) => than[key] !== value));

/** Differences, each field with its removed and its added part. */
export const Differences = ({ changes, label = "Changes" }) => html`
  <dl class="diff" aria-label=${label}>
    ${changes.map(([name, before, after]) => html`
      <div>
        <dt>${fieldTitle(name)}</dt>
        <dd>
          ${!isNothing(before) && html`<del><span class="unseen">before: </span>${shown(name, before)}</del>`}
          ${!isNothing(after)
            ? html`<ins><span class="unseen">after: </span>${shown(name, after)}</ins>`
            : name !== "labels" && html`<ins class="gone">nothing</ins>`}
        </dd>
      </div>`)}
  </dl>`;

const ACTIONS = {
  create_feature: ["created the feature", "good"], update_feature: ["changed the feature", ""],
  delete_feature: ["deleted the feature", "bad"], create_version: ["created the version", "good"],
  update_version: ["changed the version", ""], delete_version: ["deleted the version", "bad"],
  create_entity_type: ["created the entity type", "good"], update_entity_type: ["changed the entity type", ""],
  delete_entity_type: ["deleted the entity type", "bad"],
  create_index: ["created the index", "good"], update_index: ["finished the build of the index", "good"],
  delete_index: ["deleted the index", "bad"],
  create_key: ["created the key", "good"], rotate_key: ["rotated the key", ""], revoke_key: ["revoked the key", "bad"],
  purge: ["started a purge of", "bad"], erase_entity: ["erased", "bad"],
  resize_pool: ["resized the", ""], change_log: ["changed the", ""], create_backup: ["created a", "good"],
  restore_backup: ["restored from a", "good"],
  clean_indexes: ["started to clean indexes of", ""], update_job: ["changed the rate of", ""],
  pause_job: ["paused", ""], resume_job: ["resumed", ""], cancel_job: ["cancelled", "bad"],
};

const CREATED = "Initial values";
const isCreation = ({ action }) => action.startsWith("create_");

/** Changes, newest first, by day. */
export function Trail({ changes, target }) {
  let last = "";
  return html`
    <ol class="trail">
      ${changes.map((change) => {
        const [words, kind] = ACTIONS[change.action] ?? [change.action.replaceAll("_", " "), ""];
        const of = day(new Date(change.at.slice(0, 23) + "Z").getTime());
        const heading = of === last ? null : html`<li class="day"><h2>${of}</h2></li>`;
        last = of;
        const isUpdate = change.before && change.after;
        const changes = isUpdate ? differences(change.before, change.after)
          : change.after ? differences({}, change.after) : [];
        return html`
          ${heading}
          <li class=${`change ${kind}`}>
            <p>
              <strong class="who-did"><bdi>${change.by}</bdi></strong>
              ${change.on_behalf_of && html` <span class="muted">for <bdi>${change.on_behalf_of}</bdi></span>`}
              ${" "}${words}
              ${change.version !== undefined && html` <${Badge}>${change.version || "default"}</${Badge}>`}
              ${change.index !== undefined && html` <${Badge}>${change.index}</${Badge}>`}
              ${target && change.target && html` <strong><bdi>${change.target}</bdi></strong>`}
              ${" "}<span class="muted when"><${Time} at=${change.at} kind="absolute"/></span>
            </p>
            ${isUpdate && !changes.length && change.action !== "update_index" && html`<p class="muted">No fields changed.</p>`}
            ${changes.length > 0 && (isUpdate
              ? html`<${Differences} changes=${changes}/>`
              : html`<details><summary>${isCreation(change) ? CREATED : "Details"}</summary>
                  <${Differences} changes=${changes} label=${isCreation(change) ? CREATED : "Details"}/></details>`)}
          </li>`;
      })}
    </ol>`;
}

/** The immediate effect of a changed TTL, in words; null if there is none. */
export function ttlConsequence(before, after) {
  const [old, next] = [readTtl(before).secs, readTtl(after).secs];
  if (!old || !next || old === next) return null;
  return next < old
    ? html`Items older than <strong>${ttlWords(after)}</strong> are hidden immediately, and their space is reclaimed
        later. Extending it again restores only items whose space has not been reclaimed.`
    : html`Items are visible longer from now on. Items stored with the shorter time to live may still expire earlier.`;
}
