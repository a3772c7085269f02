// Purges the bags of an entity type, after its name was typed.

import { html, useState } from "../lib/html.js";
import { purgeBags } from "../lib/jobs.js";
import { Button, Dialog, SelectField, TextField, Trouble } from "../ui/parts.js";
import { useTask } from "../ui/use.js";
import { BagCount } from "./entity_type_delete.js";

const WHAT = [["all", "all bags"], ["deleted", "only bags of deleted generations"]];

/** `isGone`: the entity type was deleted, so that only bags of deleted generations may be left. */
export function PurgeBags({ type, isGone, onClose, onDone }) {
  const [typed, setTyped] = useState("");
  const [what, setWhat] = useState(isGone ? "deleted" : "all");
  const task = useTask();
  const purge = () => task.run(async () => {
    await purgeBags(type, what === "deleted" ? { deleted_only: true } : {});
    onDone();
  });
  return html`
    <${Dialog} title="Purge its bags?" kind="danger" onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Keep them</${Button}>
      <${Button} kind="danger solid" disabled=${typed !== type || task.busy} onClick=${purge}>Purge permanently</${Button}>`}>
      ${!isGone && html`<${SelectField} label="What to remove" value=${what} onChange=${setWhat} options=${WHAT}/>`}
      <ul class="points">
        ${what === "deleted"
          ? html`<li>The remaining bags of deleted generations of <strong><bdi>${type}</bdi></strong> are removed. Present bags remain.</li>`
          : html`<li>All bags of <strong><bdi>${type}</bdi></strong> are removed. This cannot be undone. The entity type remains.</li>
            <${BagCount} type=${type}/>`}
        <li>The lists of its entities remain. The purge runs in the background and appears on the page Erasure.</li>
        <li>Bags written during the purge may remain. Backups are not changed.</li>
      </ul>
      <${TextField} label=${html`Type <code class="typed"><bdi>${type}</bdi></code> to purge its bags`} value=${typed} onInput=${setTyped}/>
      <${Trouble} problem=${task.problem}/>
    </${Dialog}>`;
}
