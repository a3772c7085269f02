// API keys: made, shown once, rotated and revoked.

import { html, useState } from "../lib/html.js";
import { call, get } from "../lib/api.js";
import { readTtl, ttlWords } from "../lib/format.js";
import { isOpen, refresh, session, signIn } from "../lib/session.js";
import { Badge, Button, Copy, Dialog, Empty, Loading, Notice, TextField, Time, Trouble, say } from "../ui/parts.js";
import { useLoad, useTask } from "../ui/use.js";

const ROLES = {
  reader: "reads lists and features", writer: "reads and changes lists", editor: "changes features",
  scaler: "resizes the pool", operator: "reads metrics and features", admin: "full access, including keys",
};
const STATES = { active: "good", expired: "warn", revoked: "bad" };
const OPEN = "/v1/keys";

async function loadKeys(signal) {
  const keys = [];
  let token;
  do {
    const { data } = await get(OPEN, { page_size: 1000, page_token: token }, { signal });
    keys.push(...data.keys);
    token = data.next_page_token;
  } while (token);
  return keys;
}

export function Keys({ refused }) {
  const loaded = useLoad(async (signal) => (refused ? [] : loadKeys(signal)), [refused]);
  const [open, setOpen] = useState(null);
  const [all, setAll] = useState(false);
  const keys = (loaded.data ?? []).filter((key) => all || key.state === "active");
  const hidden = (loaded.data ?? []).length - (loaded.data ?? []).filter((key) => key.state === "active").length;
  const close = () => setOpen(null);
  const done = (words) => { close(); say(words); loaded.again(); };
  const made = (result) => { loaded.again(); setOpen(["made", result]); };
  const create = html`
    <${Button} kind="primary" icon="plus" refused=${refused} onClick=${() => setOpen(["new"])}>New key</${Button}>`;
  return html`
    <section class="card" aria-labelledby="keys">
      <div class="card-head"><h2 id="keys">API keys</h2><div class="actions">
        ${hidden > 0 && html`<label class="check"><input type="checkbox" checked=${all}
          onChange=${(event) => setAll(event.target.checked)}/> Include expired and revoked keys (${hidden})</label>`}
        ${create}</div></div>
      <${Trouble} problem=${loaded.problem} onRetry=${loaded.again}/>
      ${refused ? html`<${Empty} icon="access" title="You may not read keys"><p>${refused}</p></${Empty}>`
        : !loaded.data ? html`<${Loading} what="Loading keys"/>`
        : keys.length ? html`<${Table} keys=${keys} onOpen=${setOpen}/>`
        : html`<${Empty} icon="access" title=${hidden ? "No key is active" : "No keys yet"}>
            <p>A service sends its key with each request. Create a separate key for each service, with only the roles it needs.</p></${Empty}>`}
    </section>
    ${open?.[0] === "new" && html`<${NewKey} onClose=${close} onMade=${made}/>`}
    ${open?.[0] === "made" && html`<${Made} made=${open[1]} onClose=${close}/>`}
    ${open?.[0] === "rotate" && html`<${Rotate} of=${open[1]} onClose=${close} onMade=${made}/>`}
    ${open?.[0] === "revoke" && html`<${Revoke} of=${open[1]} onClose=${close} onDone=${done}/>`}`;
}

