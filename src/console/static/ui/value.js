// A value as it is: texts with invisible characters made visible, JSON folded, bytes as hex and text. Values come from
// any client: they are never read as markup.

import { html, useState } from "../lib/html.js";
import { group, visible } from "../lib/format.js";
import { Digits, isBranch } from "../lib/json.js";
import { bytesOf, hexRows, valueJson } from "../lib/values.js";

const CHARS_SHOWN = 240;
const CHARS_MORE = 20000;
const MEMBERS_SHOWN = 50;
const HEX_ROWS_SHOWN = 2;
const HEX_ROWS_MORE = 256;

/** `isOpen`: JSON of members is unfolded from the start. */
export function Value({ type, value, isOpen }) {
  if (type === "bytes" && typeof value === "string") return html`<${Bytes} base64=${value}/>`;
  if (type === "json") return html`<${Json} value=${value} isOpen=${isOpen}/>`;
  if (typeof value === "string") return html`<${Text} text=${value}/>`;
  return html`<span class=${`value ${typeof value}`}>${String(value)}</span>`;
}

function Text({ text }) {
  const [shown, setShown] = useState(CHARS_SHOWN);
  if (text === "") return html`<em class="muted">empty text</em>`;
  const isLong = text.length > shown;
  return html`
    <span class="value string"><bdi>${visible(text.slice(0, shown))}</bdi>${isLong && "…"}</span>
    ${isLong && html` <button type="button" class="more"
      onClick=${() => setShown(shown === CHARS_SHOWN ? CHARS_MORE : shown + CHARS_MORE)}>
      Show more of ${group(text.length)} characters</button>`}`;
}

function Bytes({ base64 }) {
  const [rows, setRows] = useState(HEX_ROWS_SHOWN);
  const bytes = bytesOf(base64);
  if (!bytes) return html`<${Text} text=${base64}/>`;
  if (!bytes.length) return html`<em class="muted">no bytes</em>`;
  return html`
    <div class="hex">
      ${hexRows(bytes, rows).map(({ offset, hex, text }) => html`
        <div><span class="muted" aria-hidden="true">${offset}</span><code>${hex}</code><code class="ascii">${text}</code></div>`)}
    </div>
    ${bytes.length > rows * 16 && html`<button type="button" class="more" onClick=${() => setRows(HEX_ROWS_MORE)}>
      Show more of ${group(bytes.length)} bytes</button>`}`;
}

/** One line, until it is opened. */
function Json({ value, isOpen }) {
  const isTree = isBranch(value) && Object.keys(value).length > 0;
  if (!isTree) return html`<code class="json"><${Leaf} value=${value}/></code>`;
  const line = valueJson(value);
  return html`
    <${Fold} isOpened=${isOpen} summary=${(isOpen) => isOpen ? html`<span class="muted">${count(value)}</span>`
      : html`<code class="json"><${Line} value=${value} room=${{ left: 110 }}/></code>`}>
      ${() => html`<div class="json tree"><${Members} value=${value}/></div>
        <p class="fine">${group(line.length)} characters</p>`}
    </${Fold}>`;
}

function count(value) {
  const { length } = Object.keys(value);
  return `${group(length)} ${Array.isArray(value) ? "element" : "member"}${length === 1 ? "" : "s"}`;
}

/** Hidden content is not drawn. */
function Fold({ summary, isOpened = false, children }) {
  const [isOpen, setOpen] = useState(isOpened);
  return html`
    <details class="fold" open=${isOpen} onToggle=${(event) => setOpen(event.target.open)}>
      <summary>${typeof summary === "function" ? summary(isOpen) : summary}</summary>${isOpen && children()}
    </details>`;
}

function Members({ value }) {
  const [shown, setShown] = useState(MEMBERS_SHOWN);
  const all = Array.isArray(value) ? value.map((member, i) => [i, member]) : Object.entries(value);
  const name = (key) => (Array.isArray(value) ? html`<span class="muted">${key}</span>`
    : html`<span class="key"><bdi>${visible(JSON.stringify(key)).slice(0, 200)}</bdi></span>`);
  return html`
    <ul>
      ${all.slice(0, shown).map(([key, member]) => html`
        <li>${isBranch(member) && Object.keys(member).length
          ? html`<${Fold} summary=${html`${name(key)}: <${Line} value=${member} room=${{ left: 60 }}/>`}>
              ${() => html`<${Members} value=${member}/>`}</${Fold}>`
          : html`<span class="leaf">${name(key)}: <${Leaf} value=${member}/></span>`}</li>`)}
    </ul>
    ${all.length > shown && html`<button type="button" class="more" onClick=${() => setShown(shown * 10)}>
      Show more of ${group(all.length)} members</button>`}`;
}

function Leaf({ value }) {
  if (typeof value === "string") {
    const text = visible(JSON.stringify(value));
    const [isWhole, setWhole] = useState(false);
    const isLong = text.length > CHARS_SHOWN && !isWhole;
    return html`<span class="string"><bdi>${isLong ? `${text.slice(0, CHARS_SHOWN)}…` : text.slice(0, CHARS_MORE)}</bdi></span>
      ${isLong && html` <button type="button" class="more" onClick=${() => setWhole(true)}>Show more</button>`}`;
  }
  const kind = value === null ? "null" : value instanceof Digits ? "number" : isBranch(value) ? "" : typeof value;
  return html`<span class=${kind}>${valueJson(value)}</span>`;
}

/** A value in one line. The part beyond its room is cut. */
function Line({ value, room }) {
  return html`${pieces(value, room)}`;
}

function pieces(value, room) {
  if (room.left <= 0) return "…";
  const take = (text, kind) => {
    const cut = text.length > room.left ? `${text.slice(0, Math.max(1, room.left))}…` : text;
    room.left -= text.length;
    return html`<span class=${kind}>${cut}</span>`;
  };
  if (typeof value === "string") return take(visible(JSON.stringify(value)), "string");
  if (!isBranch(value)) return take(valueJson(value), value === null ? "null" : value instanceof Digits ? "number" : typeof value);
  const all = Array.isArray(value) ? value.map((member) => [null, member]) : Object.entries(value);
  const drawn = [Array.isArray(value) ? "[" : "{"];
  room.left -= 2;
  for (const [i, [key, member]] of all.entries()) {
    const name = key === null ? "" : visible(JSON.stringify(key));
    if (i) drawn.push(", ");
    if (room.left <= (i && name.length)) {
      drawn.push("…");
      break;
    }
    if (name) drawn.push(take(name, "key"), ": ");
    drawn.push(pieces(member, room));
    room.left -= 2;
  }
  drawn.push(Array.isArray(value) ? "]" : "}");
  return drawn;
}
