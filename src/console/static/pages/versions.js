// The versions of a feature, side by side: each has separate lists.

import { html, useState } from "../lib/html.js";
import { call, get } from "../lib/api.js";
import { IDENTITIES, KEEPS, changeFeature, deprecation, deprecationLabel, deprecationOf, featurePath, identityOf, loadFeature,
  textError, versionError, versionPath } from "../lib/features.js";
import { dayTime, millisOf, readTtl, ttlWords } from "../lib/format.js";
import { takesField } from "../lib/document.js";
import { refusal } from "../lib/session.js";
import { Badge, Button, Dialog, LinkButton, Notice, TextField, Time, Trouble, say } from "../ui/parts.js";
import { Differences, IdentityChoice, TtlField, differences, ttlConsequence } from "../ui/feature_parts.js";
import { PROPERTIES, PropertyFields, drafted, errorsOf, readDraft, useTaken } from "../ui/properties.js";
import { Weight } from "../ui/weight.js";
import { useLoad, useTask } from "../ui/use.js";
import { Deprecate, Deprecated } from "./deprecate.js";

export function Versions({ feature, etag, refused, onChanged }) {
  const [open, setOpen] = useState(null);
  const close = () => setOpen(null);
  const done = (words) => { close(); say(words); onChanged(); };
  const reading = refusal("lists:read", feature.entity_type, feature.name);
  const explore = (version) => `/console/lists?${new URLSearchParams({
    type: feature.entity_type, feature: feature.name, ...(version && { version }),
  })}`;
  const rows = [
    ["Time to live", ({ ttl }) => html`<strong>${ttlWords(ttl)}</strong>`],
    ["Shown now", ({ ttl }) => html`items since ${dayTime(Date.now() - readTtl(ttl).secs * 1000)}`],
    ...PROPERTIES.filter(({ name }) => feature.versions.some((version) => version[name]))
      .map(({ name, title, cell }) => [title, (version) => cell(version[name])]),
    ...(feature.versions.some((version) => identityOf(feature, version) !== "item") ? [["Identity", (version) =>
      html`${IDENTITIES[identityOf(feature, version)]?.[0]}${version.keep && html`<span class="muted">: ${KEEPS[version.keep]}</span>`}`]] : []),
    ...(feature.versions.some(({ bucket }) => bucket) ? [["Bucket", ({ bucket }) =>
      bucket ?? html`<span class="muted">one partition per list</span>`]] : []),
    ["Description", ({ description }) => description
      ? html`<bdi class="long">${description}</bdi>` : html`<span class="muted">none</span>`],
    ...(feature.versions.some(({ version }) => deprecationOf(feature, version)) ? [["Instead", ({ version }) =>
      deprecationOf(feature, version) ? html`<bdi class="long">${deprecationOf(feature, version)}</bdi>` : ""]] : []),
    ["Created", ({ created_at }) => html`<${Time} at=${created_at}/>`],
  ];
  return html`
    <section class="card" aria-labelledby="versions">
      <div class="card-head">
        <h2 id="versions">Versions <span class="muted">${feature.versions.length}</span></h2>
        <${Button} kind="small" icon="plus" refused=${refused} onClick=${() => setOpen(["add"])}>Add a version</${Button}>
      </div>
      <div class="scroll-x" tabindex="0" role="region" aria-label="Versions side by side">
        <table class="table side-by-side">
          <thead><tr><td></td>
            ${feature.versions.map(({ version }) => html`
              <th scope="col">${version ? html`<bdi>${version}</bdi>` : html`<${Badge}>default</${Badge}>`}
                ${" "}<${Deprecated} note=${deprecation(feature, version)}/></th>`)}
          </tr></thead>
          <tbody>
            ${rows.map(([title, show]) => html`
              <tr><th scope="row">${title}</th>${feature.versions.map((version) => html`<td>${show(version)}</td>`)}</tr>`)}
            <tr><th scope="row"><span class="unseen">Actions</span></th>
              ${feature.versions.map((version) => html`
                <td><div class="actions">
                  <${LinkButton} kind="small" href=${explore(version.version)} refused=${reading}>Explore</${LinkButton}>
                  <${Button} kind="small quiet" icon="sunset" refused=${refused}
                    label=${`Deprecate version ${version.version || "default"}`} onClick=${() => setOpen(["deprecate", version])}/>
                  ${version.version && html`
                    <${Button} kind="small quiet" icon="edit" label=${`Edit version ${version.version}`}
                      refused=${refused} onClick=${() => setOpen(["edit", version])}/>
                    <${Button} kind="small quiet" icon="bin" label=${`Delete version ${version.version}`}
                      refused=${refused} onClick=${() => setOpen(["delete", version])}/>`}
                </div></td>`)}
            </tr>
          </tbody>
        </table>
      </div>
      ${open?.[0] === "add" && html`<${AddVersion} feature=${feature} onClose=${close} onDone=${done}/>`}
      ${open?.[0] === "edit" && html`
        <${EditVersion} feature=${feature} version=${open[1]} onClose=${close} onDone=${done}/>`}
      ${open?.[0] === "deprecate" && html`
        <${Deprecate} feature=${feature} etag=${etag} version=${open[1].version} onClose=${close} onDone=${done}/>`}
      ${open?.[0] === "delete" && html`
        <${DeleteVersion} feature=${feature} version=${open[1]} onClose=${close} onDone=${done}/>`}
    </section>`;
}

