// Deletes an entity type, after its name was typed. Shows the effects first.

import { html, useState } from "../lib/html.js";
import { bagIds, deleteType } from "../lib/entities.js";
import { dayTime, group, millisOf, readTtl, relative } from "../lib/format.js";
import { go } from "../lib/router.js";
import { refusal } from "../lib/session.js";
import { Button, Dialog, Notice, TextField, Trouble } from "../ui/parts.js";
import { useLoad, useTask } from "../ui/use.js";

/** Pages of bags that are counted. */
const PAGES_MAX = 20;

/** How many entities have bags, and whether that is all of them. */
export async function countBags(type, signal) {
  let [count, token, pages] = [0, undefined, 0];
  do {
    const page = await bagIds(type, { page_size: 1000, page_token: token }, signal);
    count += page.entities.length;
    token = page.next_page_token;
    pages += 1;
  } while (token && pages < PAGES_MAX);
  return { count, isExact: !token };
}

/** That number in words. */
export const BagCount = ({ type }) => {
  const mayRead = !refusal("lists:read", type, "");
  const loaded = useLoad(async (signal) => (mayRead ? countBags(type, signal) : null), [type, mayRead]);
  const { count, isExact } = loaded.data ?? {};
  return html`<li aria-live="polite">${!mayRead ? "You may not read its bags, so their number is not shown."
    : loaded.problem ? "Cannot count its bags."
    : count === undefined ? "Counting its bags…"
    : count === 0 && isExact ? html`<strong>No entity</strong> has a bag.`
    : html`<strong>${isExact ? "" : "at least "}${group(count)}</strong> ${count === 1 ? "entity has a bag" : "entities have bags"}.`}</li>`;
};

export function DeleteType({ definition, etag, onClose, onStale }) {
  const [typed, setTyped] = useState("");
  const [gone, setGone] = useState(null);
  const task = useTask();
  const { entity_type: type, ttl } = definition;
  const remove = () => task.run(async () => setGone(await deleteType(type, etag)));
  if (gone) {
    const leave = () => { onClose(); go("/console/entities"); };
    const millis = millisOf(gone.items_expire_by);
    return html`
      <${Dialog} title="Deleted" onClose=${leave} actions=${html`<${Button} kind="primary" onClick=${leave}>To the entities</${Button}>`}>
        <p><strong><bdi>${type}</bdi></strong> is deleted, and its bags are unreachable.</p>
        <p>The last of them leave the store by <strong>${dayTime(millis)}</strong>, ${relative(millis)}.</p>
      </${Dialog}>`;
  }
  return html`
    <${Dialog} title="Delete this entity type?" kind="danger" onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Keep it</${Button}>
      <${Button} kind="danger solid" disabled=${typed !== type || task.busy} onClick=${remove}>Delete permanently</${Button}>`}>
      <ul class="points">
        <li><strong><bdi>${type}</bdi></strong>, all its bags and all its indexes are deleted. This cannot be undone.</li>
        <${BagCount} type=${type}/>
        <li>They expire by <strong>${dayTime(Date.now() + readTtl(ttl).secs * 1000)}</strong> and then leave the store. This is later
          if their time to live was longer before.</li>
        <li>The lists of its entities and its history remain. If it is created again, it starts without bags.</li>
      </ul>
      ${task.problem?.code === "etag_mismatch"
        ? html`<${Notice} kind="warn" title="It changed after you opened it.">
            <p>Nothing was deleted. Review it again before you delete it.</p>
            <${Button} kind="small" onClick=${() => { task.clear(); onStale(); }}>Reload</${Button}></${Notice}>`
        : html`<${Trouble} problem=${task.problem}/>`}
      <${TextField} label=${html`Type <code class="typed"><bdi>${type}</bdi></code> to delete it`} value=${typed} onInput=${setTyped}/>
    </${Dialog}>`;
}
