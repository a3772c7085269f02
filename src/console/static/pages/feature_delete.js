// Deletes a feature, after its name was typed. Shows the effects and their time first.

import { html, useState } from "../lib/html.js";
import { call } from "../lib/api.js";
import { featurePath, purgeOf, titleOf } from "../lib/features.js";
import { dayTime, millisOf, readTtl, relative, ttlWords } from "../lib/format.js";
import { go } from "../lib/router.js";
import { refusal } from "../lib/session.js";
import { Button, Dialog, LinkButton, Notice, TextField, Trouble } from "../ui/parts.js";
import { Weight } from "../ui/weight.js";
import { useTask } from "../ui/use.js";

const longest = (feature) =>
  feature.versions.reduce((a, b) => (readTtl(b.ttl).secs > readTtl(a.ttl).secs ? b : a)).ttl;

export function DeleteFeature({ feature, etag, onClose, onStale }) {
  const [typed, setTyped] = useState("");
  const [gone, setGone] = useState(null);
  const task = useTask();
  const title = titleOf(feature);
  const ttl = longest(feature);
  const count = feature.versions.length;
  const remove = () => task.run(async () => {
    const { data } = await call("DELETE", featurePath(feature.entity_type, feature.name), {
      headers: { "If-Match": etag },
    });
    setGone(data);
  });
  if (gone) {
    const leave = () => { onClose(); go("/console/features"); };
    const millis = millisOf(gone.items_expire_by);
    return html`
      <${Dialog} title="Deleted" onClose=${leave} actions=${html`
        <${LinkButton} href=${purgeOf(feature)} refused=${refusal("lists:write", feature.entity_type, feature.name)}
          >Erase its items now</${LinkButton}>
        <${Button} kind="primary" onClick=${leave}>To the features</${Button}>`}>
        <p><strong><bdi>${title}</bdi></strong> is deleted, and its items are unreachable.</p>
        <p>The last of them leave the store by <strong>${dayTime(millis)}</strong>, ${relative(millis)}.</p>
      </${Dialog}>`;
  }
  return html`
    <${Dialog} title="Delete this feature?" kind="danger" onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Keep it</${Button}>
      <${Button} kind="danger solid" disabled=${typed !== title || task.busy} onClick=${remove}>Delete permanently</${Button}>`}>
      <ul class="points">
        <li><strong><bdi>${title}</bdi></strong> is deleted with ${count === 1 ? "its version" : `all ${count} of its versions`}
          ${" "}and all its lists. This cannot be undone.</li>
        <${Weight} feature=${feature} versions=${feature.versions.map(({ version }) => version)}/>
        <li>Its items expire by <strong>${dayTime(Date.now() + readTtl(ttl).secs * 1000)}</strong>, ${ttlWords(ttl)} from
          now, and then leave the store. This is later if the time to live was longer before, or for items in the future.</li>
        <li>Reads and adds then fail with <code>feature_not_found</code>.</li>
        <li>Its history remains. If it is created again, it starts empty.</li>
      </ul>
      ${task.problem?.code === "etag_mismatch"
        ? html`<${Notice} kind="warn" title="It changed after you opened it.">
            <p>Nothing was deleted. Review it again before you delete it.</p>
            <${Button} kind="small" onClick=${() => { task.clear(); onStale(); }}>Reload</${Button}></${Notice}>`
        : html`<${Trouble} problem=${task.problem}/>`}
      <${TextField} label=${html`Type <code class="typed"><bdi>${title}</bdi></code> to delete it`} value=${typed}
        onInput=${setTyped}/>
    </${Dialog}>`;
}
