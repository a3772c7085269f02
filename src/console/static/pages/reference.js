// The API's reference, drawn from the document of this server, with a way to try each call.

import { html, useEffect, useMemo, useState } from "../lib/html.js";
import { openapi, operations, resolve } from "../lib/document.js";
import { aboutPermission, session } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { Button, Command, Loading, PageHead, Prose, Trouble } from "../ui/parts.js";
import { useLoad } from "../ui/use.js";
import { Schema } from "../ui/schema.js";
import { Errors } from "./errors.js";
import { TryIt } from "./try_it.js";

export const Reference = ({ segments: [, id, code] }) =>
  id === "errors" ? html`<${Errors} code=${code}/>` : html`<${Calls} id=${id}/>`;

function Calls({ id }) {
  const loaded = useLoad(async () => ({ document: await openapi(), operations: await operations() }), []);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => setOpen(false), [id]);
  if (loaded.problem) return html`<${PageHead} title="API reference"/><${Trouble} problem=${loaded.problem} onRetry=${loaded.again}/>`;
  if (!loaded.data) return html`<${PageHead} title="API reference"/><${Loading} what="Loading the API document"/>`;
  const { document, operations: all } = loaded.data;
  const operation = all.find((operation) => operation.id === id);
  return html`
    <${PageHead} title=${operation ? operation.summary : "API reference"}
      about=${operation ? null : "The API of this server, from its OpenAPI document."}>
      <${Button} kind="only-narrow" icon="menu" aria-expanded=${isOpen} aria-controls="operations"
        onClick=${() => setOpen(!isOpen)}>All calls</${Button}>
      <a class="button" href="/docs/errors">Error codes</a>
      <a class="button" href="/openapi.json" target="_blank" rel="noopener">openapi.json</a>
    </${PageHead}>
    <div class="reference">
      <${Operations} document=${document} all=${all} current=${id} isOpen=${isOpen}/>
      ${operation ? html`<${Operation} key=${id} document=${document} operation=${operation}/>`
        : html`<${Introduction} document=${document} all=${all}/>`}
    </div>`;
}

const byTag = (document, all) =>
  (document.tags ?? []).map((tag) => [tag, all.filter((operation) => operation.tag === tag.name)]).filter(([, of]) => of.length);

const Operations = ({ document, all, current, isOpen }) => html`
  <nav class=${`operations ${isOpen ? "open" : ""}`} id="operations" aria-label="Calls">
    ${byTag(document, all).map(([tag, of]) => html`
      <h2>${tag.name}</h2>
      <ul>${of.map((operation) => html`
        <li><a href=${`/docs/${operation.id}`} aria-current=${operation.id === current ? "page" : undefined}>
          <${Method} of=${operation}/><span>${operation.summary}</span></a></li>`)}</ul>`)}
  </nav>`;

const Method = ({ of }) => html`<span class="method" data-method=${of.method}>${of.method}</span>`;

const Introduction = ({ document, all }) => html`
  <div>
    <section class="card" aria-label="About">
      <h2>${document.info.title} ${document.info.version}</h2>
      <p>${document.info.description}</p>
      <p class="after">If the server requires a key, send it as <code>Authorization: Bearer ls_…</code>. Calls from this page
        use the key that you signed in with.</p>
      <${Command} label="first call" text=${`curl -s ${location.origin}/v1/features`}/>
    </section>
    ${byTag(document, all).map(([tag, of]) => html`
      <section class="card" aria-label=${tag.name}>
        <h2>${tag.description}</h2>
        <ul class="calls">${of.map((operation) => html`
          <li><a href=${`/docs/${operation.id}`}>${operation.summary}</a>
            <div class="fine"><${Method} of=${operation}/> <code>${operation.path}</code></div></li>`)}</ul>
      </section>`)}
  </div>`;

function Operation({ document, operation }) {
  useStore(session);
  const body = operation.requestBody?.content?.["application/json"]?.schema;
  const permission = operation["x-permission"];
  return html`
    <div>
      <section class="card" aria-label="The call">
        <p class="call-line"><${Method} of=${operation}/><code>${operation.path}</code></p>
        ${operation.description && html`<p class="after"><${Prose} text=${operation.description}/></p>`}
        <p class="fine after">${permission === "open" ? "No key required." : permission === "known" ? "Any key is sufficient."
          : permission === "local" ? "Available only over the socket in the server's data directory."
          : html`Needs <code>${permission}</code>: to ${aboutPermission(permission)}.`}</p>
      </section>
      ${operation.parameters?.length > 0 && html`
        <section class="card" aria-label="Parameters"><h2>Parameters</h2>
          <ul class="schema">${operation.parameters.map((parameter) => html`
            <li><span class="field-name">${parameter.name}</span> <span class="fine">in ${parameter.in}${parameter.required ? ", required" : ""}</span>
              <p><${Prose} text=${parameter.description ?? ""}/></p>
              <${Schema} document=${document} schema=${parameter.schema} isBrief/></li>`)}</ul>
        </section>`}
      ${body && html`
        <section class="card" aria-label="Body"><h2>Body</h2><${Schema} document=${document} schema=${body}/></section>`}
      <${TryIt} document=${document} operation=${operation}/>
      <${Answers} document=${document} operation=${operation}/>
    </div>`;
}

const isProblem = (answer) => answer.content?.["application/problem+json"];

function Answers({ document, operation }) {
  const all = Object.entries(operation.responses);
  const fine = all.filter(([, answer]) => !isProblem(answer));
  const problems = useMemo(() => all.filter(([, answer]) => isProblem(answer)).flatMap(([status, answer]) =>
    Object.entries(isProblem(answer).examples ?? {}).map(([code, example]) => [status, code, example.summary])), [operation]);
  return html`
    <section class="card" aria-label="Answers"><h2>Answers</h2>
      ${fine.map(([status, answer]) => {
        const schema = answer.content?.["application/json"]?.schema;
        return html`<h3>${status}</h3><p>${answer.description}</p>
          ${schema && resolve(document, schema) && html`<${Schema} document=${document} schema=${schema}/>`}`;
      })}
      <h3 class="after">Problems</h3>
      <table class="table"><caption class="unseen">Problems</caption>
        <thead><tr><th scope="col">Status</th><th scope="col">Code</th><th scope="col">Meaning</th></tr></thead>
        <tbody>${problems.map(([status, code, title]) => html`
          <tr><td>${status}</td><td><a href=${`/docs/errors/${code}`}><code>${code}</code></a></td><td>${title}</td></tr>`)}</tbody></table>
    </section>`;
}
