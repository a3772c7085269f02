// Sends a call with the entered values and the person's key, and shows the answer.

import { html, useState } from "../lib/html.js";
import { send } from "../lib/api.js";
import { bytes, seconds, visible } from "../lib/format.js";
import { isOpen, refusal } from "../lib/session.js";
import { quoted } from "../lib/values.js";
import { Badge, Button, Command, TextField, Trouble } from "../ui/parts.js";
import { exampleOf } from "../ui/schema.js";
import { useTask } from "../ui/use.js";

const SHOWN = 100000;
/** Headers that the browser sends automatically, or that have no use here. */
const HIDDEN = new Set(["X-Request-Id", "Liststore-Timeout-Ms"]);
const GRANTED = /:/;

export function TryIt({ document, operation }) {
  const parameters = (operation.parameters ?? []).filter(({ name }) => !HIDDEN.has(name));
  const body = operation.requestBody?.content?.["application/json"]?.schema;
  const [values, setValues] = useState(() => Object.fromEntries(parameters
    .filter((parameter) => parameter.in === "path")
    .map((parameter) => [parameter.name, String(parameter.example ?? "")])));
  const [text, setText] = useState(body ? JSON.stringify(exampleOf(document, body), null, 2) : "");
  const [answer, setAnswer] = useState(null);
  const task = useTask();
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(values[name] ?? ""));
  const of = (place) => parameters.filter((parameter) => parameter.in === place && values[parameter.name])
    .map(({ name }) => [name, values[name]]);
  const query = new URLSearchParams(of("query")).toString();
  const url = path + (query ? `?${query}` : "");
  const headers = Object.fromEntries(of("header"));
  const needed = operation["x-permission"] ?? "open";
  const refused = needed === "local" ? "Available only over the socket in the server's data directory."
    : GRANTED.test(needed) ? refusal(needed) : null;
  const submit = (event) => {
    event.preventDefault();
    if (refused) return;
    task.run(async () => setAnswer(await send(operation.method, url, { headers, body: body ? text : undefined })));
  };
  const isSafe = operation.method === "GET";
  return html`
    <section class="card" aria-label="Try it">
      <h2>Try it</h2>
      <form onSubmit=${submit} novalidate>
        <div class="columns">
          ${parameters.map((parameter) => html`
            <${TextField} key=${parameter.name} label=${parameter.name} required=${parameter.required}
              value=${values[parameter.name] ?? ""} placeholder=${parameter.required ? "" : String(parameter.example ?? "")}
              onInput=${(value) => setValues({ ...values, [parameter.name]: value })}/>`)}
        </div>
        ${body && html`<${TextField} label="Body" area mono rows=${Math.min(14, text.split("\n").length + 1)} value=${text} onInput=${setText}/>`}
        ${!isSafe && !refused && html`<p class="fine before">This call changes data on this server.</p>`}
        <${Button} type="submit" kind="primary" disabled=${task.busy} refused=${refused}>Send</${Button}>
      </form>
      <${Command} label="request for a shell" text=${curl(operation, url, headers, body && text)}/>
      <${Trouble} problem=${task.problem}/>
      ${answer && html`<${Answer} answer=${answer}/>`}
    </section>`;
}

function curl(operation, url, headers, body) {
  const words = ["curl -s"];
  if (operation.method !== "GET" && !(operation.method === "POST" && body)) words.push(`-X ${operation.method}`);
  if (!isOpen() && operation["x-permission"] !== "open") words.push('-H "Authorization: Bearer $LISTSTORE_TOKEN"');
  for (const [name, value] of Object.entries(headers)) words.push("-H", quoted(`${name}: ${value}`));
  if (body) words.push("-H 'Content-Type: application/json' -d", quoted(body));
  return [...words, quoted(location.origin + url)].join(" ");
}

const pretty = ({ text, headers }) => {
  if (!(headers.get("content-type") ?? "").includes("json") || /\d{16}/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
};

function Answer({ answer }) {
  const kind = answer.status < 300 ? "good" : answer.status < 500 ? "warn" : "bad";
  const text = visible(pretty(answer));
  return html`
    <div aria-live="polite">
      <h3 class="after">Answer <${Badge} kind=${kind}>${answer.status}</${Badge}>
        <span class="fine"> ${bytes(answer.text.length)} in ${seconds(answer.took / 1000)}</span></h3>
      ${text
        ? html`<pre class="answer-body" tabindex="0" role="region" aria-label="Response body">${text.slice(0, SHOWN)}${text.length > SHOWN && "…"}</pre>`
        : html`<p class="muted">No body.</p>`}
      ${answer.headers.get("etag") && html`<p class="fine">ETag <code>${answer.headers.get("etag")}</code></p>`}
    </div>`;
}
