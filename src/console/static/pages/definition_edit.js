// Changes the definition of a feature or an entity type. The change is shown first, and applies only to the state that
// was shown. After a concurrent change, the person sees both and chooses.

import { html, useState } from "../lib/html.js";
import { labelsText, readLabels, textError } from "../lib/features.js";
import { readTtl } from "../lib/format.js";
import { go } from "../lib/router.js";
import { Button, LinkButton, Notice, TextField, Trouble, say } from "../ui/parts.js";
import { Differences, LabelsField, TtlField, differences, fieldTitle } from "../ui/feature_parts.js";
import { PROPERTIES, PropertyFields, drafted, errorsOf, readDraft } from "../ui/properties.js";
import { useTask } from "../ui/use.js";

/** The `fields` of a definition. */
const only = (fields, definition) => Object.fromEntries(fields.map((field) => [field, definition[field] ?? null]));
/** The texts of the input fields. */
const asDraft = (state) => ({ ...state, ...drafted(state), labels: labelsText(state.labels) });

/**
 * `fields` can change, and `about` names the fixed parts. `load` gives { definition, etag } as they are now, and
 * `change` makes a patch of the definition that has an entity tag. `consequence` describes a change of the TTL.
 */
export function EditDefinition({ definition, etag, refused, fields, title, page, about, ttlWhat, consequence, load, change, onSaved }) {
  const [based, setBased] = useState({ definition, etag });
  const [draft, setDraft] = useState(asDraft(only(fields, definition)));
  const [isReviewing, setReviewing] = useState(false);
  const [theirs, setTheirs] = useState(null);
  const task = useTask();
  const labels = readLabels(draft.labels);
  const mine = only(fields, { ...draft, ...readDraft(draft), labels: labels.labels ?? based.definition.labels });
  const errors = {
    ttl: readTtl(draft.ttl).error, description: textError(draft.description, 2000), owner: textError(draft.owner, 200),
    labels: labels.error, ...errorsOf(draft),
  };
  const isFine = Object.values(errors).every((error) => !error);
  const changes = differences(only(fields, based.definition), mine);
  const patch = Object.fromEntries(changes.map(([name]) => [name, mine[name]]));
  const field = (name) => ({
    value: draft[name], error: errors[name],
    onInput: (text) => { setReviewing(false); setDraft((now) => ({ ...now, [name]: text })); },
  });
  const save = () => task.run(async () => {
    try {
      await change(patch, based.etag);
    } catch (problem) {
      if (problem.code !== "etag_mismatch") throw problem;
      setTheirs(await load());
      return;
    }
    say(`${title} was changed`);
    onSaved();
    go(page);
  });
  const settle = (chosen) => {
    setDraft(asDraft(chosen));
    setBased(theirs);
    setTheirs(null);
    setReviewing(true);
  };
  if (theirs) {
    return html`<${Race} base=${only(fields, based.definition)} mine=${mine} theirs=${only(fields, theirs.definition)} onSettle=${settle}/>`;
  }
  const happens = patch.ttl && consequence(based.definition.ttl, patch.ttl);
  return html`
    <form class="split" novalidate
      onSubmit=${(event) => { event.preventDefault(); if (isFine && changes.length) setReviewing(true); }}>
      <div class="card form">
        ${refused && html`<${Notice} kind="warn" title="You may view but not change this."><p>${refused}</p></${Notice}>`}
        <${TtlField} required what=${ttlWhat} ...${field("ttl")}/>
        <${PropertyFields} taken=${PROPERTIES.filter(({ name }) => fields.includes(name))} field=${field}/>
        <${TextField} label="Description" area rows="3" ...${field("description")}/>
        <${TextField} label="Owner" ...${field("owner")}/>
        <${LabelsField} ...${field("labels")}/>
        <p class="fine">${about}</p>
        ${!isReviewing && html`
          <div class="actions">
            <${Button} kind="primary" type="submit" disabled=${!isFine || !changes.length} refused=${refused}
              >Review the change</${Button}>
            <${LinkButton} href=${page}>Cancel</${LinkButton}>
          </div>`}
      </div>
      <section class="card" aria-label="Changes" aria-live="polite">
        <h2>Changes</h2>
        ${changes.length ? html`<${Differences} changes=${changes}/>` : html`<p class="muted">Nothing yet.</p>`}
        ${happens && html`<${Notice} kind="warn"><p>${happens}</p></${Notice}>`}
        <${Trouble} problem=${task.problem}/>
        ${isReviewing && changes.length > 0 && html`
          <div class="actions">
            <${Button} kind="primary" onClick=${save} disabled=${task.busy || !isFine} refused=${refused}
              >Save the change</${Button}>
            <${Button} onClick=${() => setReviewing(false)}>Continue editing</${Button}>
          </div>`}
      </section>
    </form>`;
}

/** After a concurrent change: the other person's change, and this one, field by field. */
function Race({ base, mine, theirs, onSettle }) {
  const rows = Object.keys(base).filter((name) =>
    differences({ [name]: base[name] }, { [name]: mine[name] }).length ||
    differences({ [name]: base[name] }, { [name]: theirs[name] }).length);
  const isMine = (name) => differences({ [name]: base[name] }, { [name]: mine[name] }).length > 0;
  const [picked, setPicked] = useState(Object.fromEntries(rows.map((name) => [name, isMine(name) ? "mine" : "theirs"])));
  const chosen = { ...theirs };
  for (const name of rows) if (picked[name] === "mine") chosen[name] = mine[name];
  const text = (name, value) =>
    (name === "labels" ? labelsText(value) : value) || html`<em class="muted">nothing</em>`;
  return html`
    <section class="card" aria-label="Both changes">
      <${Notice} kind="warn" title="Changed by someone else during your edit.">
        <p>Your changes were not saved. Choose a value for each field; you can review the change again before it is
          made.</p>
      </${Notice}>
      <div class="scroll-x" tabindex="0" role="region" aria-label="Both changes, field by field">
        <table class="table race">
          <thead><tr><th scope="col">Field</th><th scope="col">Original</th><th scope="col">Current</th>
            <th scope="col">Yours</th></tr></thead>
          <tbody>
            ${rows.map((name) => html`
              <tr key=${name}>
                <th scope="row">${fieldTitle(name)}</th>
                <td class="pre"><bdi>${text(name, base[name])}</bdi></td>
                ${[["theirs", theirs[name]], ["mine", mine[name]]].map(([whose, value]) => html`
                  <td class="pre"><label class="pick"><input type="radio" name=${`race-${name}`}
                    checked=${picked[name] === whose} onChange=${() => setPicked({ ...picked, [name]: whose })}/>
                    <bdi>${text(name, value)}</bdi></label></td>`)}
              </tr>`)}
          </tbody>
        </table>
      </div>
      <div class="actions">
        <${Button} kind="primary" onClick=${() => onSettle(chosen)}>Continue with this</${Button}>
        <${Button} onClick=${() => onSettle(theirs)}>Keep the current state</${Button}>
      </div>
    </section>`;
}
