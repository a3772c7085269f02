// The pool of list actors of this server: its size, and how to change it.

import { html, useState } from "../lib/html.js";
import { call, get } from "../lib/api.js";
import { group } from "../lib/format.js";
import { refusal } from "../lib/session.js";
import { Badge, Button, Dialog, Notice, TextField, Trouble, say } from "../ui/parts.js";
import { useLoad, useTask } from "../ui/use.js";

const KINDS = { live: "good", starting: "warn", replacing: "warn", failed: "bad", stopped: "bad" };
const wanted = (text, max) => (/^\d{1,7}$/.test(text) && Number(text) >= 1 && Number(text) <= max ? null : `From 1 to ${group(max)}.`);

export function Pool() {
  const loaded = useLoad(async (signal) => (await get("/v1/pool", {}, { signal })).data, []);
  const [isOpen, setOpen] = useState(false);
  const pool = loaded.data;
  // If administration has a separate address, the pool is available there.
  if (loaded.problem?.status === 404) return null;
  if (!pool) return html`<${Trouble} problem=${loaded.problem} onRetry=${loaded.again}/>`;
  const states = [...new Set(pool.states)].map((state) => [state, pool.states.filter((one) => one === state).length]);
  return html`
    <section class="card" aria-label="Pool of list actors">
      <div class="card-head">
        <div><h2>Pool of list actors</h2>
          <p class="muted">${group(pool.actors)} actors of this server, with ${group(pool.permits_per_actor)} permits each
            ${" "}${states.map(([state, count]) => html`<${Badge} kind=${KINDS[state]}>${count} ${state}</${Badge}> `)}</p></div>
        <${Button} kind="small" refused=${refusal("pools:write")} onClick=${() => setOpen(true)}>Resize</${Button}>
      </div>
      ${pool.resizing_to && html`<${Notice} kind="warn"><p>Resizing to ${pool.resizing_to} actors.</p></${Notice}>`}
    </section>
    ${isOpen && html`<${Resize} pool=${pool} onClose=${() => setOpen(false)}
      onDone=${() => { setOpen(false); say("The pool was resized"); loaded.again(); }}/>`}`;
}

function Resize({ pool, onClose, onDone }) {
  const [actors, setActors] = useState(String(pool.actors));
  const [permits, setPermits] = useState(String(pool.permits_per_actor));
  const task = useTask();
  const errors = [wanted(actors, 1024), wanted(permits, 1000000)];
  const isSame = Number(actors) === pool.actors && Number(permits) === pool.permits_per_actor;
  const resize = () => task.run(async () => {
    await call("PUT", "/v1/pool", { body: { actors: Number(actors), permits_per_actor: Number(permits) } });
    onDone();
  });
  return html`
    <${Dialog} title="Resize the pool" onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Cancel</${Button}>
      <${Button} kind="primary" onClick=${resize} disabled=${task.busy || isSame || errors.some(Boolean)}
        >${task.busy ? "Resizing…" : "Resize"}</${Button}>`}>
      <p>Operations continue during the resize. Each actor has one thread and one session with the item store. A
        restart uses the settings again. Other servers are not affected.</p>
      <${TextField} label="Actors" value=${actors} onInput=${setActors} error=${errors[0]} inputmode="numeric"/>
      <${TextField} label="Permits per actor" value=${permits} onInput=${setPermits} error=${errors[1]} inputmode="numeric"
        hint="Maximum number of operations in flight per actor."/>
      <${Trouble} problem=${task.problem}/>
    </${Dialog}>`;
}
