// A new index: by which properties, and in which order.

import { html, useState } from "../lib/html.js";
import { versionError } from "../lib/features.js";
import { createIndex, creationAsCommand, pointerError, pointersError, readPointers, sampledPaths } from "../lib/indexes.js";
import { refusal } from "../lib/session.js";
import { Button, Command, Dialog, Field, TextField, Trouble } from "../ui/parts.js";
import { useLoad, useTask } from "../ui/use.js";

const CHARS_SHOWN = 30;
const nameError = (name) => (name ? versionError(name) : "Required.");

export function NewIndex({ type, indexes, onClose, onDone }) {
  const [name, setName] = useState("");
  const [properties, setProperties] = useState("");
  const [order, setOrder] = useState("");
  const task = useTask();
  const mayRead = !refusal("lists:read", type, "");
  // The paths that bags have are suggestions.
  const paths = useLoad((signal) => (mayRead ? sampledPaths(type, signal) : Promise.resolve([])), [type]).data ?? [];
  const pointers = readPointers(properties);
  const taken = indexes.some((index) => index.name === name && index.state !== "dropping") ? "This name is already in use." : null;
  const errors = { name: nameError(name) ?? taken, properties: pointersError(pointers), order_by: order ? pointerError(order) : null };
  const input = { name, properties: pointers, ...(order && { order_by: order }) };
  const serverError = (field) => (task.problem?.field?.startsWith(field) ? task.problem.detail : null);
  const create = () => task.run(async () => {
    await createIndex(type, input);
    onDone(`The index ${name} is being built`);
  });
  const toggle = (pointer) => setProperties((pointers.includes(pointer) ? pointers.filter((one) => one !== pointer) : [...pointers, pointer]).join("\n"));
  const isFine = !Object.values(errors).some(Boolean);
  return html`
    <${Dialog} title="New index" onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Cancel</${Button}>
      <${Button} kind="primary" onClick=${create} disabled=${task.busy || !isFine}>Create the index</${Button}>`}>
      <${TextField} label="Name" required value=${name} onInput=${setName} placeholder="by_city" error=${name ? errors.name : serverError("name")}/>
      <${TextField} label="Found by" required area mono rows="3" value=${properties} onInput=${setProperties} placeholder=${"/city\n/address/zip"}
        error=${properties ? errors.properties : serverError("properties")}
        hint="1 to 8 paths, one per line. A bag matches all of them together. Each element of an array is a value."/>
      ${paths.length > 0 && html`
        <div class="chips" role="group" aria-label="Properties in bags">${paths.map(([pointer, value]) => html`
          <button type="button" class="chip" title=${value.slice(0, 200)} aria-pressed=${pointers.includes(pointer)}
            onClick=${() => toggle(pointer)}><bdi>${pointer.slice(0, CHARS_SHOWN)}</bdi></button>`)}</div>`}
      <${Field} label="Ordered by" error=${order ? errors.order_by : serverError("order_by")}
        hint="A number or an RFC 3339 time. Bags without either are not in the index. Default: the time of the last update.">
        ${(ties) => html`<input class="input" type="text" list="orders" value=${order} placeholder="when they were updated" autocomplete="off"
            spellcheck=${false} onInput=${(event) => setOrder(event.target.value)} ...${ties}/>
          <datalist id="orders">${paths.filter(([, , isOrder]) => isOrder).map(([pointer]) => html`<option value=${pointer}/>`)}</datalist>`}
      </${Field}>
      <${Trouble} problem=${task.problem}/>
      ${isFine && html`<details><summary>The same on the command line</summary><${Command} label="command" text=${creationAsCommand(type, input)}/></details>`}
    </${Dialog}>`;
}
