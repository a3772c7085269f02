// The audit trail of everything: who changed which definitions and keys.

import { html, useState } from "../lib/html.js";
import { get } from "../lib/api.js";
import { go, usePlace, withQuery } from "../lib/router.js";
import { Button, Empty, Loading, TextField, Trouble } from "../ui/parts.js";
import { Trail } from "../ui/feature_parts.js";
import { useLoad } from "../ui/use.js";

const NAMES = ["by", "target", "action"];

export function Audit({ refused }) {
  const { query } = usePlace();
  const filter = Object.fromEntries(NAMES.map((name) => [name, query.get(name) ?? ""]));
  const key = JSON.stringify(filter);
  if (refused) {
    return html`<section class="card"><${Empty} icon="access" title="You may not see the trail"><p>${refused}</p></${Empty}></section>`;
  }
  return html`
    <${Filters} key=${`f${key}`} filter=${filter}/>
    <${Changes} key=${key} filter=${filter}/>`;
}

function Filters({ filter }) {
  const [draft, setDraft] = useState(filter);
  const field = (name) => ({ value: draft[name], onInput: (text) => setDraft({ ...draft, [name]: text }) });
  return html`
    <form class="card trail-filters" aria-label="Which changes"
      onSubmit=${(event) => { event.preventDefault(); go(withQuery(draft)); }}>
      <${TextField} label="By" placeholder="key:feed" ...${field("by")}/>
      <${TextField} label="Of" placeholder="user.story_presented" ...${field("target")}/>
      <${TextField} label="What" placeholder="update_feature" ...${field("action")}/>
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
      ${first.data === undefined ? first.loading && html`<${Loading} what="Loading the trail"/>`
        : changes.length ? html`<${Trail} changes=${changes} target/>`
        : html`<${Empty} icon="clock" title="No changes"><p>Changes of features and keys stand here, with who made them.</p></${Empty}>`}
      ${token && html`<${Button} onClick=${more}>Show earlier changes</${Button}>`}
    </section>`;
}