const isFine = (draft) => Object.values(errorsOf(draft)).every((error) => !error);

/** A field of a draft, by its name. */
const fieldOf = (draft, setDraft) => (name) => ({
  value: draft[name], error: errorsOf(draft)[name], onInput: (text) => setDraft((now) => ({ ...now, [name]: text })),
});

function AddVersion({ feature, onClose, onDone }) {
  const [version, setVersion] = useState("");
  const [ttl, setTtl] = useState(feature.ttl);
  const [description, setDescription] = useState("");
  const [draft, setDraft] = useState(drafted(feature));
  const taken = useTaken("create_version");
  const takesIdentity = useLoad(() => takesField("create_version", "identity"), []).data;
  const [identity, setIdentity] = useState({ identity: identityOf(feature), keep: feature.keep ?? "newest", bucket: feature.bucket ?? "" });
  const task = useTask();
  const isKnown = feature.versions.some((known) => known.version === version) ? "This name is already in use." : null;
  const error = version ? versionError(version) ?? isKnown : null;
  const add = () => task.run(async () => {
    const { identity: kind, keep, bucket } = identity;
    const given = readDraft(draft);
    const properties = Object.fromEntries((taken ?? []).map(({ name }) => [name, given[name]]));
    const body = { version, ttl, ...properties, ...(takesIdentity && { identity: kind,
      ...(kind === "item" ? { bucket: bucket || null } : { keep, bucket: null }) }), ...(description && { description }) };
    await call("POST", `${featurePath(feature.entity_type, feature.name)}/versions`, { body });
    onDone(`Version ${version} was added`);
  });
  return html`
    <${Dialog} title="Add a version" onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Cancel</${Button}>
      <${Button} kind="primary" onClick=${add}
        disabled=${task.busy || !version || error || readTtl(ttl).error || !isFine(draft) || textError(description, 2000)}
        >Add</${Button}>`}>
      <p class="muted">It starts with separate, empty lists. Callers select it with <code>?version=</code>.</p>
      <${TextField} label="Version" required value=${version} onInput=${setVersion} error=${error} placeholder="v2"/>
      <${TtlField} value=${ttl} onInput=${setTtl}/>
      <${PropertyFields} taken=${taken} field=${fieldOf(draft, setDraft)}/>
      ${takesIdentity && html`<${IdentityChoice} draft=${identity} onChange=${(change) => setIdentity({ ...identity, ...change })}/>`}
      <${TextField} label="Description" area rows="2" value=${description} onInput=${setDescription}
        error=${textError(description, 2000)}/>
      <${Trouble} problem=${task.problem}/>
    </${Dialog}>`;
}

/** The entity tag of a version that has not changed since it was shown. */
async function tagOf(feature, version) {
  const { data, etag } = await get(versionPath(feature.entity_type, feature.name, version.version));
  return differences(version, data).length ? { now: data } : { etag };
}

function EditVersion({ feature, version, onClose, onDone }) {
  const [based, setBased] = useState(version);
  const [ttl, setTtl] = useState(version.ttl);
  const [description, setDescription] = useState(version.description);
  const [draft, setDraft] = useState(drafted(version));
  const taken = useTaken("update_version");
  const [isStale, setStale] = useState(false);
  const task = useTask();
  const before = { ttl: based.ttl, ...readDraft(drafted(based)), description: based.description };
  const changes = differences(before, { ttl, ...readDraft(draft), description });
  const body = Object.fromEntries(changes.map(([name, , after]) => [name, after]));
  const save = () => task.run(async () => {
    const { etag, now } = await tagOf(feature, based);
    if (now) {
      setBased(now);
      setStale(true);
      return;
    }
    const at = versionPath(feature.entity_type, feature.name, version.version);
    await call("PATCH", at, { body, headers: { "If-Match": etag } });
    onDone(`Version ${version.version} was changed`);
  });
  const consequence = body.ttl && ttlConsequence(based.ttl, body.ttl);
  return html`
    <${Dialog} title=${`Edit version ${version.version}`} onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Cancel</${Button}>
      <${Button} kind="primary" onClick=${save} disabled=${task.busy || !changes.length || readTtl(ttl).error || !isFine(draft)}
        >Save the change</${Button}>`}>
      <${TtlField} value=${ttl} onInput=${setTtl}/>
      <${PropertyFields} taken=${taken} field=${fieldOf(draft, setDraft)}/>
      <${TextField} label="Description" area rows="2" value=${description} onInput=${setDescription}
        error=${textError(description, 2000)}/>
      ${isStale && html`<${Notice} kind="warn" title="It changed after you opened it.">
        <p>Nothing was saved. The list below shows the difference to the current state.</p></${Notice}>`}
      ${changes.length > 0 && html`<h3>Changes</h3><${Differences} changes=${changes}/>`}
      ${consequence && html`<${Notice} kind="warn"><p>${consequence}</p></${Notice}>`}
      <${Trouble} problem=${task.problem}/>
    </${Dialog}>`;
}

