// The entities that have lists of a feature version: for people who do not know an ID yet.

import { html } from "../lib/html.js";
import { get } from "../lib/api.js";
import { featurePath, titleOf } from "../lib/features.js";
import { withQuery } from "../lib/router.js";
import { Empty, Loading, Trouble } from "../ui/parts.js";
import { useLoad } from "../ui/use.js";
import { WalkPager, useWalk } from "../ui/walk.js";

const PAGE_SIZE = 100;

export function Entities({ wanted, feature }) {
  const walk = useWalk();
  const { token } = walk;
  const page = useLoad(async (signal) => (await get(`${featurePath(wanted.type, wanted.feature)}/entities`, {
    version: wanted.version || undefined, page_size: PAGE_SIZE, page_token: token,
  }, { signal })).data, [wanted.type, wanted.feature, wanted.version, token]);
  const entities = page.data?.entities ?? [];
  const next = page.data?.next_page_token;
  return html`
    <section class="card" aria-label="Entities">
      <div class="card-head"><div>
        <h2>Entities with lists of <bdi>${titleOf(feature)}</bdi></h2>
        <p class="muted">In hash order. Choose one, or enter another above.</p>
      </div></div>
      <${Trouble} problem=${page.problem} onRetry=${page.again}/>
      ${page.data === undefined ? page.loading && html`<${Loading} what="Loading entities"/>`
        : entities.length ? html`
          <ul class="entities">
            ${entities.map((id) => html`
              <li key=${id}><a href=${withQuery({ id, token: "" })}><bdi>${id}</bdi></a></li>`)}
          </ul>`
        : html`<${Empty} icon="lists" title=${next || token ? "None on this page" : "No entity has a list here"}>
            <p>${next ? "The next page may have some." : "No items were added, or all of them have expired."}</p>
          </${Empty}>`}
      <${WalkPager} walk=${walk} next=${next} label="Pages of entities"/>
    </section>`;
}
