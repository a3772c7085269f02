// Changes of one list: adding an item, removing a value, removing all.

import { html, useState } from "../lib/html.js";
import { titleOf } from "../lib/features.js";
import { dayTime, millisOf, nowNanos, readMoment, readTtl, rfc3339, relative, visible } from "../lib/format.js";
import { addItem, removalAsCurl, removeAll, removeItem, removeKey, removeValue } from "../lib/lists.js";
import { isOpen } from "../lib/session.js";
import { readValue, valueJson } from "../lib/values.js";
import { Button, Command, Dialog, Notice, SelectField, TextField, Trouble } from "../ui/parts.js";
import { Value } from "../ui/value.js";
import { useTask } from "../ui/use.js";

const HINTS = {
  string: "Any text.", int64: "A whole number.", double: "A number.", bytes: "Base64 with padding.",
  json: "JSON. It is stored in canonical form.",
};

/** The server's complaint about a key; null if it is fine. */
const keyError = (key) => (!key ? "Required." : new TextEncoder().encode(key).length > 512 ? "At most 512 bytes."
  : key.includes("\0") ? "It must not contain NUL." : null);

/** A value of the feature's type. */
export const ValueField = ({ type, value, onInput, error, label = "Value" }) =>
  type === "bool"
    ? html`<${SelectField} label=${label} value=${value || "true"} onChange=${onInput}
        options=${[["true", "true"], ["false", "false"]]}/>`
    : html`<${TextField} label=${label} area=${type === "json" || type === "string"} mono rows=${type === "json" ? 5 : 2}
        value=${value} onInput=${onInput} hint=${HINTS[type]} error=${error}/>`;

export function AddItem({ list, feature, ttl, isKeyed, onClose, onDone }) {
  const type = feature.value_type;
  const [text, setText] = useState(type === "bool" ? "true" : "");
  const [at, setAt] = useState("");
  const task = useTask();
  const read = readValue(type, text);
  const moment = readMoment(at);
  const millis = Number((moment.ns ?? nowNanos()) / 1000000n);
  const end = millis + readTtl(ttl).secs * 1000;
  const error = text || type === "string" ? read.error : null;
  const [key, setKey] = useState("");
  const keyed = isKeyed ? { value: key, error: key ? keyError(key) : null } : null;
  const add = () => task.run(async () => {
    const stamp = rfc3339(moment.ns ?? nowNanos());
    const { added } = await addItem(list, stamp, read.json, isKeyed ? key : undefined);
    onDone(added ? "The item was added" : "Nothing was stored: an item with this time has already expired");
  });
  return html`
    <${Dialog} title="Add an item" onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Cancel</${Button}>
      <${Button} kind="primary" onClick=${add} disabled=${task.busy || read.error || moment.error || (isKeyed && keyError(key))}>Add</${Button}>`}>
      <p class="muted">To <strong><bdi>${list.id}</bdi></strong> of <bdi>${titleOf(feature)}</bdi></p>
      ${keyed && html`<${TextField} label="Key" required ...${keyed} onInput=${setKey} hint="It occurs once in the list."/>`}
      <${ValueField} type=${type} value=${text} onInput=${setText} error=${error}/>
      <${TextField} label="Time" value=${at} onInput=${setAt} error=${moment.error} placeholder="now"
        hint="A date or time, or -1h for an hour ago. UTC if it has no zone. Default: now."/>
      ${!moment.error && (end <= Date.now()
        ? html`<${Notice} kind="warn"><p>An item of ${dayTime(millis)} has already expired and would not be stored.</p></${Notice}>`
        : html`<p class="fine">Visible until ${dayTime(end)}, ${relative(end)}. Adding it twice creates one item.</p>`)}
      <${Trouble} problem=${task.problem}/>
    </${Dialog}>`;
}

export function RemoveValue({ list, feature, item, onClose, onDone }) {
  const hasKey = item.key !== undefined;
  const [what, setWhat] = useState(hasKey ? "key" : "value");
  const task = useTask();
  const remove = () => task.run(async () => {
    const text = valueJson(item.value);
    const { removed } = await { item: () => removeItem(list, item.timestamp, text, item.key), key: () => removeKey(list, item.key),
      value: () => removeValue(list, text) }[what]();
    onDone(removed === 1 ? "1 item was removed" : `${removed} items were removed`);
  });
  return html`
    <${Dialog} title="Remove this value?" kind="danger" onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Keep it</${Button}>
      <${Button} kind="danger solid" onClick=${remove} disabled=${task.busy}>Remove</${Button}>`}>
      <${SelectField} label="What to remove" value=${what} onChange=${setWhat}
        options=${[...(hasKey ? [["key", "the item with this key"]] : []), ["value", "every item with this value"],
          ["item", "only this item"]]}/>
      ${what === "key" ? html`<p>This removes the item with the key <code><bdi>${visible(item.key)}</bdi></code> from the list of
            ${" "}<strong><bdi>${list.id}</bdi></strong>, regardless of its time and value. Its value is now:</p>`
        : what === "item" ? html`<p>This removes the item of ${dayTime(millisOf(item.timestamp))} from the list of
            ${" "}<strong><bdi>${list.id}</bdi></strong>. Others with this value remain:</p>`
        : html`<p>This removes every item with this value from the list of <strong><bdi>${list.id}</bdi></strong>, at any
            time:</p>`}
      <div class="quote"><${Value} type=${feature.value_type} value=${item.value}/></div>
      <${Trouble} problem=${task.problem}/>
      <details><summary>The same as a command</summary>
        <${Command} label="command" text=${removalAsCurl(list, { ...item, what }, !isOpen())}/></details>
    </${Dialog}>`;
}

export function RemoveAll({ list, feature, onClose, onDone }) {
  const [typed, setTyped] = useState("");
  const task = useTask();
  const remove = () => task.run(async () => {
    await removeAll(list);
    onDone("All items were removed");
  });
  return html`
    <${Dialog} title="Remove all items?" kind="danger" onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Keep them</${Button}>
      <${Button} kind="danger solid" disabled=${typed !== list.id || task.busy} onClick=${remove}>Remove all</${Button}>`}>
      <p>The list of <strong><bdi>${list.id}</bdi></strong> in <bdi>${titleOf(feature)}</bdi>
        ${list.version && html` (version <bdi>${list.version}</bdi>)`} will be empty. This cannot be undone.</p>
      <p class="fine">For its lists of all features, <a href=${`/console/erasure/entity?${new URLSearchParams({ type: list.type, id: list.id })}`}
        >erase the entity</a>.</p>
      <${TextField} label=${html`Type <code class="typed"><bdi>${list.id}</bdi></code> to remove them`} value=${typed}
        onInput=${setTyped}/>
      <${Trouble} problem=${task.problem}/>
    </${Dialog}>`;
}