/** So a version that is created again under this name is not deprecated. */
async function forgetLabel({ entity_type, name }, version) {
  const { feature, etag } = await loadFeature(entity_type, name);
  const { [deprecationLabel(version)]: mark, ...labels } = feature.labels;
  if (mark !== undefined) await changeFeature(entity_type, name, { labels }, etag);
}

function DeleteVersion({ feature, version, onClose, onDone }) {
  const [typed, setTyped] = useState("");
  const task = useTask();
  const remove = () => task.run(async () => {
    const { etag, now } = await tagOf(feature, version);
    if (now) throw { title: "It changed after you opened it.", detail: "Nothing was deleted. Review it again." };
    const at = versionPath(feature.entity_type, feature.name, version.version);
    const { data } = await call("DELETE", at, { headers: { "If-Match": etag } });
    await forgetLabel(feature, version.version);
    onDone(`Version ${version.version} is deleted; its last items expire by ${dayTime(millisOf(data.items_expire_by))}`);
  });
  return html`
    <${Dialog} title="Delete this version?" kind="danger" onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Keep it</${Button}>
      <${Button} kind="danger solid" disabled=${typed !== version.version || task.busy} onClick=${remove}
        >Delete permanently</${Button}>`}>
      <ul class="points">
        <li>All lists of version <strong><bdi>${version.version}</bdi></strong> become unreachable immediately.</li>
        <${Weight} feature=${feature} versions=${[version.version]}/>
        <li>Their items expire by <strong>${dayTime(Date.now() + readTtl(version.ttl).secs * 1000)}</strong>, ${ttlWords(version.ttl)}
          ${" "}from now, and leave the store with that.</li>
        <li>The other versions remain unchanged.</li>
      </ul>
      <${TextField} label=${html`Type <code class="typed">${version.version}</code> to delete it`} value=${typed}
        onInput=${setTyped}/>
      <${Trouble} problem=${task.problem}/>
    </${Dialog}>`;
}
