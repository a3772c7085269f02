// The error codes of this server, with cause and remedy. The `type` of a problem is an address of this page.

import { html } from "../lib/html.js";
import { openapi } from "../lib/document.js";
import { Loading, PageHead, Prose, Trouble } from "../ui/parts.js";
import { useLoad } from "../ui/use.js";

export function Errors({ code }) {
  const loaded = useLoad(async () => (await openapi())["x-errors"] ?? [], []);
  if (loaded.problem) return html`<${PageHead} title="Error codes"/><${Trouble} problem=${loaded.problem} onRetry=${loaded.again}/>`;
  if (!loaded.data) return html`<${PageHead} title="Error codes"/><${Loading} what="Loading the API document"/>`;
  const error = loaded.data.find((error) => error.code === code);
  return html`
    <${PageHead} title=${error ? error.title : "Error codes"}
      about=${error ? null : "Every refusal and every failure has one of these codes. They are stable: use them in programs."}>
      <a class="button" href="/docs">API reference</a>
    </${PageHead}>
    ${error && html`<${One} error=${error}/>`}
    ${code && !error && html`<section class="card" aria-label="The code"><p>This server has no error code <code>${code}</code>.</p></section>`}
    <div class="card table-card">
      <table class="table cards-when-narrow">
        <caption class="unseen">All codes</caption>
        <thead><tr><th scope="col">Status</th><th scope="col">Code</th><th scope="col">Cause</th></tr></thead>
        <tbody>${loaded.data.map((error) => html`
          <tr><td>${error.status}</td>
            <td><a href=${`/docs/errors/${error.code}`} aria-current=${error.code === code ? "page" : undefined}>
              <code>${error.code}</code></a></td>
            <td class="value-cell"><${Prose} text=${error.cause}/></td></tr>`)}</tbody>
      </table>
    </div>`;
}

const One = ({ error }) => html`
  <section class="card" aria-label="The code">
    <dl class="facts">
      <div><dt>Code</dt><dd><code>${error.code}</code></dd></div>
      <div><dt>Status</dt><dd>${error.status}</dd></div>
      <div><dt>Cause</dt><dd><${Prose} text=${error.cause}/></dd></div>
      <div><dt>What to do</dt><dd><${Prose} text=${error.remedy}/></dd></div>
      <div><dt>Retryable</dt><dd>${error.retryable
        ? "Yes: the same request can succeed later." : "No: the same request fails again."}</dd></div>
    </dl>
  </section>`;