const Table = ({ keys, onOpen }) => html`
  <table class="table cards-when-narrow">
    <caption class="unseen">API keys</caption>
    <thead><tr><th scope="col">Name</th><th scope="col">Roles</th><th scope="col">For</th><th scope="col">State</th>
      <th scope="col">Last used</th><th scope="col">Expires</th>
      <th scope="col"><span class="unseen">Actions</span></th></tr></thead>
    <tbody>
      ${keys.map((key) => html`
        <tr key=${key.id}>
          <td class="main-cell"><strong><bdi>${key.name}</bdi></strong>${isMine(key) && html` <${Badge}>you</${Badge}>`}
            <div class="fine"><code>${key.id}</code></div></td>
          <td>${key.roles.map((role) => html`<${Badge}>${role}</${Badge}> `)}</td>
          <td data-title="For">${key.scopes.includes("*") ? html`<span class="muted">all</span>`
            : key.scopes.map((scope) => html`<div><code>${scope}</code></div>`)}</td>
          <td><${Badge} kind=${STATES[key.state]}>${key.state}</${Badge}></td>
          <td data-title="Last used">${key.last_used_at ? html`<${Time} at=${key.last_used_at} kind="relative"/>`
            : html`<span class="muted">not yet</span>`}</td>
          <td data-title="Expires">${key.expires_at ? html`<${Time} at=${key.expires_at} kind="relative"/>`
            : html`<span class="muted">never</span>`}</td>
          <td class="row-actions">${key.state !== "revoked" && html`
            <${Button} kind="small" onClick=${() => onOpen(["rotate", key])} label=${`Rotate ${key.name}`}>Rotate</${Button}>
            ${" "}<${Button} kind="small danger" onClick=${() => onOpen(["revoke", key])} label=${`Revoke ${key.name}`}>Revoke</${Button}>`}</td>
        </tr>`)}
    </tbody>
  </table>`;

const isMine = (key) => key.state !== "revoked" && session.get().me?.name === `key:${key.name}`;

function NewKey({ onClose, onMade }) {
  const open = isOpen();
  const [name, setName] = useState(open ? "admin" : "");
  const [roles, setRoles] = useState(open ? ["admin"] : ["reader"]);
  const [scopes, setScopes] = useState("");
  const [expires, setExpires] = useState(open ? "" : "90d");
  const task = useTask();
  const list = scopes.split(/[\s,]+/).filter(Boolean);
  const life = expires ? readTtl(expires) : {};
  const locksOut = open && (!roles.includes("admin") || list.length > 0);
  const make = () => task.run(async () => {
    const body = { name, roles, ...(list.length && { scopes: list }), ...(expires && { expires }) };
    const { data } = await call("POST", OPEN, { body });
    // The server is no longer open: the person who created its first key continues with that key.
    if (open && !locksOut) await signIn(data.token);
    else if (open) await refresh();
    onMade(data);
  });
  const toggle = (role) => setRoles(roles.includes(role) ? roles.filter((other) => other !== role) : [...roles, role]);
  const at = (field) => (task.problem?.field?.startsWith(field) ? task.problem.detail : null);
  return html`
    <${Dialog} title="New API key" onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Cancel</${Button}>
      <${Button} kind="primary" onClick=${make} disabled=${task.busy || !name || !roles.length || life.error}>Create the key</${Button}>`}>
      ${open && html`<${Notice} kind="warn" title="This ends open access.">
        <p>${locksOut
          ? "Without the role admin for all features, further keys can only be created on the server's machine."
          : "The console then uses this key. Every service needs its own key from then on."}</p></${Notice}>`}
      <${TextField} label="Name" required value=${name} onInput=${setName} error=${at("name")} placeholder="feed"
        hint="The service or person that uses the key. The audit trail shows this name."/>
      <fieldset><legend>Roles</legend>
        ${Object.entries(ROLES).map(([role, about]) => html`
          <label class="check"><input type="checkbox" checked=${roles.includes(role)} onChange=${() => toggle(role)}/>
            <span><strong>${role}</strong> <span class="muted">${about}</span></span></label>`)}
      </fieldset>
      <${TextField} label="Only for these features" area mono rows="2" value=${scopes} onInput=${setScopes} error=${at("scopes")}
        placeholder=${"user.*"} hint="Such as user.*, customer.purchase or user.story_*, one per line. Default: all."/>
      <${TextField} label="Expires after" value=${expires} onInput=${setExpires} error=${life.error ?? at("expires")}
        placeholder="never" hint=${life.secs ? `${ttlWords(expires)} from now.` : "Such as 90d. Default: never."}/>
      ${!["name", "scopes", "expires"].some(at) && html`<${Trouble} problem=${task.problem}/>`}
    </${Dialog}>`;
}

/** A token is shown only this once. */
const Made = ({ made: { token, key }, onClose }) => html`
  <${Dialog} title="Here is the key" onClose=${onClose}
    actions=${html`<${Button} kind="primary" onClick=${onClose}>I have stored it</${Button}>`}>
    <${Notice} kind="warn" title="Store the key now."><p>It is shown only once and cannot be shown again.</p></${Notice}>
    <p>The key of <strong><bdi>${key.name}</bdi></strong>; send it as <code>Authorization: Bearer …</code>:</p>
    <div class="token"><code tabindex="0" aria-label="The key">${token}</code><${Copy} text=${token} kind="" label="Copy the key">Copy</${Copy}></div>
  </${Dialog}>`;

function Rotate({ of, onClose, onMade }) {
  const [overlap, setOverlap] = useState("1d");
  const task = useTask();
  const life = readTtl(overlap);
  const rotate = () => task.run(async () => {
    const { data } = await call("POST", `${OPEN}/${encodeURIComponent(of.id)}/rotate`, { body: { overlap } });
    if (isMine(of)) await signIn(data.token);
    onMade(data);
  });
  return html`
    <${Dialog} title=${`Rotate ${of.name}?`} onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Cancel</${Button}>
      <${Button} kind="primary" onClick=${rotate} disabled=${task.busy || life.error}>Rotate</${Button}>`}>
      <p>The key gets a new secret. The current secret stays valid for a while, so that its service can switch. Older secrets
        end immediately.</p>
      <${TextField} label="The current secret stays valid for" value=${overlap} onInput=${setOverlap} error=${life.error}
        hint=${life.secs ? `${ttlWords(overlap)} from now.` : ""}/>
      <${Trouble} problem=${task.problem}/>
    </${Dialog}>`;
}

