// Deletes a feature: what goes, until when, and only after its name was typed.

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
        <p><strong><bdi>${title}</bdi></strong> is gone, and its items are out of reach.</p>
        <p>The last of them will have left the store by <strong>${dayTime(millis)}</strong>, ${relative(millis)}.</p>
      </${Dialog}>`;
  }
  return html`
    <${Dialog} title="Delete this feature?" kind="danger" onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Keep it</${Button}>
      <${Button} kind="danger solid" disabled=${typed !== title || task.busy} onClick=${remove}>Delete for ever</${Button}>`}>
      <ul class="points">
        <li><strong><bdi>${title}</bdi></strong> goes with ${count === 1 ? "its version" : `all ${count} of its versions`}
          ${" "}and every list of them. Nothing brings them back.</li>
        <${Weight} feature=${feature} versions=${feature.versions.map(({ version }) => version)}/>
        <li>Its items expire by <strong>${dayTime(Date.now() + readTtl(ttl).secs * 1000)}</strong>, ${ttlWords(ttl)} from
          now, and leave the store with that; later if its time to live was longer once, or if they are of the future.</li>
        <li>Whoever reads or adds is told <code>feature_not_found</code> from the deletion on.</li>
        <li>Created again, it starts empty. Its history stays.</li>
      </ul>
      ${task.problem?.code === "etag_mismatch"
        ? html`<${Notice} kind="warn" title="It was changed since you looked at it.">
            <p>Nothing was deleted. Look at it again before you delete it.</p>
            <${Button} kind="small" onClick=${() => { task.clear(); onStale(); }}>Look again</${Button}></${Notice}>`
        : html`<${Trouble} problem=${task.problem}/>`}
      <${TextField} label=${html`Type <code class="typed"><bdi>${title}</bdi></code> to delete it`} value=${typed}
        onInput=${setTyped}/>
    </${Dialog}>`;
}
