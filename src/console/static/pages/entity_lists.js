// Which lists an entity has, with the newest item of each.

import { html } from "../lib/html.js";
import { call } from "../lib/api.js";
import { versionName } from "../lib/features.js";
import { group } from "../lib/format.js";
import { listsOf } from "../lib/jobs.js";
import { usePlace, go, withQuery } from "../lib/router.js";
import { refusal } from "../lib/session.js";
import { Badge, Empty, Loading, Pager, Time, Trouble, TypeBadge } from "../ui/parts.js";
import { Value } from "../ui/value.js";
import { useLoad } from "../ui/use.js";

const ROWS = 50;

export function EntityLists({ type, id }) {
  const refused = refusal("lists:read");
  const loaded = useLoad(async (signal) => (refused ? [] : listsOf(type, id, signal)), [type, id, refused]);
  const lists = loaded.data ?? [];
  const isAll = !refusal("lists:read", type, "*");
  return html`
    <section class="card" aria-label="Lists">
      <div class="card-head"><div><h2>Lists${lists.length > 0 && html` <span class="muted">${group(lists.length)}</span>`}</h2>
        ${loaded.data && !refused && !isAll && html`<p class="muted">Of the features that you may read.</p>`}</div></div>
      <${Trouble} problem=${loaded.problem} onRetry=${loaded.again}/>
      ${refused ? html`<p class="muted">${refused}</p>`
        : loaded.data === undefined ? loaded.loading && html`<${Loading} what="Looking for its lists"/>`
        : lists.length ? html`<${Rows} type=${type} id=${id} lists=${lists}/>`
        : html`<${Empty} icon="lists" title="It has no list with items">
            <p>No feature of <bdi>${type}</bdi>${isAll ? "" : " that you may read"} currently has items of this entity.</p></${Empty}>`}
    </section>`;
}

/** The newest item of each list, by its place; none for a list that has changed since. */
async function newestOf(type, id, lists, signal) {
  const requests = lists.map(({ feature, version }) => ({ entity_type: type, feature, version, entity_id: id, limit: 1 }));
  const { data } = await call("POST", "/v1/lists:batchGet", { body: { requests }, signal });
  return data.results.map(({ items }) => items?.[0]);
}

function Rows({ type, id, lists }) {
  const { query } = usePlace();
  const pages = Math.ceil(lists.length / ROWS);
  const page = Math.min(pages, Math.max(1, Number(query.get("page")) || 1));
  const shown = lists.slice((page - 1) * ROWS, page * ROWS);
  const newest = useLoad((signal) => newestOf(type, id, shown, signal), [JSON.stringify(shown)]).data ?? [];
  return html`
    <table class="table items cards-when-narrow">
      <caption class="unseen">Lists with items</caption>
      <thead><tr><th scope="col">Feature</th><th scope="col">Type</th><th scope="col">Its newest item</th><th scope="col">Time</th></tr></thead>
      <tbody>${shown.map(({ feature, version, value_type: valueType, newest_timestamp: at }, i) => html`
        <tr key=${`${feature} ${version}`}>
          <td class="main-cell"><a href=${`/console/lists?${new URLSearchParams({ type, feature, id, ...(version && { version }) })}`}
            ><bdi>${feature}</bdi></a>${version && html` <${Badge}>${versionName(version)}</${Badge}>`}</td>
          <td><${TypeBadge} type=${valueType}/></td>
          <td class="value-cell">${newest[i]?.key !== undefined && html`<strong><bdi>${newest[i].key}</bdi></strong> `}${newest[i]
            && html`<${Value} type=${valueType} value=${newest[i].value}/>`}</td>
          <td class="nowrap"><${Time} at=${at} kind="relative"/></td>
        </tr>`)}</tbody>
    </table>
    <${Pager} page=${page} pages=${pages} label="Pages of lists" onPage=${(next) => go(withQuery({ page: next === 1 ? "" : next }))}/>`;
}
