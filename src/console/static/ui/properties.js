// The optional properties of versions that can be changed: one row for each, for all pages.

import { html } from "../lib/html.js";
import { takesField } from "../lib/document.js";
import { aheadMaxError, maxItemsError } from "../lib/features.js";
import { group, ttlWords } from "../lib/format.js";
import { TextField } from "./parts.js";
import { useLoad } from "./use.js";

const muted = (words) => html`<span class="muted">${words}</span>`;
/** How far timestamps may be ahead, in words. */
const aheadWords = (ahead) => (ahead === "none" ? "any time" : `${ttlWords(ahead)} at most`);

/**
 * `read` makes the value of a text, `error` explains an invalid text, and `option` sets it on the command line.
 * `title` labels the output of `cell` in a table of versions, and the output of `fact` on a feature's page.
 */
export const PROPERTIES = [
  {
    name: "max_items", option: "--max-items", read: Number, error: maxItemsError, title: "At most",
    field: { label: "Maximum items per list", inputmode: "numeric", placeholder: "all",
      hint: "Only this many newest items are shown. Default: all unexpired items." },
    cell: (max) => (max ? `${group(max)} items of a list` : muted("all")),
    fact: (max) => html`<strong>${group(max)}</strong> items of a list are shown, the newest`,
  },
  {
    name: "timestamp_ahead_max", option: "--timestamp-ahead-max", read: String, error: aheadMaxError, title: "Timestamps ahead",
    field: { label: "Timestamps ahead, at most", placeholder: "as the server is set",
      hint: "An item whose time is further ahead of the server's clock is refused: 12h, 1d, or none for any time." },
    cell: (ahead) => (ahead ? aheadWords(ahead) : muted("as the server is set")),
    fact: (ahead) => html`<strong>${aheadWords(ahead)}</strong>, by the server's clock`,
  },
];

const of = (each) => Object.fromEntries(PROPERTIES.map((property) => [property.name, each(property)]));

/** The properties of a definition as texts. */
export const drafted = (definition) => of(({ name }) => String(definition[name] ?? ""));

/** The properties that texts stand for; null for none. */
export const readDraft = (draft) => of(({ name, read }) => (draft[name] ? read(draft[name]) : null));

export const errorsOf = (draft) => of(({ name, error }) => error(draft[name]));

/** The properties that an operation of the server takes, once they are known. */
export const useTaken = (operation) => useLoad(async () => {
  const taken = await Promise.all(PROPERTIES.map(({ name }) => takesField(operation, name)));
  return PROPERTIES.filter((_, i) => taken[i]);
}, []).data;

/** `field` gives a field's value, error and handlers by its name. */
export const PropertyFields = ({ taken = [], field }) =>
  taken.map((property) => html`<${TextField} key=${property.name} ...${property.field} ...${field(property.name)}/>`);
