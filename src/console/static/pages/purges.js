// Purges of features: starts them, and shows their progress.

import { html, useEffect, useState } from "../lib/html.js";
import { group, millisOf, relative } from "../lib/format.js";
import { pageOfType } from "../lib/entities.js";
import { pageOf } from "../lib/features.js";
import { isOver, loadJobs, tellJob } from "../lib/jobs.js";
import { refusal } from "../lib/session.js";
import { Badge, Button, Dialog, Empty, Loading, Notice, Time, Trouble, say } from "../ui/parts.js";
import { useLoad, useTask } from "../ui/use.js";
import { NewPurge } from "./purge.js";

const EVERY_MS = 2000;
const STATES = { waiting: "", running: "good", paused: "warn", cancelled: "bad", done: "good" };

export function Purges() {
  const refused = refusal("features:read");
  const loaded = useLoad(async (signal) => (refused ? [] : loadJobs(signal)), [refused]);
  const [cancelled, setCancelled] = useState(null);
  const task = useTask();
  useEffect(() => {
    const timer = setInterval(() => document.hidden || loaded.again(), EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  const all = loaded.data ?? [];
  const jobs = all.filter(({ kind }) => !(kind in INDEXES));
  const builds = all.filter(({ kind }) => kind in INDEXES);
  const control = (job, what, words) => task.run(async () => {
    await tellJob(job, what);
    setCancelled(null);
    say(words);
    loaded.again();
  });
  return html`
    <${NewPurge} onBegun=${() => { say("The purge has started"); loaded.again(); }}/>
    <section class="card" aria-labelledby="purges">
      <div class="card-head"><h2 id="purges">Purges${jobs.length > 0 && html` <span class="muted">${jobs.length}</span>`}</h2></div>
      <${Trouble} problem=${loaded.problem ?? (cancelled ? null : task.problem)} onRetry=${loaded.problem && loaded.again}/>
      ${refused ? html`<${Empty} icon="bin" title="You may not read purges"><p>${refused}</p></${Empty}>`
        : !loaded.data ? loaded.loading && html`<${Loading} what="Loading purges"/>`
        : jobs.length ? html`<ul class="jobs">${jobs.map((job) => html`
            <${Job} key=${job.id} job=${job} onControl=${(what, words) => (what === "cancel" ? setCancelled(job) : control(job, what, words))}/>`)}</ul>`
        : html`<${Empty} icon="bin" title="No purge yet">
            <p>A purge erases the items of a feature before they expire. It runs in the background, survives restarts,
              and appears here.</p></${Empty}>`}
    </section>
    ${builds.length > 0 && html`
      <section class="card" aria-labelledby="builds">
        <div class="card-head"><h2 id="builds">Work on indexes <span class="muted">${builds.length}</span></h2></div>
        <ul class="jobs">${builds.map((job) => html`
          <${IndexJob} key=${job.id} job=${job} onControl=${(what, words) => (what === "cancel" ? setCancelled(job) : control(job, what, words))}/>`)}</ul>
      </section>`}
    ${cancelled && html`
      <${Dialog} title=${`Cancel this ${nameOf(cancelled)}?`} kind="danger" onClose=${() => setCancelled(null)} actions=${html`
        <${Button} onClick=${() => setCancelled(null)}>Continue the ${nameOf(cancelled)}</${Button}>
        <${Button} kind="danger solid" disabled=${task.busy} onClick=${() => control(cancelled, "cancel", `The ${nameOf(cancelled)} is cancelled`)}
          >Cancel permanently</${Button}>`}>
        <p>The ${nameOf(cancelled)} of <strong><bdi>${titleOfJob(cancelled)}</bdi></strong> stops. ${cancelled.kind === "clean"
          ? "Repaired entries stay. To check the rest, start another cleaning."
          : "Cleared items stay removed. To clear the rest, start another purge."}</p>
        <${Trouble} problem=${task.problem}/>
      </${Dialog}>`}`;
}

const nameOf = (job) => (job.kind === "clean" ? "cleaning" : "purge");
// A job without a feature is about the bags of its entity type.
const titleOfJob = (job) => (job.feature ? `${job.entity_type}.${job.feature}` : job.entity_type);
const INDEXES = { build_index: "builds an index of", drop_index: "drops an index of", clean: "cleans indexes of" };

/** The result of a cleaning. */
const found = ({ entries_added: added, entries_removed: removed }) =>
  (added === undefined ? "" : ` · ${group(added)} missing entries added, ${group(removed ?? 0)} without a bag removed`);

/** Work on indexes. A build and a drop are paused on the page of the indexes, and a cleaning is here. */
const IndexJob = ({ job, onControl }) => html`
  <li class="job">
    <div class="job-head">
      <a class="name" href=${pageOfType(job.entity_type, "indexes")}><bdi>${INDEXES[job.kind]} ${job.entity_type}</bdi></a>
      <${Badge} kind=${STATES[job.state]}>${job.state}</${Badge}>
      <span class="fine">begun ${relative(millisOf(job.created_at))}${isOver(job)
        ? html`, over <${Time} at=${job.updated_at} kind="relative"/>` : ""} · ${group(job.lists_cleared)} bags processed${found(job)}</span>
    </div>
    ${job.problem && html`<${Notice} kind="warn" title="The job is blocked."><p>${job.problem}</p></${Notice}>`}
    ${job.kind === "clean" && !isOver(job) && html`<${Controls} job=${job} what="cleaning" title=${job.entity_type}
      refused=${refusal("lists:write", job.entity_type, "")} onControl=${onControl}/>`}
  </li>`;

/** The buttons of an unfinished job. */
function Controls({ job, what, title, refused, onControl }) {
  const button = (action, text, words, kind = "") => html`
    <${Button} kind=${`small ${kind}`} refused=${refused} label=${`${text} the ${what} of ${title}`}
      onClick=${() => onControl(action, words)}>${text}</${Button}>`;
  return html`
    <div class="actions">
      ${job.state === "paused" ? button("resume", "Resume", `The ${what} is resumed`) : button("pause", "Pause", `The ${what} is paused`)}
      ${button("cancel", "Cancel", "", "danger")}
    </div>`;
}

function Job({ job, onControl }) {
  const title = titleOfJob(job);
  const refused = refusal("lists:write", job.entity_type, job.feature ?? "");
  const about = [
    `${group(job.lists_cleared)} ${job.lists_cleared === 1 ? "list" : "lists"} cleared`,
    job.lists_per_second && `at most ${group(job.lists_per_second)} per second`,
    `started by ${job.created_by}`,
  ].filter(Boolean).join(" · ");
  return html`
    <li class="job">
      <div class="job-head">
        ${job.feature
          ? html`<a class="name" href=${pageOf({ entity_type: job.entity_type, name: job.feature })}><bdi>${title}</bdi></a>`
          : html`<a class="name" href=${pageOfType(job.entity_type)}><bdi>bags of ${title}</bdi></a>`}
        <${Badge} kind=${STATES[job.state]}>${job.state}</${Badge}>
        ${job.bytes_erased && html`<${Badge} kind="good">bytes erased</${Badge}>`}
        <span class="fine">begun ${relative(millisOf(job.created_at))}${isOver(job)
          ? html`, over <${Time} at=${job.updated_at} kind="relative"/>` : ""}</span>
      </div>
      <progress value=${job.generations_cleared} max=${Math.max(1, job.generations)} aria-label=${`Progress of ${title}`}/>
      <p class="fine"><strong>${group(job.generations_cleared)} of ${group(job.generations)}</strong> versions finished
        ${" · "}<bdi>${about}</bdi></p>
      ${job.problem && html`<${Notice} kind="warn" title="The job is blocked."><p>${job.problem}</p></${Notice}>`}
      ${job.state === "done" && job.bytes_erased === false && html`
        <p class="fine">The items are removed; the store reclaims their bytes later.</p>`}
      ${!isOver(job) && html`<${Controls} job=${job} what="purge" title=${title} refused=${refused} onControl=${onControl}/>`}
    </li>`;
}
