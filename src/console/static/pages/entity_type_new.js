// A new entity type: its entities may have bags from then on.

import { html, useState } from "../lib/html.js";
import { TTL_DEFAULT, createType, pageOfType } from "../lib/entities.js";
import { nameError, readLabels, textError } from "../lib/features.js";
import { readTtl } from "../lib/format.js";
import { go, usePlace } from "../lib/router.js";
import { refusal, session } from "../lib/session.js";
import { shell } from "../lib/shell.js";
import { useStore } from "../lib/store.js";
import { Button, Command, LinkButton, Notice, PageHead, TextField, Trouble, say } from "../ui/parts.js";
import { BAG, LabelsField, TtlField } from "../ui/feature_parts.js";
import { useTask } from "../ui/use.js";

const COMMAND_CHARS_MAX = 2000;

export function EntityTypeNew() {
  useStore(session);
  const given = usePlace().query.get("type") ?? "";
  const [draft, setDraft] = useState({ entity_type: given, ttl: "365d", description: "", owner: "", labels: "" });
  const [isTried, setTried] = useState(false);
  const task = useTask();
  const refused = refusal("features:write");
  const labels = readLabels(draft.labels);
  const errors = {
    entity_type: nameError(draft.entity_type), ttl: draft.ttl ? readTtl(draft.ttl).error : null,
    description: textError(draft.description, 2000), owner: textError(draft.owner, 200), labels: labels.error,
  };
  const input = Object.fromEntries(Object.entries({ ...draft, labels: Object.keys(labels.labels ?? {}).length && labels.labels })
    .filter(([, value]) => value));
  const field = (name) => ({
    value: draft[name], name, onInput: (text) => setDraft((now) => ({ ...now, [name]: text })),
    error: (isTried || draft[name]) && errors[name] ? errors[name] : task.problem?.field === name ? task.problem.detail : null,
  });
  const submit = (event) => {
    event.preventDefault();
    setTried(true);
    if (Object.values(errors).some(Boolean)) {
      requestAnimationFrame(() => document.querySelector("[aria-invalid=true]")?.focus());
      return;
    }
    task.run(async () => {
      await createType(input);
      say(`${input.entity_type} was created`);
      go(pageOfType(input.entity_type));
    });
  };
  const command = shell("liststore entity-type create", [["--ttl", draft.ttl], ["--owner", draft.owner]], [draft.entity_type || "user"]);
  return html`
    <${PageHead} title="New entity type" about="Its entities can have bags of properties."
      before=${html`<p class="crumbs"><a href="/console/entities">Entities</a></p>`}/>
    ${refused && html`<${Notice} kind="warn" title="You may not create one."><p>${refused}</p></${Notice}>`}
    <form class="split" onSubmit=${submit} novalidate>
      <div class="card form">
        <${TextField} label="Entity type" required hint="The kind of entity, such as user, customer or device. Lists use it too." ...${field("entity_type")}/>
        <${TtlField} what=${BAG} ...${field("ttl")}/>
        ${!draft.ttl && html`<p class="fine before">Default: ${TTL_DEFAULT} (20 years).</p>`}
        <${TextField} label="Description" area rows="2" hint="The purpose, for other users." ...${field("description")}/>
        <${TextField} label="Owner" hint="The responsible team or person." ...${field("owner")}/>
        <${LabelsField} ...${field("labels")}/>
        <${Trouble} problem=${task.problem}/>
        <div class="actions">
          <${Button} kind="primary" type="submit" disabled=${task.busy} refused=${refused}>Create entity type</${Button}>
          <${LinkButton} href="/console/entities">Cancel</${LinkButton}>
        </div>
      </div>
      <aside class="card quiet-card" aria-label="About this">
        <h2>About this</h2>
        <ul class="points">
          <li><strong>A bag is one JSON object of an entity</strong>, of at most 256 KiB, without a schema.</li>
          <li><strong>Every write restarts the time to live.</strong> You can change the time to live at any time, with immediate effect.</li>
          <li><strong>Indexes find bags by their properties.</strong> You can create indexes at any time, even for millions of bags.</li>
          <li>Lists do not need an entity type, and remain when it is deleted.</li>
        </ul>
        <h3>The same on the command line</h3>
        <${Command} label="command" text=${command.slice(0, COMMAND_CHARS_MAX)}/>
      </aside>
    </form>`;
}
