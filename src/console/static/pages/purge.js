// Begins a purge: of what, how fast, and only after the name was typed.

import { html, useMemo, useState } from "../lib/html.js";
import { group } from "../lib/format.js";
import { findFeature, loadFeatures, nameError, titleOf, versionName } from "../lib/features.js";
import { purge } from "../lib/jobs.js";
import { go, usePlace, withQuery } from "../lib/router.js";
import { refusal } from "../lib/session.js";
import { Button, Dialog, Field, Notice, SelectField, TextField, Trouble } from "../ui/parts.js";
import { Weight } from "../ui/weight.js";
import { useLoad, useTask } from "../ui/use.js";

const PACE_MAX = 1000000;
/** What is purged: of all versions, of what was deleted, or of one version. */
const ALL = "all";
const DELETED = "deleted";

export function NewPurge({ onBegun }) {
  const { query } = usePlace();
  const given = query.get("feature") ? `${query.get("type") ?? ""}.${query.get("feature")}` : "";
  return html`<${Choice} key=${given} given=${given} onBegun=${onBegun}/>`;
}

function Choice({ given, onBegun }) {
  const { data: loaded } = useLoad((signal) => loadFeatures({}, () => {}, signal), []);
  const features = loaded?.features;
  // Until all features are known, only the server can tell that one does not exist.
  const isWhole = loaded && !loaded.more;
  const task = useTask();
  const [name, setName] = useState(given);
  const [what, setWhat] = useState(ALL);
  const [pace, setPace] = useState("");
  const [asking, setAsking] = useState(null);
  const byTitle = useMemo(() => new Map((features ?? []).map((feature) => [titleOf(feature), feature])), [features]);
  const feature = byTitle.get(name);
  // A feature that was deleted has no definition: only its name is left.
  const dot = name.indexOf(".");
  const [entityType, title] = feature ? [feature.entity_type, feature.name] : [name.slice(0, dot), name.slice(dot + 1)];
  const isName = dot > 0 && !nameError(entityType) && !nameError(title);
  const options = [[ALL, "all lists"], [DELETED, "only deleted versions"],
    ...(feature ? feature.versions.map(({ version }) => [`=${version}`, `version ${versionName(version)}`]) : [])];
  const chosen = options.some(([option]) => option === what) ? what : ALL;
  const paceError = pace && !(/^\d+$/.test(pace) && Number(pace) >= 1 && Number(pace) <= PACE_MAX)
    ? `From 1 to ${group(PACE_MAX)}.` : null;
  const refused = isName ? refusal("lists:write", entityType, title) : refusal("lists:write");
  const input = {
    ...(chosen === DELETED && { deleted_only: true }), ...(chosen.startsWith("=") && { version: chosen.slice(1) }),
    ...(pace && { lists_per_second: Number(pace) }),
  };
  const ask = () => task.run(async () => {
    const found = feature ?? (isWhole ? null : await findFeature(name));
    setAsking({ entityType, name: title, ...(found && { entityType: found.entity_type, name: found.name }), feature: found });
  });
  return html`
    <form class="card purge" novalidate aria-label="Purge a feature"
      onSubmit=${(event) => { event.preventDefault(); if (isName && !paceError && !refused && !task.busy) ask(); }}>
      <div class="choice-row">
        <${Field} label="Feature" error=${name && !isName ? "A feature such as user.story_presented." : null}
          hint=${isName && isWhole && !feature ? "This feature does not exist: its remaining items are purged." : null}>
          ${(ties) => html`
            <input class="input" type="text" list="purgeable" value=${name} placeholder="user.story_presented"
              autocomplete="off" spellcheck=${false} onInput=${(event) => setName(event.target.value)} ...${ties}/>
            <datalist id="purgeable">
              ${(features ?? []).slice(0, 2000).map((feature) => html`<option value=${titleOf(feature)}/>`)}
            </datalist>`}
        </${Field}>
        <${SelectField} label="What to remove" value=${chosen} onChange=${setWhat} options=${options}/>
        <${TextField} label="Maximum lists per second" value=${pace} onInput=${setPace} error=${paceError}
          placeholder="no limit" inputmode="numeric"/>
        <${Button} kind="danger" icon="bin" type="submit" disabled=${!isName || paceError} refused=${refused}>Purge</${Button}>
      </div>
      <${Trouble} problem=${task.problem}/>
    </form>
    ${asking && html`
      <${Ask} ...${asking} input=${input} onClose=${() => setAsking(null)}
        onBegun=${() => { setAsking(null); go(withQuery({ type: "", feature: "" }), { replace: true }); onBegun(); }}/>`}`;
}

/** `feature` is null if there is none, and undefined if the caller may not know. */
function Ask({ entityType, name, feature, input, onClose, onBegun }) {
  const [typed, setTyped] = useState("");
  const task = useTask();
  const title = `${entityType}.${name}`;
  const versions = (feature?.versions ?? []).map(({ version }) => version)
    .filter((version) => input.version === undefined || version === input.version);
  const begin = () => task.run(async () => {
    await purge(entityType, name, input);
    onBegun();
  });
  return html`
    <${Dialog} title="Purge its items?" kind="danger" onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Keep them</${Button}>
      <${Button} kind="danger solid" disabled=${typed !== title || task.busy} onClick=${begin}>Purge permanently</${Button}>`}>
      <ul class="points">
        ${input.deleted_only || feature === null
          ? html`<li>The remaining items of deleted versions of <strong><bdi>${title}</bdi></strong> are removed. Lists of
              existing versions remain.</li>`
          : html`<li>All items of <strong><bdi>${title}</bdi></strong>${input.version !== undefined
              && html` (version <bdi>${versionName(input.version)}</bdi>)`} are removed. This cannot be undone. The definition remains.</li>
            ${feature && html`<${Weight} feature=${feature} versions=${versions}/>`}`}
        <li>The purge runs in the background and survives restarts. You can pause it.</li>
        <li>Items added during the purge may remain. Backups are not changed.</li>
      </ul>
      <${TextField} label=${html`Type <code class="typed"><bdi>${title}</bdi></code> to purge it`} value=${typed} onInput=${setTyped}/>
      <${Trouble} problem=${task.problem}/>
    </${Dialog}>`;
}
