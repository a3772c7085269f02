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
    <${PageHead} title="New entity type" about="Its entities may have bags: what is known of each of them."
      before=${html`<p class="crumbs"><a href="/console/entities">Entities</a></p>`}/>
    ${refused && html`<${Notice} kind="warn" title="You may look, and not create."><p>${refused}</p></${Notice}>`}
    <form class="split" onSubmit=${submit} novalidate>
      <div class="card form">
        <${TextField} label="Entity type" required hint="What has bags: user, customer, device. Lists name it, too." ...${field("entity_type")}/>
        <${TtlField} what=${BAG} ...${field("ttl")}/>
        ${!draft.ttl && html`<p class="fine before">Left empty, it is ${TTL_DEFAULT}: 20 years.</p>`}
        <${TextField} label="Description" area rows="2" hint="For those who find it later." ...${field("description")}/>
        <${TextField} label="Owner" hint="Whom to ask." ...${field("owner")}/>
        <${LabelsField} ...${field("labels")}/>
        <${Trouble} problem=${task.problem}/>
        <div class="actions">
          <${Button} kind="primary" type="submit" disabled=${task.busy} refused=${refused}>Create entity type</${Button}>
          <${LinkButton} href="/console/entities">Cancel</${LinkButton}>
        </div>
      </div>
      <aside class="card quiet-card" aria-label="What this means">
        <h2>What this means</h2>
        <ul class="points">
          <li><strong>A bag is one JSON object of an entity</strong>, of at most 256 KiB, without a schema.</li>
          <li><strong>Every write begins its life anew.</strong> The time to live may change, at any time and at once.</li>
          <li><strong>Indexes find bags by what they hold.</strong> They may be made at any time, also of millions of bags.</li>
          <li>Lists need no entity type, and stay when it is deleted.</li>
        </ul>
        <h3>The same on the command line</h3>
        <${Command} label="command" text=${command.slice(0, COMMAND_CHARS_MAX)}/>
      </aside>
    </form>`;
}
