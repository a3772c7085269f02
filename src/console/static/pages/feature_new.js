// A new feature: its value type, its TTL, and their effects.

import { html, useEffect, useState } from "../lib/html.js";
import { takesField } from "../lib/document.js";
import { TYPES, createFeature, nameError, pageOf, readLabels, textError } from "../lib/features.js";
import { readTtl } from "../lib/format.js";
import { go, usePlace } from "../lib/router.js";
import { refusal, session } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { Button, Command, LinkButton, Notice, PageHead, TextField, Trouble, say } from "../ui/parts.js";
import { IdentityChoice, LabelsField, TtlField } from "../ui/feature_parts.js";
import { PROPERTIES, PropertyFields, drafted, errorsOf, readDraft, useTaken } from "../ui/properties.js";
import { useLoad, useTask } from "../ui/use.js";

/** A draft outlives a reload. */
const DRAFT = "liststore.draft.feature";
const NOTHING = { entity_type: "", name: "", value_type: "string", ttl: "30d", description: "", owner: "", labels: "",
  ...drafted({}), identity: "item", keep: "newest", bucket: "" };

function useDraft(given) {
  const [draft, setDraft] = useState(() => {
    try {
      return { ...NOTHING, ...JSON.parse(sessionStorage.getItem(DRAFT) ?? "{}"), ...given };
    } catch {
      return { ...NOTHING, ...given };
    }
  });
  useEffect(() => {
    try {
      sessionStorage.setItem(DRAFT, JSON.stringify(draft));
    } catch {
      // It is too large for the storage, and lasts as long as the page.
    }
  }, [draft]);
  return [draft, (changes) => setDraft((now) => ({ ...now, ...changes })), () => sessionStorage.removeItem(DRAFT)];
}

function check(draft) {
  const labels = readLabels(draft.labels);
  const errors = {
    entity_type: nameError(draft.entity_type), name: nameError(draft.name), ttl: readTtl(draft.ttl).error,
    description: textError(draft.description, 2000), owner: textError(draft.owner, 200), labels: labels.error,
    ...errorsOf(draft),
  };
  const input = {
    entity_type: draft.entity_type, name: draft.name, value_type: draft.value_type, ttl: draft.ttl,
    ...Object.fromEntries(Object.entries(readDraft(draft)).filter(([, value]) => value !== null)),
    ...(draft.identity === "item" ? draft.bucket && { bucket: draft.bucket } : { identity: draft.identity, keep: draft.keep }),
    ...(draft.description && { description: draft.description }), ...(draft.owner && { owner: draft.owner }),
    ...(Object.keys(labels.labels ?? {}).length && { labels: labels.labels }),
  };
  return { errors, isFine: Object.values(errors).every((error) => !error), input };
}

const COMMAND_CHARS_MAX = 2000;
const quoted = (text) => (/^[A-Za-z0-9_./:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function command(input) {
  const words = ["liststore feature create", quoted(input.entity_type || "user"), quoted(input.name || "NAME"),
    "--value-type", input.value_type, "--ttl", quoted(input.ttl || "30d")];
  if (input.identity) words.push("--identity", input.identity, "--keep", input.keep);
  if (input.bucket) words.push("--bucket", input.bucket);
  for (const { name, option } of PROPERTIES) if (input[name]) words.push(option, quoted(String(input[name])));
  if (input.owner) words.push("--owner", quoted(input.owner));
  return words.join(" ").slice(0, COMMAND_CHARS_MAX);
}

export function FeatureNew() {
  useStore(session);
  const { query } = usePlace();
  const given = query.get("entity") ? { entity_type: query.get("entity") } : {};
  const [draft, change, forget] = useDraft(given);
  const [tried, setTried] = useState(false);
  const [touched, setTouched] = useState({});
  const task = useTask();
  const taken = useTaken("create_feature");
  const takesIdentity = useLoad(() => takesField("create_feature", "identity"), []).data;
  const { errors, isFine, input } = check(draft);
  const refused = refusal("features:write");
  const shown = (name) =>
    (tried || touched[name]) && errors[name] ? errors[name]
      : task.problem?.field === name ? task.problem.detail : null;
  const field = (name) => ({
    value: draft[name], onInput: (text) => change({ [name]: text }), error: shown(name), name,
    onBlur: () => draft[name] && setTouched((now) => ({ ...now, [name]: true })),
  });
  const submit = (event) => {
    event.preventDefault();
    setTried(true);
    if (!isFine) {
      requestAnimationFrame(() => document.querySelector("[aria-invalid=true]")?.focus());
      return;
    }
    task.run(async () => {
      await createFeature(input);
      forget();
      say(`${input.entity_type}.${input.name} was created`);
      go(pageOf(input));
    });
  };
  return html`
    <${PageHead} title="New feature" about="A list that every entity of a kind has."/>
    ${refused && html`<${Notice} kind="warn" title="You may not create one."><p>${refused}</p></${Notice}>`}
    <form class="split" onSubmit=${submit} novalidate>
      <div class="card form">
        <div class="columns">
          <${TextField} label="Entity type" required hint="The kind of entity, such as user, customer or device." ...${field("entity_type")}/>
          <${TextField} label="Name" required hint="The content of the list, such as story_presented." ...${field("name")}/>
        </div>
        <${TypeChoice} value=${draft.value_type} onChange=${(value_type) => change({ value_type })}/>
        <${TtlField} required value=${draft.ttl} onInput=${(ttl) => change({ ttl })} error=${shown("ttl")}/>
        <${PropertyFields} taken=${taken} field=${field}/>
        ${takesIdentity && html`<${IdentityChoice} draft=${draft} onChange=${change}/>`}
        <${TextField} label="Description" area rows="2" hint="The purpose, for other users." ...${field("description")}/>
        <${TextField} label="Owner" hint="The responsible team or person." ...${field("owner")}/>
        <${LabelsField} ...${field("labels")}/>
        <${Trouble} problem=${task.problem}/>
        <div class="actions">
          <${Button} kind="primary" type="submit" disabled=${task.busy} refused=${refused}>Create feature</${Button}>
          <${LinkButton} href="/console/features">Cancel</${LinkButton}>
        </div>
      </div>
      <aside class="card quiet-card" aria-label="About this">
        <h2>About this</h2>
        <ul class="points">
          <li><strong>The names and the value type cannot be changed.</strong> For another type, create another feature.</li>
          <li><strong>You can change the time to live</strong> at any time, with immediate effect: a shorter one hides items.</li>
          <li><strong>The same value at the same time is one item.</strong> Adding again is always safe.</li>
          <li>A value must have at most 64,000 bytes.</li>
        </ul>
        <h3>The same on the command line</h3>
        <${Command} label="command" text=${command(input)}/>
      </aside>
    </form>`;
}

const TypeChoice = ({ value, onChange }) => html`
  <fieldset class="types">
    <legend>Value type</legend>
    ${Object.entries(TYPES).map(([type, [title, example, about]]) => html`
      <label class="type-card">
        <input type="radio" name="value_type" value=${type} checked=${type === value} onChange=${() => onChange(type)}/>
        <span class="type-title"><strong>${type}</strong> <span class="muted">${title}</span></span>
        <code class="example">${example}</code>
        ${type === value && html`<span class="fine">${about}</span>`}
      </label>`)}
  </fieldset>`;
