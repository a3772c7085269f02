// Deletes an entity type: what goes, and only after its name was typed.

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
        <p><strong><bdi>${type}</bdi></strong> is gone, and the bags of its entities are out of reach.</p>
        <p>The last of them will have left the store by <strong>${dayTime(millis)}</strong>, ${relative(millis)}.</p>
      </${Dialog}>`;
  }
  const some = count && `${count.next_page_token ? "at least " : ""}${group(count.entities.length)}`;
  return html`
    <${Dialog} title="Delete this entity type?" kind="danger" onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Keep it</${Button}>
      <${Button} kind="danger solid" disabled=${typed !== type || task.busy} onClick=${remove}>Delete for ever</${Button}>`}>
      <ul class="points">
        <li><strong><bdi>${type}</bdi></strong> goes with all bags of its entities and all indexes. Nothing brings them back.</li>
        <li aria-live="polite">${!mayRead ? "You may not read its bags: how many there are is not told."
          : !count ? "Its bags are being counted…"
          : !count.entities.length && !count.next_page_token ? html`<strong>No entity</strong> has a bag: there is nothing to lose.`
          : html`<strong>${some}</strong> ${count.entities.length === 1 ? "entity has a bag" : "entities have bags"}.`}</li>
        <li>They expire by <strong>${dayTime(Date.now() + readTtl(ttl).secs * 1000)}</strong>, and leave the store with that; later
          if their time to live was longer once.</li>
        <li>Lists of its entities stay. Created again, it starts without any bag. Its history stays.</li>
      </ul>
      ${task.problem?.code === "etag_mismatch"
        ? html`<${Notice} kind="warn" title="It was changed since you looked at it.">
            <p>Nothing was deleted. Look at it again before you delete it.</p>
            <${Button} kind="small" onClick=${() => { task.clear(); onStale(); }}>Look again</${Button}></${Notice}>`
        : html`<${Trouble} problem=${task.problem}/>`}
      <${TextField} label=${html`Type <code class="typed"><bdi>${type}</bdi></code> to delete it`} value=${typed} onInput=${setTyped}/>
    </${Dialog}>`;
}
