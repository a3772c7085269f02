// The list explorer: which list, and which of its items.

import { html, useMemo, useState } from "../lib/html.js";
import { deprecation, findFeature, loadFeature, loadFeatures, titleOf, versionName } from "../lib/features.js";
import { dayTime, readMoment, rfc3339 } from "../lib/format.js";
import { go, usePlace } from "../lib/router.js";
import { refusal, session } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { Button, Empty, Field, LinkButton, Loading, Notice, PageHead, TextField, Trouble } from "../ui/parts.js";
import { useLoad, useTask } from "../ui/use.js";
import { Entities } from "./list_entities.js";
import { ListView } from "./list_view.js";

/** The list and bounds in the address. */
const asked = (query) => Object.fromEntries(
  ["type", "feature", "version", "id", "min", "max", "order", "limit"].map((name) => [name, query.get(name) ?? ""]),
);

export function Lists() {
  useStore(session);
  const { query } = usePlace();
  const wanted = asked(query);
  const features = useLoad((signal) => loadFeatures({}, () => {}, signal), []);
  const isNamed = wanted.type && wanted.feature;
  const loaded = useLoad(
    async (signal) => (isNamed ? (await loadFeature(wanted.type, wanted.feature, signal)).feature : null),
    [wanted.type, wanted.feature],
  );
  const refused = isNamed ? refusal("lists:read", wanted.type, wanted.feature) : refusal("lists:read");
  const feature = loaded.data;
  return html`
    <${PageHead} title="Lists" about="The items of one entity."/>
    <${Choice} key=${JSON.stringify(wanted)} wanted=${wanted} features=${features.data} feature=${feature}/>
    <${Trouble} problem=${features.problem} onRetry=${features.again}/>
    ${refused ? html`<${Notice} kind="warn" title="You may not read lists here."><p>${refused}</p></${Notice}>`
      : isNamed && loaded.problem ? html`<${Trouble} problem=${loaded.problem} onRetry=${loaded.again}/>`
      : isNamed && wanted.id && feature ? html`<${ListView} wanted=${wanted} feature=${feature}/>`
      : isNamed && !loaded.data ? html`<${Loading} what="Loading"/>`
      : isNamed ? html`<${Entities} wanted=${wanted} feature=${feature}/>`
      : features.data && html`<${Start} features=${features.data.features}/>`}`;
}

const Start = ({ features }) => features.length
  ? html`
    <${Empty} icon="lists" title="Which list?">
      <p>A list belongs to an entity and a feature, such as the stories that <em>user u-123</em> was shown. Choose the feature
        and enter the entity, or leave it out to list the entities.</p>
    </${Empty}>`
  : html`
    <${Empty} icon="lists" title="No features yet"
      actions=${html`<${LinkButton} kind="primary" icon="plus" href="/console/features/new">New feature</${LinkButton}>`}>
      <p>Create a feature first.</p>
    </${Empty}>`;

