// A schema for people: each field with its type, its bounds and its meaning.

import { html, useState } from "../lib/html.js";
import { resolve } from "../lib/document.js";

const DEPTH_MAX = 8;

export function Schema({ document, schema, isBrief, depth = 0 }) {
  const whole = resolve(document, schema);
  if (isBrief) return html`<p class="fine">${typeOf(document, whole)}${boundsOf(whole)}</p>`;
  const of = whole.type === "array" ? resolve(document, whole.items) : whole;
  const fields = Object.entries(of.properties ?? {});
  return html`
    ${whole.description && depth === 0 && html`<p class="fine">${whole.description}</p>`}
    ${!fields.length && html`<p class="fine">${typeOf(document, whole)}${boundsOf(whole)}</p>`}
    <ul class="schema">
      ${fields.map(([name, field]) => html`
        <${Member} key=${name} name=${name} schema=${field} isRequired=${of.required?.includes(name)} document=${document}
          depth=${depth}/>`)}
    </ul>`;
}

function Member({ name, schema, isRequired, document, depth }) {
  const [isOpen, setOpen] = useState(false);
  const whole = resolve(document, schema);
  const inner = whole.type === "array" ? resolve(document, whole.items) : whole;
  const hasMore = Object.keys(inner?.properties ?? {}).length > 0 && depth < DEPTH_MAX;
  const description = schema.description ?? whole.description;
  return html`
    <li>
      <span class="field-name">${name}</span>
      <span class="fine"> ${typeOf(document, whole)}${boundsOf(whole)}${isRequired ? "" : ", optional"}</span>
      ${description && html`<p class="fine">${description}</p>`}
      ${hasMore && html`
        <details open=${isOpen} onToggle=${(event) => setOpen(event.target.open)}><summary class="fine">Its fields</summary>
          ${isOpen && html`<${Schema} document=${document} schema=${whole} depth=${depth + 1}/>`}</details>`}
    </li>`;
}

function typeOf(document, schema) {
  if (!schema) return "any JSON";
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.type === "array") return `list of ${typeOf(document, resolve(document, schema.items))}`;
  const either = schema.oneOf ?? schema.anyOf;
  if (either) return either.map((one) => typeOf(document, resolve(document, one))).join(" or ");
  const type = Array.isArray(schema.type) ? schema.type.join(" or ") : schema.type;
  return schema.format ? `${type ?? "any JSON"} (${schema.format})` : type ?? "any JSON";
}

function boundsOf(schema = {}) {
  const said = [];
  const between = (low, high, what) =>
    low !== undefined && low === high ? said.push(`${low}${what}`)
      : low !== undefined && high !== undefined ? said.push(`${low}–${high}${what}`)
      : low !== undefined ? said.push(`at least ${low}${what}`)
      : high !== undefined && said.push(`at most ${high}${what}`);
  between(schema.minimum, schema.maximum, "");
  between(schema.minLength, schema.maxLength, " characters");
  between(schema.minItems, schema.maxItems, " members");
  if (schema.default !== undefined) said.push(`default ${JSON.stringify(schema.default)}`);
  return said.length ? `, ${said.join(", ")}` : "";
}

/** A value that fits a schema, to begin with: its example, if it has one. */
export function exampleOf(document, schema, depth = 0) {
  const whole = resolve(document, schema);
  const given = whole.example ?? whole.examples?.[0] ?? whole.default;
  if (given !== undefined) return given;
  if (whole.enum) return whole.enum[0];
  if (depth > DEPTH_MAX) return null;
  if (whole.properties) {
    return Object.fromEntries(Object.entries(whole.properties)
      .filter(([name]) => whole.required?.includes(name))
      .map(([name, field]) => [name, exampleOf(document, field, depth + 1)]));
  }
  if (whole.type === "array") return [exampleOf(document, whole.items, depth + 1)];
  return { integer: 1, number: 1, boolean: true, object: {} }[whole.type] ?? "";
}
