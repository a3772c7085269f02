// Explains why an item is missing.

import { html, useState } from "../lib/html.js";
import { readMoment } from "../lib/format.js";
import { explain } from "../lib/missing.js";
import { readValue } from "../lib/values.js";
import { Button, Notice, TextField, Trouble } from "../ui/parts.js";
import { useTask } from "../ui/use.js";
import { ValueField } from "./list_changes.js";

export function WhyMissing({ list, feature, ttl, isKeyed }) {
  const [at, setAt] = useState("");
  const [value, setValue] = useState(feature.value_type === "bool" ? "true" : "");
  const [key, setKey] = useState("");
  const [verdict, setVerdict] = useState(null);
  const task = useTask();
  const moment = readMoment(at);
  const read = value ? readValue(feature.value_type, value) : {};
  const ask = (event) => {
    event.preventDefault();
    task.run(async () => setVerdict(await explain(list, feature, ttl, moment.ns, read.json, isKeyed && key ? key : undefined)));
  };
  return html`
    <details class="card missing">
      <summary><h2>Why is an item missing?</h2></summary>
      <form class="choice-row" onSubmit=${ask} novalidate aria-label="Find a missing item">
        <${TextField} label="Time of the item" value=${at} onInput=${setAt} error=${moment.error}
          placeholder="2024-08-29 16:44:05" hint="As exact as you know it, or -3d. UTC if it has no zone."/>
        ${isKeyed && html`<${TextField} label="Its key, if you know it" value=${key} onInput=${setKey}/>`}
        <${ValueField} label="Its value, if you know it" type=${feature.value_type} value=${value} onInput=${setValue}
          error=${value && read.error}/>
        <${Button} type="submit" kind="primary" disabled=${task.busy || !at || moment.error || read.error}>Find out</${Button}>
      </form>
      <${Trouble} problem=${task.problem}/>
      ${verdict && html`<div aria-live="polite"><${Notice} kind=${verdict.kind} title=${verdict.title}>
        ${verdict.points.map((point) => html`<p>${point}</p>`)}</${Notice}></div>`}
    </details>`;
}
