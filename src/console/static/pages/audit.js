// The audit trail of everything: who changed which definitions, keys and servers.

import { html, useState } from "../lib/html.js";
import { get } from "../lib/api.js";
import { group } from "../lib/format.js";
import { go, usePlace, withQuery } from "../lib/router.js";
import { Button, Empty, Loading, TextField, Time, Trouble } from "../ui/parts.js";
import { Trail } from "../ui/feature_parts.js";
import { useLoad } from "../ui/use.js";

const NAMES = ["by", "target", "action"];
/** The action that selects refused calls. */
const REFUSE = "refuse";

export function Audit({ refused }) {
  const { query } = usePlace();
  const filter = Object.fromEntries(NAMES.map((name) => [name, query.get(name) ?? ""]));
  const key = JSON.stringify(filter);
  if (refused) {
    return html`<section class="card"><${Empty} icon="access" title="You may not read the audit trail"><p>${refused}</p></${Empty}></section>`;
  }
  return html`
    <nav class="chips before" aria-label="Kind of entries">
      ${[["", "Changes"], [REFUSE, "Refused requests"]].map(([action, words]) => html`
        <a class="chip" href=${withQuery({ action })} aria-current=${(filter.action === REFUSE) === (action === REFUSE) ? "true" : undefined}
          >${words}</a>`)}
    </nav>
    <${Filters} key=${`f${key}`} filter=${filter}/>
    <${Changes} key=${key} filter=${filter}/>`;
}

function Filters({ filter }) {
  const [draft, setDraft] = useState(filter);
  const field = (name) => ({ value: draft[name], onInput: (text) => setDraft({ ...draft, [name]: text }) });
  return html`
    <form class="card trail-filters" aria-label="Filter of changes"
      onSubmit=${(event) => { event.preventDefault(); go(withQuery(draft)); }}>
      <${TextField} label="By" placeholder="key:feed" ...${field("by")}/>
      ${filter.action === REFUSE
        ? html`<${TextField} label="Operation" placeholder="get_items" ...${field("target")}/>`
        : html`
          <${TextField} label="Of" placeholder="user.story_presented" ...${field("target")}/>
          <${TextField} label="What" placeholder="update_feature" ...${field("action")}/>`}
      <${Button} type="submit">Filter</${Button}>
    </form>`;
}

function Changes({ filter }) {
  const [pages, setPages] = useState([]);
  const [problem, setProblem] = useState(null);
  const first = useLoad(async (signal) => (await get("/v1/audit", { ...filter, page_size: 100 }, { signal })).data, []);
  const all = [first.data, ...pages].filter(Boolean);
  const token = all.at(-1)?.next_page_token;
  const changes = all.flatMap((page) => page.changes);
  const more = async () => {
    try {
      setPages([...pages, (await get("/v1/audit", { ...filter, page_size: 100, page_token: token })).data]);
    } catch (problem) {
      setProblem(problem);
    }
  };
  return html`
    <section class="card" aria-label="Audit trail">
      <${Trouble} problem=${first.problem ?? problem} onRetry=${first.again}/>
      ${first.data === undefined ? first.loading && html`<${Loading} what="Loading the audit trail"/>`
        : changes.length ? filter.action === REFUSE ? html`<${Refusals} refusals=${changes}/>`
            : html`<${Trail} changes=${changes} target/>`
        : token ? html`<p class="fine">None of the newest changes matches. There are earlier changes.</p>`
        : filter.action === REFUSE ? html`<${Empty} icon="check" title="No recent refusals">
            <p>This server keeps the newest 1,000 refusals of identified callers, and of unidentified callers, until it stops.</p></${Empty}>`
        : html`<${Empty} icon="clock" title="No changes"><p>Changes of features, keys and servers appear here with their author.</p></${Empty}>`}
      ${token && html`<${Button} onClick=${more}>Show earlier changes</${Button}>`}
    </section>`;
}

const Refusals = ({ refusals }) => html`
  <p class="fine before">Refusals of this server since it started. Equal refusals within a minute are one line.</p>
  <table class="table cards-when-narrow">
    <caption class="unseen">Refused requests</caption>
    <thead><tr><th scope="col">When</th><th scope="col">Who</th><th scope="col">Operation</th><th scope="col">Why</th>
      <th scope="col">Times</th></tr></thead>
    <tbody>${refusals.map(({ at, by, target, after }) => html`
      <tr key=${at}><td class="nowrap"><${Time} at=${at} kind="absolute"/></td><td><strong><bdi>${by}</bdi></strong></td>
        <td><code>${target}</code></td>
        <td class="value-cell"><code>${after?.code}</code> <span class="muted">${after?.reason}</span></td>
        <td data-title="Times">${group(after?.count ?? 1)}</td></tr>`)}</tbody>
  </table>`;
