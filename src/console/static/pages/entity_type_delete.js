// Deletes an entity type, after its name was typed. Shows the effects first.

import { html, useState } from "../lib/html.js";
import { bagIds, deleteType } from "../lib/entities.js";
import { dayTime, group, millisOf, readTtl, relative } from "../lib/format.js";
import { go } from "../lib/router.js";
import { refusal } from "../lib/session.js";
import { Button, Dialog, Notice, TextField, Trouble } from "../ui/parts.js";
import { useLoad, useTask } from "../ui/use.js";

/** As many as one call tells of. */
const COUNTED = 1000;

export function DeleteType({ definition, etag, onClose, onStale }) {
  const [typed, setTyped] = useState("");
  const [gone, setGone] = useState(null);
  const task = useTask();
  const { entity_type: type, ttl } = definition;
  const mayRead = !refusal("lists:read", type, "");
  const count = useLoad(async (signal) => (mayRead ? bagIds(type, { page_size: COUNTED }, signal) : null), [type]).data;
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
  const some = count && `${count.next_page_token ? "at least " : ""}${group(count.entities.length)}`;
  return html`
    <${Dialog} title="Delete this entity type?" kind="danger" onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Keep it</${Button}>
      <${Button} kind="danger solid" disabled=${typed !== type || task.busy} onClick=${remove}>Delete permanently</${Button}>`}>
      <ul class="points">
        <li><strong><bdi>${type}</bdi></strong>, all its bags and all its indexes are deleted. This cannot be undone.</li>
        <li aria-live="polite">${!mayRead ? "You may not read its bags, so their number is not shown."
          : !count ? "Counting its bags…"
          : !count.entities.length && !count.next_page_token ? html`<strong>No entity</strong> has a bag.`
          : html`<strong>${some}</strong> ${count.entities.length === 1 ? "entity has a bag" : "entities have bags"}.`}</li>
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
