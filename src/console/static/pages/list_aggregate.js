// Counts, sums and other aggregates of a list in windows of time, with a bar for each window.

import { html, useState } from "../lib/html.js";
import { call } from "../lib/api.js";
import { dayTime, group, millisOf, readMoment, readTtl, rfc3339 } from "../lib/format.js";
import { itemsPath } from "../lib/lists.js";
import { curl } from "../lib/shell.js";
import { Badge, Button, Copy, SelectField, TextField, Trouble } from "../ui/parts.js";
import { Value } from "../ui/value.js";
import { useTask } from "../ui/use.js";

const FUNCTIONS = {
  count: "count of items", count_distinct: "count of different values", sum: "sum", mean: "mean", min: "minimum", max: "maximum",
  stddev: "standard deviation", first: "oldest value", last: "newest value", top: "most frequent values",
};
const NUMERIC = new Set(["sum", "mean", "min", "max", "stddev"]);
const NUMBERS = new Set(["int64", "double", "json"]);
const WINDOWS_MAX = 16;
/** The names of the aggregates in the request and its answer. */
const NAME = "result";
const COUNTED = "counted";
/** Functions whose result may be a null that an item has. A count distinguishes it from no result. */
const MAY_BE_NULL = new Set(["first", "last"]);
const REASONS = {
  ttl: "Not complete: older items have expired.", max_items: "Not complete: the list shows only its newest items.",
  items_max: "Not complete: the server reads a limited number of items.",
};

/** The windows of a text such as "10m, 1h, 1d", or an error. */
function readWindows(text) {
  const windows = text.split(/[\s,]+/).filter(Boolean);
  const wrong = windows.find((window) => readTtl(window).error);
  if (!windows.length) return { error: "Required: a duration such as 1h." };
  if (windows.length > WINDOWS_MAX) return { error: `At most ${WINDOWS_MAX}.` };
  return wrong ? { error: `"${wrong.slice(0, 40)}" is no duration such as 10m, 1h or 7d.` } : { windows };
}

export function Aggregate({ list, feature }) {
  const [draft, setDraft] = useState({ windows: "10m, 1h, 1d, 7d", name: "count", property: "", asOf: "" });
  const [answer, setAnswer] = useState(null);
  const task = useTask();
  const set = (name) => (value) => setDraft((now) => ({ ...now, [name]: value }));
  const isJson = feature.value_type === "json";
  const windows = readWindows(draft.windows);
  const asOf = readMoment(draft.asOf);
  const property = isJson ? draft.property : "";
  const errors = { property: property && !property.startsWith("/") ? 'A path begins with "/", such as /amount.' : null };
  const isFine = !windows.error && !asOf.error && !errors.property;
  const body = {
    windows: windows.windows, ...(asOf.ns && { as_of: rfc3339(asOf.ns) }),
    aggregates: [
      { name: NAME, function: draft.name, ...(property && { property }) },
      ...(MAY_BE_NULL.has(draft.name) ? [{ name: COUNTED, function: "count", ...(property && { property }) }] : []),
    ],
  };
  const path = `${itemsPath(list)}:aggregate`;
  const query = { version: list.version || undefined };
  const ask = (event) => {
    event.preventDefault();
    if (isFine) task.run(async () => setAnswer({ ...(await call("POST", path, { query, body })).data, name: draft.name }));
  };
  const functions = Object.entries(FUNCTIONS).filter(([name]) => NUMBERS.has(feature.value_type) || !NUMERIC.has(name));
  return html`
    <details class="card aggregate">
      <summary><h2>Aggregate</h2></summary>
      <form onSubmit=${ask} novalidate aria-label="Aggregate the list">
        <div class="find-row aggregate-fields">
          <${TextField} label="Windows" value=${draft.windows} onInput=${set("windows")} error=${windows.error}
            hint="Durations up to the end, such as 10m, 1h, 1d."/>
          <${SelectField} label="Function" value=${draft.name} onChange=${set("name")} options=${functions}/>
          ${isJson && html`<${TextField} label="Property" value=${draft.property} onInput=${set("property")} error=${errors.property}
            placeholder="/amount" hint="A path into the values. Default: the value itself."/>`}
          <${TextField} label="End" value=${draft.asOf} onInput=${set("asOf")} error=${asOf.error} placeholder="now"
            hint="A date or time, or -1d. UTC if it has no zone. Default: now."/>
        </div>
        <div class="actions">
          <${Button} type="submit" kind="primary" disabled=${task.busy || !isFine}>Aggregate</${Button}>
          ${isFine && html`<${Copy} text=${curl(path, query, { body: JSON.stringify(body) })} label="Copy the aggregation as curl">curl</${Copy}>`}
        </div>
      </form>
      <${Trouble} problem=${task.problem}/>
      <div aria-live="polite">${answer && html`<${Answer} answer=${answer} type=${feature.value_type}/>`}</div>
    </details>`;
}

const isNumber = (value) => typeof value === "number" || typeof value === "bigint";
const written = (value) => (typeof value === "bigint" || Number.isInteger(value) ? value.toLocaleString("en-GB") : String(value));

function Answer({ answer, type }) {
  const results = answer.windows.map(({ results }) => results[NAME]);
  const highest = Math.max(0, ...results.filter(isNumber).map((value) => Math.abs(Number(value))));
  return html`
    <table class="table aggregates cards-when-narrow">
      <caption class="unseen">${FUNCTIONS[answer.name]} by window</caption>
      <thead><tr><th scope="col">Window</th><th scope="col">Result</th><th scope="col"><span class="unseen">Bar</span></th></tr></thead>
      <tbody>${answer.windows.map((window, i) => html`
        <tr key=${i}>
          <td class="main-cell"><strong>${window.window}</strong>
            <div class="fine">from ${dayTime(millisOf(window.min_timestamp))} to ${dayTime(millisOf(window.max_timestamp))}</div>
            ${!window.complete && html`<${Badge} kind="warn">${REASONS[window.reason] ?? "Not complete."}</${Badge}>`}
            ${window.skipped > 0 && html`<div class="fine">${group(window.skipped)} items left out: no such value</div>`}</td>
          <td><${Result} value=${results[i]} type=${type} isTop=${answer.name === "top"} window=${window}/></td>
          <td class="bar-cell" aria-hidden="true">${isNumber(results[i]) && highest > 0
            && html`<span class="window-bar" style=${{ width: `${(Math.abs(Number(results[i])) / highest) * 100}%` }}/>`}</td>
        </tr>`)}</tbody>
    </table>
    <p class="fine">${group(answer.items_read)} items read, as of ${dayTime(millisOf(answer.as_of))}.</p>`;
}

function Result({ value, type, isTop, window }) {
  const none = () => html`<span class="muted">${window.skipped > 0 ? "no such value" : "no items"}</span>`;
  if (isTop && !value?.length) return none();
  if (isTop) {
    return html`<ol>${value.map((entry) => html`<li><${Value} type=${type} value=${entry.value}/> <span class="muted">${group(entry.count)}</span></li>`)}</ol>`;
  }
  if ((value === null || value === undefined) && !window.results[COUNTED]) return none();
  if (isNumber(value)) return html`<strong>${written(value)}</strong>`;
  return html`<${Value} type=${type} value=${value}/>`;
}
