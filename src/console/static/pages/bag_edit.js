// Changes a bag, as a whole or by a merge patch, and only in the state that was shown. After a concurrent
// change, it shows both changes.

import { html, useState } from "../lib/html.js";
import { BAG_BYTES_MAX, deleteBag, entityPath, loadBag, patchBag, putBag } from "../lib/entities.js";
import { group } from "../lib/format.js";
import { changedMembers, members, objectOf, pretty } from "../lib/json.js";
import { curl } from "../lib/shell.js";
import { Button, Command, Dialog, Notice, SelectField, TextField, Trouble } from "../ui/parts.js";
import { BagDifferences } from "../ui/bags.js";
import { useTask } from "../ui/use.js";

const EMPTY = "{}";
/** A longer command does not help. */
const COMMAND_CHARS_MAX = 2000;
/** Only the server checks whether the text is an object, and whether a key occurs twice. */
function syntaxError(text) {
  try {
    JSON.parse(text);
  } catch (error) {
    return `Not valid JSON: ${error.message}`;
  }
  const bytes = new TextEncoder().encode(text).length;
  return bytes > BAG_BYTES_MAX ? `A bag must have at most ${group(BAG_BYTES_MAX)} bytes; this has ${group(bytes)}.` : null;
}

const isObject = (text) => /^\s*\{/.test(text);

/** `bag` is the shown bag; null if there is none. */
export function EditBag({ type, id, bag, refused, onClose, onDone }) {
  const [based, setBased] = useState(bag);
  const [how, setHow] = useState("put");
  const [draft, setDraft] = useState(pretty(bag?.text ?? EMPTY));
  const [patch, setPatch] = useState(EMPTY);
  const [theirs, setTheirs] = useState(undefined);
  const task = useTask();
  const isPatch = how === "patch";
  const [text, setText] = isPatch ? [patch, setPatch] : [draft, setDraft];
  const error = syntaxError(text);
  const changes = !error && !isPatch && isObject(text) ? changedMembers(based?.text ?? EMPTY, text) : [];
  const save = () => task.run(async () => {
    try {
      await (isPatch ? patchBag(type, id, text, based.etag) : putBag(type, id, text, based?.etag));
    } catch (problem) {
      if (!["etag_mismatch", "bag_not_found"].includes(problem.code)) throw problem;
      setTheirs(await loadBag(type, id));
      return;
    }
    onDone(based ? "The bag was changed" : "The bag was put");
  });
  const settle = (text) => {
    setBased(theirs);
    if (!isPatch) setDraft(pretty(text));
    setTheirs(undefined);
  };
  if (theirs !== undefined) {
    return html`<${Race} base=${based?.text ?? EMPTY} mine=${isPatch ? null : text} theirs=${theirs?.text ?? EMPTY} isGone=${theirs === null}
      onSettle=${settle} onLeave=${() => onDone("The bag remains unchanged")}/>`;
  }
  const method = isPatch ? "PATCH" : "PUT";
  const condition = based ? { "If-Match": based.etag } : { "If-None-Match": "*" };
  const command = error ? "" : curl(entityPath(type, id), {}, { method, headers: condition, body: text.replace(/\n\s*/g, " ") });
  return html`
    <form class="card" novalidate aria-label="The bag" onSubmit=${(event) => { event.preventDefault(); if (!error) save(); }}>
      <div class="card-head"><h2>${based ? "Edit the bag" : "Put a bag"}</h2></div>
      ${based && html`<${SelectField} label="Send as" value=${how} onChange=${setHow}
        options=${[["put", "the whole bag"], ["patch", "a merge patch (only the changes)"]]}/>`}
      <${TextField} label=${isPatch ? "Merge patch" : "Properties"} area mono rows=${Math.min(24, Math.max(8, text.split("\n").length + 1))}
        value=${text} onInput=${setText} error=${error}
        hint=${isPatch ? "Members are set, null removes a member, objects are merged, arrays are replaced." : "A JSON object."}/>
      ${changes.length > 0 && html`<h3 class="before">Changes</h3><${BagDifferences} changes=${changes} label="Changes"/>`}
      <${Trouble} problem=${task.problem}/>
      <div class="actions after">
        <${Button} kind="primary" type="submit" disabled=${task.busy || error || (based && !isPatch && isObject(text) && !changes.length)}
          refused=${refused}>${based ? "Save the change" : "Put the bag"}</${Button}>
        <${Button} onClick=${onClose}>Cancel</${Button}>
      </div>
      ${command && command.length < COMMAND_CHARS_MAX && html`
        <details class="after"><summary>The same as a command</summary><${Command} label="command" text=${command}/></details>`}
    </form>`;
}

/** After a concurrent change: the other person's change, and this one. */
function Race({ base, mine, theirs, isGone, onSettle, onLeave }) {
  const [their, own] = [changedMembers(base, theirs), mine === null ? [] : changedMembers(base, mine)];
  const merged = () => {
    const found = members(theirs);
    for (const [key, , after] of own) {
      if (after === undefined) found.delete(key);
      else found.set(key, after);
    }
    return objectOf(found);
  };
  return html`
    <section class="card" aria-label="Both changes">
      <${Notice} kind="warn" title=${isGone ? "Deleted by someone else during your edit." : "Changed by someone else during your edit."}>
        <p>Your changes were not saved. You can review them again before you save.</p></${Notice}>
      <div class="columns">
        <div><h2 class="before">Their changes</h2>${their.length ? html`<${BagDifferences} changes=${their} label="Their changes"/>`
          : html`<p class="muted">No properties.</p>`}</div>
        ${mine !== null && html`<div><h2 class="before">Your changes</h2><${BagDifferences} changes=${own} label="Your changes"/></div>`}
      </div>
      <div class="actions after">
        ${mine === null ? html`<${Button} kind="primary" disabled=${isGone} onClick=${() => onSettle()}>Continue with the patch</${Button}>` : html`
          <${Button} kind="primary" onClick=${() => onSettle(merged())}>Apply my changes to theirs</${Button}>
          <${Button} onClick=${() => onSettle(mine)}>Replace with my version</${Button}>`}
        <${Button} onClick=${onLeave}>Keep the current state</${Button}>
      </div>
    </section>`;
}

export function DeleteBag({ type, id, bag, onClose, onDone }) {
  const task = useTask();
  const remove = () => task.run(async () => {
    await deleteBag(type, id, bag.etag);
    onDone("The bag was deleted");
  });
  return html`
    <${Dialog} title="Delete this bag?" kind="danger" onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Keep it</${Button}>
      <${Button} kind="danger solid" onClick=${remove} disabled=${task.busy}>Delete</${Button}>`}>
      <p>The bag of <strong><bdi>${id}</bdi></strong> and its index entries are deleted. This cannot be undone. Its lists remain.</p>
      ${task.problem?.code === "etag_mismatch"
        ? html`<${Notice} kind="warn" title="It changed after you opened it.">
            <p>Nothing was deleted. Close this dialog and read the bag again.</p></${Notice}>`
        : html`<${Trouble} problem=${task.problem}/>`}
    </${Dialog}>`;
}
