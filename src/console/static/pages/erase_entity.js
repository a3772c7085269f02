// Erases all lists of an entity, and shows the receipt.

import { html, useState } from "../lib/html.js";
import { group } from "../lib/format.js";
import { versionName } from "../lib/features.js";
import { eraseEntity, listsOf } from "../lib/jobs.js";
import { go, usePlace } from "../lib/router.js";
import { refusal } from "../lib/session.js";
import { Badge, Button, Copy, Dialog, Empty, Loading, Notice, TextField, Time, Trouble } from "../ui/parts.js";
import { EntityForm } from "../ui/entity_form.js";
import { useLoad, useTask } from "../ui/use.js";

const urlOf = (type, id) => `/console/erasure/entity?${new URLSearchParams({ type, id })}`;

export function EraseEntity() {
  const { query, state } = usePlace();
  const [type, id] = [query.get("type") ?? "", query.get("id") ?? ""];
  // A receipt outlives a reload, and going back and forth.
  return html`<${EntityForm} key=${`${type}/${id}`} type=${type} id=${id} label="Which entity" onGo=${(type, id) => go(urlOf(type, id))}/>
    ${state?.receipt ? html`<${Receipt} receipt=${state.receipt}/>`
      : type && id ? html`<${What} key=${`${type}/${id}`} type=${type} id=${id}/>`
      : html`<section class="card"><${Empty} icon="bin" title="Which entity should be erased?">
          <p>For erasure requests: the bag and all lists of one entity are removed, for every feature, and you get a
            receipt.</p></${Empty}></section>`}`;
}

function What({ type, id }) {
  const [isAsking, setAsking] = useState(false);
  // An erasure needs the permission for all lists of the type.
  const refused = refusal("lists:write", type, "*");
  const mayRead = !refusal("lists:read", type, "*");
  const loaded = useLoad(async (signal) => (mayRead ? listsOf(type, id, signal) : null), [type, id, mayRead]);
  const lists = loaded.data ?? [];
  return html`
    <section class="card" aria-label="The entity">
      <div class="card-head">
        <div><h2><bdi>${type}</bdi> <bdi class="clip-id">${id}</bdi></h2>
          <p class="muted">${loaded.data === undefined ? "" : loaded.data === null ? "You may not read its lists."
            : lists.length === 0 ? "It has no list with items. Deleted features may have left some."
            : `It has items in ${group(lists.length)} ${lists.length === 1 ? "list" : "lists"}.`}</p></div>
        <${Button} kind="danger" icon="bin" refused=${refused} onClick=${() => setAsking(true)}>Erase</${Button}>
      </div>
      <${Trouble} problem=${loaded.problem} onRetry=${loaded.again}/>
      ${loaded.data === undefined && loaded.loading && html`<${Loading} what="Looking for its lists"/>`}
      ${lists.length > 0 && html`
        <ul class="entities" aria-label="Lists with items">${lists.map(({ feature, version }) => html`
          <li><a href=${`/console/lists?${new URLSearchParams({ type, feature, id, ...(version && { version }) })}`}
            ><bdi>${feature}</bdi></a>${version && html` <${Badge}>${version}</${Badge}>`}</li>`)}</ul>`}
    </section>
    ${isAsking && html`<${Ask} type=${type} id=${id} onClose=${() => setAsking(false)}/>`}`;
}

function Ask({ type, id, onClose }) {
  const [typed, setTyped] = useState("");
  const task = useTask();
  const erase = () => task.run(async () => {
    const receipt = await eraseEntity(type, id);
    onClose();
    go(urlOf(type, id), { replace: true, state: { receipt } });
  });
  return html`
    <${Dialog} title="Erase this entity?" kind="danger" onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Keep its lists</${Button}>
      <${Button} kind="danger solid" disabled=${typed !== id || task.busy} onClick=${erase}>Erase permanently</${Button}>`}>
      <ul class="points">
        <li>Every list of <strong><bdi>${id}</bdi></strong> is removed, for all features of <bdi>${type}</bdi> and their versions,
          including deleted ones. This cannot be undone.</li>
        <li>The audit trail records the erasure with this ID.</li>
        <li>Items added during the erasure may remain. Backups are not changed.</li>
      </ul>
      <${TextField} label=${html`Type <code class="typed"><bdi>${id}</bdi></code> to erase it`} value=${typed} onInput=${setTyped}/>
      <${Trouble} problem=${task.problem}/>
    </${Dialog}>`;
}

function Receipt({ receipt }) {
  const left = receipt.lists.filter(({ cleared }) => !cleared).length;
  const text = JSON.stringify(receipt, null, 2);
  const [isAsking, setAsking] = useState(false);
  return html`
    <section class="card" aria-label="Receipt">
      <div class="card-head"><div><h2>Receipt</h2>
        <p class="muted"><bdi>${receipt.entity_type}</bdi> <strong><bdi class="clip-id">${receipt.entity_id}</bdi></strong>, erased
          ${" "}<${Time} at=${receipt.erased_at} kind="absolute"/> by <bdi>${receipt.erased_by}</bdi>${receipt.on_behalf_of
            && html` for <bdi>${receipt.on_behalf_of}</bdi>`}</p></div>
        <${Copy} text=${text} label="Copy the receipt">Copy</${Copy}></div>
      ${receipt.complete
        ? html`<${Notice} kind="good" title="The erasure is complete."><p>${group(receipt.lists.length)} lists were cleared.</p></${Notice}>`
        : html`<${Notice} kind="bad" title=${left ? `${group(left)} of ${group(receipt.lists.length)} lists were not cleared.` : "The erasure is not complete."}
            action=${html`<${Button} onClick=${() => setAsking(true)}>Erase again</${Button}>`}>
            <p>You can repeat the erasure safely.</p></${Notice}>`}
      <table class="table cards-when-narrow">
        <caption class="unseen">Result for each list</caption>
        <thead><tr><th scope="col">Feature</th><th scope="col">Version</th><th scope="col">Creation</th><th scope="col">Result</th></tr></thead>
        <tbody>${receipt.lists.map((list) => html`
          <tr><td class="main-cell"><bdi>${list.feature}</bdi></td>
            <td data-title="Version"><${Badge}>${versionName(list.version)}</${Badge}></td>
            <td data-title="Creation">${list.generation}${list.deleted && html` <span class="muted">deleted</span>`}</td>
            <td>${list.cleared ? html`<${Badge} kind="good">cleared</${Badge}>`
              : html`<${Badge} kind="bad">not cleared</${Badge}> <span class="fine">${list.problem?.detail ?? list.problem?.title}</span>`}</td></tr>`)}
        </tbody>
      </table>
    </section>
    ${isAsking && html`<${Ask} type=${receipt.entity_type} id=${receipt.entity_id} onClose=${() => setAsking(false)}/>`}`;
}
