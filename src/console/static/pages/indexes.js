// The indexes of an entity type: made, watched while they are built, and dropped.

import { html, useEffect, useState } from "../lib/html.js";
import { pageOfType } from "../lib/entities.js";
import { group } from "../lib/format.js";
import { creationAsCommand, dropIndex, loadIndexes } from "../lib/indexes.js";
import { cleanIndexes, isOver, loadJobs, tellJob } from "../lib/jobs.js";
import { refusal } from "../lib/session.js";
import { Badge, Button, Copy, Dialog, Empty, LinkButton, Loading, Notice, TextField, Time, Trouble, say } from "../ui/parts.js";
import { useLoad, useTask } from "../ui/use.js";
import { NewIndex } from "./index_new.js";

const EVERY_MS = 1000;
const STATES = { building: "warn", ready: "good", cancelled: "bad", dropping: "bad" };

export function Indexes({ type, refused }) {
  const [open, setOpen] = useState(null);
  const task = useTask();
  const loaded = useLoad(async (signal) => {
    const indexes = await loadIndexes(type, signal);
    // A running index change is a job, which may be paused.
    const jobs = indexes.some((index) => index.job_id) ? await loadJobs(signal) : [];
    return indexes.map((index) => ({ ...index, job: jobs.find(({ id }) => id === index.job_id) }));
  }, [type]);
  const indexes = loaded.data ?? [];
  const isBusy = indexes.some(({ state }) => state !== "ready");
  useEffect(() => {
    if (!isBusy) return undefined;
    const timer = setInterval(() => document.hidden || loaded.again(), EVERY_MS);
    return () => clearInterval(timer);
  }, [isBusy]);
  const close = () => setOpen(null);
  const done = (words) => { close(); say(words); loaded.again(); };
  const control = (job, what, words) => task.run(async () => { await tellJob(job, what); done(words); });
  const clean = (index) => task.run(async () => {
    await cleanIndexes(type, index ? { index } : {});
    done(index ? `The cleaning of ${index} has started` : "The cleaning of all indexes has started");
  });
  const create = html`<${Button} kind="small primary" icon="plus" refused=${refused} onClick=${() => setOpen(["new"])}>New index</${Button}>`;
  return html`
    <section class="card" aria-labelledby="indexes">
      <div class="card-head">
        <div><h2 id="indexes">Indexes${indexes.length > 0 && html` <span class="muted">${indexes.length}</span>`}</h2>
          <p class="muted">Each index finds bags by the values of some properties, in an order.</p></div>
        ${indexes.length > 0 && html`<div class="actions">
          <${LinkButton} kind="small quiet" href="/console/erasure">Running jobs</${LinkButton}>
          <${Button} kind="small" icon="refresh" refused=${refusal("lists:write", type, "")} onClick=${() => clean()}>Clean all</${Button}>
          ${create}</div>`}
      </div>
      <${Trouble} problem=${loaded.problem ?? task.problem} onRetry=${loaded.problem && loaded.again}/>
      ${!loaded.data ? loaded.loading && html`<${Loading} what="Loading indexes"/>`
        : indexes.length ? html`<ul class="jobs">${indexes.map((index) => html`
            <${Row} key=${`${index.name} ${index.created_at}`} type=${type} index=${index} refused=${refused} onControl=${control}
              onClean=${() => clean(index.name)} onDrop=${() => setOpen(["drop", index])}/>`)}</ul>`
        : html`<${Empty} icon="search" title="No index yet" actions=${create}>
            <p>Which entities live in Paris, the oldest first? An index by <code>/city</code>, ordered by <code>/age</code>, answers that.
              You can create an index at any time: existing bags are added in the background.</p></${Empty}>`}
    </section>
    ${open?.[0] === "new" && html`<${NewIndex} type=${type} indexes=${indexes} onClose=${close} onDone=${done}/>`}
    ${open?.[0] === "drop" && html`<${Drop} type=${type} index=${open[1]} onClose=${close} onDone=${done}/>`}`;
}

