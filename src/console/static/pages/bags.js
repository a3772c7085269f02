// The bags of an entity type, in pages: for people who do not know an ID yet.

import { html } from "../lib/html.js";
import { bagIds, bagsOf } from "../lib/entities.js";
import { path } from "../lib/router.js";
import { refusal } from "../lib/session.js";
import { curl } from "../lib/shell.js";
import { Copy, Empty, LinkButton, Loading, Trouble } from "../ui/parts.js";
import { BagRows } from "../ui/bags.js";
import { useLoad } from "../ui/use.js";
import { WalkPager, useWalk } from "../ui/walk.js";

const PAGE_SIZE = 50;

export function BagsOfType({ type }) {
  const walk = useWalk();
  const refused = refusal("lists:read", type, "");
  const page = useLoad(async (signal) => {
    if (refused) return { bags: [] };
    const { entities, next_page_token: next } = await bagIds(type, { page_size: PAGE_SIZE, page_token: walk.token }, signal);
    return { bags: await bagsOf(type, entities, signal), next };
  }, [type, walk.token, refused]);
  const { bags = [], next } = page.data ?? {};
  if (refused) return html`<section class="card"><${Empty} icon="entities" title="You may not read bags here"><p>${refused}</p></${Empty}></section>`;
  return html`
    <section class="card" aria-label="Bags">
      <div class="card-head">
        <div><h2>Entities with bags</h2><p class="muted">In hash order. Use an index to find bags by their properties.</p></div>
        <div class="actions">
          <${Copy} text=${curl(`/v1/entities${path(type)}`, { page_size: PAGE_SIZE, page_token: walk.token })} label="Copy as curl">curl</${Copy}>
          <${LinkButton} kind="small" icon="search" href=${`/console/entities/type${path(type)}/find`}>Find</${LinkButton}>
        </div>
      </div>
      <${Trouble} problem=${page.problem} onRetry=${page.again}/>
      ${page.data === undefined ? page.loading && html`<${Loading} what="Loading bags"/>`
        : bags.length ? html`<${BagRows} type=${type} bags=${bags} caption="Bags on this page"/>`
        : html`<${Empty} icon="entities" title=${next || walk.token ? "None on this page" : "No entity has a bag"}>
            <p>${next ? "The next page may have some." : "No bag was stored yet, or all have expired. Open an entity to store the first one."}</p>
          </${Empty}>`}
      <${WalkPager} walk=${walk} next=${next} label="Pages of bags"/>
    </section>`;
}