function Revoke({ of, onClose, onDone }) {
  const [typed, setTyped] = useState("");
  const [withCreated, setWithCreated] = useState(false);
  const path = `${OPEN}/${encodeURIComponent(of.id)}`;
  const loaded = useLoad(async (signal) => (await get(path, {}, { signal })).data, [path]);
  const created = loaded.data?.created_keys ?? [];
  const task = useTask();
  const revoke = () => task.run(async () => {
    await call("DELETE", withCreated ? `${path}?created_keys=true` : path);
    onDone(withCreated ? `The key ${of.name} and the keys it created are revoked` : `The key ${of.name} is revoked`);
    if (isMine(of)) refresh();
  });
  return html`
    <${Dialog} title=${`Revoke ${of.name}?`} kind="danger" onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Keep it</${Button}>
      <${Button} kind="danger solid" onClick=${revoke} disabled=${typed !== of.name || task.busy}>Revoke permanently</${Button}>`}>
      <p>Requests with this key are then refused${of.last_used_at
        ? html`. It was last used <${Time} at=${of.last_used_at} kind="relative"/>` : ""}. This cannot be undone.</p>
      ${isMine(of) && html`<${Notice} kind="warn" title="You are using this key."><p>You will be signed out.</p></${Notice}>`}
      ${created.length > 0 && html`<label class="check"><input type="checkbox" checked=${withCreated}
        onChange=${(event) => setWithCreated(event.target.checked)}/> Also revoke the keys it created:
        ${created.map(({ id, name }, n) => html`${n ? ", " : " "}<bdi key=${id}>${name}</bdi>`)}</label>`}
      <${TextField} label=${html`Type <code class="typed"><bdi>${of.name}</bdi></code> to revoke it`} value=${typed} onInput=${setTyped}/>
      <${Trouble} problem=${task.problem}/>
    </${Dialog}>`;
}
