// Why an item is not there, as far as can be told from outside.

import { html, useState } from "../lib/html.js";
import { dayTime, nanos, nowNanos, readMoment, readTtl, relative, rfc3339, span, ttlWords } from "../lib/format.js";
import { parse } from "../lib/api.js";
import { getItems } from "../lib/lists.js";
import { readValue, valueJson } from "../lib/values.js";
import { Button, Notice, TextField, Trouble } from "../ui/parts.js";
import { useTask } from "../ui/use.js";
import { ValueField } from "./list_changes.js";

const LOOKED_AT = 1000;

export function WhyMissing({ list, feature, ttl }) {
  const [at, setAt] = useState("");
  const [value, setValue] = useState(feature.value_type === "bool" ? "true" : "");
  const [verdict, setVerdict] = useState(null);
  const task = useTask();
  const moment = readMoment(at);
  const read = value ? readValue(feature.value_type, value) : {};
  const ask = (event) => {
    event.preventDefault();
    task.run(async () => setVerdict(await explain(list, feature, ttl, moment.ns, read.json)));
  };
  return html`
    <details class="card missing">
      <summary><h2>Why is an item missing?</h2></summary>
      <form class="choice-row" onSubmit=${ask} novalidate aria-label="Ask after an item">
        <${TextField} label="When it happened" value=${at} onInput=${setAt} error=${moment.error}
          placeholder="2024-08-29T16:44:05Z" hint="As exactly as you know it, or -3d."/>
        <${ValueField} label="Its value, if you know it" type=${feature.value_type} value=${value} onInput=${setValue}
          error=${value && read.error}/>
        <${Button} type="submit" kind="primary" disabled=${task.busy || !at || moment.error || read.error}>Find out</${Button}>
      </form>
      <${Trouble} problem=${task.problem}/>
      ${verdict && html`<div aria-live="polite"><${Notice} kind=${verdict.kind} title=${verdict.title}>
        ${verdict.points.map((point) => html`<p>${point}</p>`)}</${Notice}></div>`}
    </details>`;
}

const SECOND = 1000000000n;
const around = (ns, by) =>
  ({ min_timestamp: rfc3339(ns > by ? ns - by : 0n), max_timestamp: rfc3339(ns + by), limit: LOOKED_AT });

async function explain(list, feature, ttl, ns, json) {
  const { secs } = readTtl(ttl);
  const end = Number(ns / 1000000n) + secs * 1000;
  const now = nowNanos();
  if (end <= Number(now / 1000000n)) {
    return { kind: "warn", title: `It has expired, ${relative(end)}.`, points: [
      `The time to live is ${ttlWords(ttl)}: an item of ${dayTime(Number(ns / 1000000n))} counted until ${dayTime(end)}.`,
      "A longer time to live brings it back only as long as the store has not given its space back, and not beyond the " +
        "expiry that it was stored with.",
    ] };
  }
  const query = around(ns, SECOND);
  const near = (await getItems(list, query)).items;
  const wanted = json === undefined ? null : canonical(parse(json));
  const isWanted = (item) => wanted === null || canonical(item.value) === wanted;
  // Who knows the value may remember the time less exactly.
  const looked = near.some(isWanted) || wanted === null ? near : (await getItems(list, around(ns, 600n * SECOND))).items;
  const off = (item) => { const by = nanos(item.timestamp) - ns; return by < 0n ? -by : by; };
  const same = looked.filter(isWanted).sort((a, b) => (off(a) < off(b) ? -1 : 1));
  if (same.length) {
    const secs = Number(off(same[0]) / 1000000n) / 1000;
    return { kind: "good", title: secs === 0 ? "It is there." : `It is there, ${span(secs)} from that time.`, points: [
      `It has the time ${same[0].timestamp}, and counts until ${dayTime(end)}.`,
      "A reader that does not see it asks for fewer items than stand before it (limit), between other times, of another " +
        "version, or of another entity ID.",
    ] };
  }
  const others = feature.versions.filter(({ version }) => version !== list.version);
  const elsewhere = [];
  for (const { version } of others.slice(0, 20)) {
    const found = (await getItems({ ...list, version }, query)).items;
    if (found.some(isWanted)) elsewhere.push(version || "default");
  }
  if (elsewhere.length) {
    return { kind: "warn", title: `It is in another version: ${elsewhere.join(", ")}.`, points: [
      "Whoever adds and whoever reads must name the same version." ] };
  }
  return { kind: "warn", title: "It is not stored, though it would not have expired.", points: [
    near.length ? `${near.length} other items are within a second of that time, with other values.`
      : "No item is within a second of that time.",
    "It was never added, was removed by its value or with the whole list, was added under another time or entity ID, was " +
      "already expired by a shorter time to live of then, or belongs to the feature as it was before a deletion.",
    "The feature's history tells of changes of the time to live and of deletions.",
  ] };
}

/** Equal JSON as equal texts. */
const canonical = (value) => {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value && typeof value === "object") {
    return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(",")}}`;
  }
  return valueJson(value);
};