/** Which list, and between which times. It becomes the address when it is sent. */
function Choice({ wanted, features: loaded, feature }) {
  const features = loaded?.features;
  // Until all features are known, only the server can tell that one does not exist.
  const isWhole = loaded && !loaded.more;
  const [missing, setMissing] = useState("");
  const task = useTask();
  const [draft, setDraft] = useState(wanted);
  const [name, setName] = useState(wanted.feature ? `${wanted.type}.${wanted.feature}` : "");
  const [tried, setTried] = useState(false);
  const set = (changes) => setDraft((now) => ({ ...now, ...changes }));
  const byTitle = useMemo(() => new Map((features ?? []).map((feature) => [titleOf(feature), feature])), [features]);
  const picked = byTitle.get(name) ?? (name === `${wanted.type}.${wanted.feature}` ? feature : undefined);
  const versions = picked?.versions ?? [];
  const [min, max] = [readMoment(draft.min), readMoment(draft.max)];
  const errors = {
    name: !name ? "Choose a feature." : !picked && (isWhole || missing === name) ? "Feature not found." : null,
    id: new TextEncoder().encode(draft.id).length > 512 ? "At most 512 bytes."
      : [".", ".."].includes(draft.id) ? "Not . or .." : null,
    min: min.error, max: max.error,
  };
  const submit = (event) => {
    event.preventDefault();
    setTried(true);
    if (Object.values(errors).some(Boolean) || task.busy) return;
    if (picked) show(picked);
    else task.run(async () => {
      const found = await findFeature(name);
      if (found) show(found);
      else setMissing(name);
    });
  };
  const show = (picked) => {
    const query = new URLSearchParams({ type: picked.entity_type, feature: picked.name });
    if (draft.id) query.set("id", draft.id);
    if (draft.version && picked.versions.some(({ version }) => version === draft.version)) query.set("version", draft.version);
    if (min.ns !== null) query.set("min", rfc3339(min.ns));
    if (max.ns !== null) query.set("max", rfc3339(max.ns));
    if (draft.order) query.set("order", draft.order);
    if (draft.limit) query.set("limit", draft.limit);
    go(`/console/lists?${query}`);
  };
  const shown = (field) => (tried ? errors[field] : null);
  // The moment that a text means, unless it is that moment already.
  const readAs = (text, bound) => (bound.ns && text !== rfc3339(bound.ns) ? `That is ${dayTime(Number(bound.ns / 1000000n))}.` : "");
  return html`
    <form class="card choice" onSubmit=${submit} novalidate aria-label="Which list">
      <div class="choice-row">
        <${Field} label="Feature" error=${shown("name")}>
          ${(ties) => html`
            <input class="input" type="text" list="features" value=${name} placeholder="user.story_presented"
              autocomplete="off" spellcheck=${false} onInput=${(event) => setName(event.target.value)} ...${ties}/>
            <datalist id="features">
              ${(features ?? []).slice(0, 2000).map((feature) => html`<option value=${titleOf(feature)}/>`)}
            </datalist>`}
        </${Field}>
        <${Field} label="Version">
          ${(ties) => html`
            <select class="input" value=${draft.version} onChange=${(event) => set({ version: event.target.value })} ...${ties}>
              ${(versions.length ? versions : [{ version: "" }]).map(({ version }) => html`
                <option value=${version} selected=${version === draft.version}>${versionName(version)}${picked
                  && deprecation(picked, version) !== undefined ? " (deprecated)" : ""}</option>`)}
            </select>`}
        </${Field}>
        <${TextField} label="Entity ID" value=${draft.id} onInput=${(id) => set({ id })} error=${shown("id")}
          placeholder="u-123"/>
        <${Button} kind="primary" type="submit">Show items</${Button}>
      </div>
      <details class="bounds" open=${Boolean(wanted.min || wanted.max)}>
        <summary>Time range</summary>
        <div class="choice-row">
          <${TextField} label="From" value=${draft.min} onInput=${(min) => set({ min })} error=${shown("min")}
            placeholder="-7d" hint=${readAs(draft.min, min) || "A date or time, now, or -7d for 7 days ago. UTC if it has no zone."}/>
          <${TextField} label="To" value=${draft.max} onInput=${(max) => set({ max })} error=${shown("max")}
            placeholder="2024-08-29 16:44" hint=${readAs(draft.max, max) || "Both bounds are inclusive."}/>
          <div class="chips" role="group" aria-label="Common time ranges">
            ${[["-1h", "last hour"], ["-1d", "last day"], ["-7d", "last 7 days"], ["", "any time"]].map(([ago, words]) => html`
              <button type="button" class="chip" aria-pressed=${draft.min === ago && !draft.max}
                onClick=${() => set({ min: ago, max: "" })}>${words}</button>`)}
          </div>
        </div>
      </details>
      <${Trouble} problem=${task.problem}/>
    </form>`;
}
