// The history of a definition, in pages.

import { html, useState } from "../lib/html.js";
import { get } from "../lib/api.js";
import { Button, Loading, Trouble } from "./parts.js";
import { Trail } from "./feature_parts.js";
import { useLoad, useTask } from "./use.js";

const PAGE_SIZE = 100;

/** `path` is the path of the definition. */
export function History({ path }) {
  const [pages, setPages] = useState([]);
  const ask = async (page_token, signal) => (await get(`${path}/history`, { page_size: PAGE_SIZE, page_token }, { signal })).data;
  const first = useLoad((signal) => ask(undefined, signal), [path]);
  const task = useTask();
  const all = [first.data, ...pages].filter(Boolean);
  const token = all.at(-1)?.next_page_token;
  if (first.problem) return html`<${Trouble} problem=${first.problem} onRetry=${first.again}/>`;
  if (!first.data) return html`<${Loading} what="Loading the history"/>`;
  return html`
    <section class="card" aria-label="History">
      <${Trail} changes=${all.flatMap((page) => page.history)}/>
      <${Trouble} problem=${task.problem}/>
      ${token && html`<${Button} disabled=${task.busy}
        onClick=${() => task.run(async () => setPages([...pages, await ask(token)]))}>Show earlier changes</${Button}>`}
    </section>`;
}
