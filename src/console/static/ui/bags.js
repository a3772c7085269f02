// Bags: the rows of a table, and the differences of two bags.

import { html } from "../lib/html.js";
import { pageOfEntity } from "../lib/entities.js";
import { dayTime, millisOf, readTtl, relative, visible } from "../lib/format.js";
import { isBranch, parseExact } from "../lib/json.js";
import { Time } from "./parts.js";
import { Value } from "./value.js";

const CHARS_SHOWN = 400;
const ORDER_CHARS_SHOWN = 24;

/** The value at a JSON Pointer; undefined if there is none. */
const at = (value, pointer) => pointer.split("/").slice(1).map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"))
  .reduce((value, token) => (isBranch(value) && Object.hasOwn(value, token) ? value[token] : undefined), value);

/** `order` is the pointer to the property of their order, which has a separate column. */
export const BagRows = ({ type, bags, order, caption }) => html`
  <table class="table items cards-when-narrow">
    <caption class="unseen">${caption}</caption>
    <thead><tr><th scope="col">Entity</th>
      ${order && html`<th scope="col"><bdi>${order.slice(0, ORDER_CHARS_SHOWN)}</bdi></th>`}<th scope="col">Bag</th><th scope="col">Updated</th></tr></thead>
    <tbody>${bags.map(({ id, text, updatedAt }) => [id, parseExact(text), updatedAt]).map(([id, bag, updatedAt]) => html`
      <tr key=${id}>
        <td class="main-cell"><a href=${pageOfEntity(type, id)}><bdi class="clip-id">${visible(id)}</bdi></a></td>
        ${order && html`<td class="nowrap" data-title=${order.slice(0, ORDER_CHARS_SHOWN)}><${Value} type="json" value=${at(bag, order) ?? null}/></td>`}
        <td class="value-cell"><${Value} type="json" value=${bag}/></td>
        <td class="nowrap" data-title="Updated"><${Time} at=${updatedAt} kind="relative"/></td>
      </tr>`)}</tbody>
  </table>`;

/** When a bag expires unless it is changed, by the TTL of its type. */
export const Expiry = ({ updatedAt, ttl }) => {
  const end = millisOf(updatedAt) + readTtl(ttl).secs * 1000;
  return html`<time datetime=${new Date(end).toISOString()}>${dayTime(end)} <span class="muted nowrap">· ${relative(end)}</span></time>`;
};

const shown = (text) => visible(text.length > CHARS_SHOWN ? `${text.slice(0, CHARS_SHOWN)}…` : text);

/** Changed members: [key, before, after]. */
export const BagDifferences = ({ changes, label }) => html`
  <dl class="diff" aria-label=${label}>
    ${changes.map(([key, before, after]) => html`
      <div key=${key}>
        <dt><code><bdi>${visible(JSON.stringify(key)).slice(0, CHARS_SHOWN)}</bdi></code></dt>
        <dd>${before !== undefined && html`<del><span class="unseen">before: </span><code><bdi>${shown(before)}</bdi></code></del>`}
          ${after !== undefined ? html`<ins><span class="unseen">after: </span><code><bdi>${shown(after)}</bdi></code></ins>`
            : html`<ins class="gone">removed</ins>`}</dd>
      </div>`)}
  </dl>`;