function Row({ type, index, refused, onControl, onClean, onDrop }) {
  const { name, state, job, properties, order_by: order } = index;
  const writing = refusal("lists:write", type, "");
  const isPaused = job?.state === "paused";
  const find = `${pageOfType(type, "find")}?${new URLSearchParams({ index: name })}`;
  const facts = [
    index.entries !== undefined && `${group(index.entries)} ${index.entries === 1 ? "entry" : "entries"}`,
    index.lag !== undefined && `behind by ${typeof index.lag === "object" ? JSON.stringify(index.lag) : index.lag}`,
    index.bags_left_out && `${group(index.bags_left_out)} bags left out because they have too many values`,
  ].filter(Boolean);
  return html`
    <li class="job">
      <div class="job-head">
        ${state === "dropping" ? html`<span class="name"><bdi>${name}</bdi></span>` : html`<a class="name" href=${find}><bdi>${name}</bdi></a>`}
        <${Badge} kind=${STATES[state]}>${state}</${Badge}>
        ${isPaused && html`<${Badge} kind="warn">paused</${Badge}>`}
        <span class="fine">made <${Time} at=${index.created_at} kind="relative"/></span>
      </div>
      <p>by ${properties.map((property, i) => html`${i ? ", " : ""}<code><bdi>${property}</bdi></code>`)}
        <span class="muted"> · ordered by </span>${order ? html`<code><bdi>${order}</bdi></code>` : html`<span class="muted">when they were updated</span>`}</p>
      ${state === "cancelled" && html`<${Notice} kind="warn" title="Its build was cancelled.">
        <p>Bags older than the index are missing. Clean the index to add them.</p></${Notice}>`}
      ${(state === "building" || state === "dropping") && html`<progress aria-label=${`${state} ${name}`}/>
        <p class="fine" aria-live="polite">${state === "building"
          ? html`<strong>${group(index.bags_done ?? 0)}</strong> bags processed so far. New writes are indexed immediately.`
          : "Its entries are being cleared."}</p>`}
      ${facts.length > 0 && html`<p class="fine">${facts.join(" · ")}</p>`}
      ${index.problem && html`<${Notice} kind="warn" title="The job is blocked."><p>${index.problem}</p></${Notice}>`}
      <div class="actions">
        ${state !== "dropping" && html`<${LinkButton} kind="small" icon="search" href=${find} refused=${refusal("lists:read", type, "")}>Find</${LinkButton}>
          <${Copy} kind="small" label=${`Copy the command that creates ${name}`} text=${creationAsCommand(type, index)}>Command</${Copy}>`}
        ${job && !isOver(job) && html`<${Button} kind="small" refused=${writing} label=${`${isPaused ? "Resume" : "Pause"} ${name}`}
          onClick=${() => (isPaused ? onControl(job, "resume", "Resumed") : onControl(job, "pause", "Paused"))}>${isPaused ? "Resume" : "Pause"}</${Button}>`}
        ${(state === "ready" || state === "cancelled") && html`<${Button} kind="small" icon="refresh" refused=${writing} label=${`Clean ${name}`} onClick=${onClean}>Clean</${Button}>`}
        ${state !== "dropping" && html`<${Button} kind="small danger" icon="bin" refused=${refused} label=${`Drop ${name}`} onClick=${onDrop}>Drop</${Button}>`}
      </div>
    </li>`;
}

function Drop({ type, index: { name }, onClose, onDone }) {
  const [typed, setTyped] = useState("");
  const task = useTask();
  const drop = () => task.run(async () => {
    await dropIndex(type, name);
    onDone(`The index ${name} is dropped`);
  });
  return html`
    <${Dialog} title="Drop this index?" kind="danger" onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Keep it</${Button}>
      <${Button} kind="danger solid" disabled=${typed !== name || task.busy} onClick=${drop}>Drop permanently</${Button}>`}>
      <ul class="points">
        <li>Queries of <strong><bdi>${name}</bdi></strong> then fail with <code>index_not_found</code>.</li>
        <li>Bags remain unchanged. If you create the index again, all bags are read again.</li>
      </ul>
      <${TextField} label=${html`Type <code class="typed"><bdi>${name}</bdi></code> to drop it`} value=${typed} onInput=${setTyped}/>
      <${Trouble} problem=${task.problem}/>
    </${Dialog}>`;
}
