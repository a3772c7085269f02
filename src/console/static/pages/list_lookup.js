// Looks up one member of a set: its time and its payload.

import { html, useState } from "../lib/html.js";
import { lookUp } from "../lib/lists.js";
import { readValue } from "../lib/values.js";
import { Button, Notice, TextField, Time, Trouble } from "../ui/parts.js";
import { Value } from "../ui/value.js";
import { useTask } from "../ui/use.js";
import { ValueField } from "./list_changes.js";

export function LookUp({ list, feature, isKeyed }) {
  const type = feature.value_type;
  const [text, setText] = useState(!isKeyed && type === "bool" ? "true" : "");
  const [found, setFound] = useState(undefined);
  const task = useTask();
  const read = isKeyed ? {} : readValue(type, text);
  const isEmpty = !text && (isKeyed || type !== "string");
  const ask = (event) => {
    event.preventDefault();
    if (!isEmpty && !read.error) task.run(async () => setFound(await lookUp(list, isKeyed ? { key: text } : { valueText: read.json })));
  };
  return html`
    <form class="card lookup" onSubmit=${ask} novalidate aria-label=${isKeyed ? "Look up a key" : "Look up a value"}>
      <div class="choice-row">
        ${isKeyed ? html`<${TextField} label="Key to look up" value=${text} onInput=${setText}/>`
          : html`<${ValueField} label="Value to look up" type=${type} value=${text} onInput=${setText} error=${text && read.error}/>`}
        <${Button} type="submit" disabled=${task.busy || isEmpty || read.error}>Look up</${Button}>
      </div>
      <${Trouble} problem=${task.problem}/>
      <div aria-live="polite">
        ${found === null && html`<${Notice} kind="warn" title="It is not in the list."/>`}
        ${found && html`<${Notice} kind="good" title="It is in the list."><p><${Time} at=${found.timestamp}/></p>
          ${isKeyed && html`<div><${Value} type=${type} value=${found.value}/></div>`}</${Notice}>`}
      </div>
    </form>`;
}
