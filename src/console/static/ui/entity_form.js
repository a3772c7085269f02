// A form for an entity: its type and its ID, checked by the rules of the server.

import { html, useState } from "../lib/html.js";
import { idError } from "../lib/entities.js";
import { nameError } from "../lib/features.js";
import { Button, Field, TextField } from "./parts.js";

/** `types` are suggestions. */
export function EntityForm({ type, id, types = [], label, onGo }) {
  const [draft, setDraft] = useState({ type, id });
  const [isTried, setTried] = useState(false);
  const errors = { type: nameError(draft.type), id: draft.id ? idError(draft.id) : "Required." };
  const shown = (name) => (isTried ? errors[name] : null);
  const submit = (event) => {
    event.preventDefault();
    setTried(true);
    if (!errors.type && !errors.id) onGo(draft.type, draft.id);
  };
  return html`
    <form class="card purge" onSubmit=${submit} novalidate aria-label=${label}>
      <div class="choice-row">
        <${Field} label="Entity type" error=${shown("type")}>
          ${(ties) => html`
            <input class="input" type="text" list="entity-types" value=${draft.type} placeholder="user" autocomplete="off"
              spellcheck=${false} onInput=${(event) => setDraft({ ...draft, type: event.target.value })} ...${ties}/>
            <datalist id="entity-types">${types.slice(0, 2000).map((name) => html`<option value=${name}/>`)}</datalist>`}
        </${Field}>
        <${TextField} label="Entity ID" value=${draft.id} error=${shown("id")} placeholder="u-123"
          onInput=${(id) => setDraft({ ...draft, id })}/>
        <${Button} kind="primary" type="submit">Look</${Button}>
      </div>
    </form>`;
}
