// Which lists an entity has, with the newest item of each.

import { html } from "../lib/html.js";
import { loadFeatures, versionName } from "../lib/features.js";
import { group } from "../lib/format.js";
import { listsOf } from "../lib/jobs.js";
import { refusal } from "../lib/session.js";
import { Badge, Empty, Loading, Time, Trouble, TypeBadge } from "../ui/parts.js";
import { Value } from "../ui/value.js";
import { useLoad } from "../ui/use.js";

export function EntityLists({ type, id }) {
  const refused = refusal("lists:read") ?? refusal("features:read");
  const loaded = useLoad(async (signal) => {
    if (refused) return { lists: [] };
    const { features } = await loadFeatures({ entity_type: type }, () => {}, signal);
    const types = new Map(features.map((feature) => [feature.name, feature.value_type]));
    const { lists, isWhole } = await listsOf(features, type, id, signal);
    return { lists: lists.map((list) => ({ ...list, valueType: types.get(list.feature) })), isWhole };
  }, [type, id, refused]);
  const { lists = [], isWhole } = loaded.data ?? {};
  return html`
    <section class="card" aria-label="Lists">
      <div class="card-head"><div><h2>Lists${lists.length > 0 && html` <span class="muted">${group(lists.length)}</span>`}</h2>
        ${loaded.data && !refused && !isWhole && html`<p class="muted">Some lists could not be read: there may be more.</p>`}</div></div>
      <${Trouble} problem=${loaded.problem} onRetry=${loaded.again}/>
      ${refused ? html`<p class="muted">${refused}</p>`
        : loaded.data === undefined ? loaded.loading && html`<${Loading} what="Looking for its lists"/>`
        : lists.length ? html`<${Rows} type=${type} id=${id} lists=${lists}/>`
        : html`<${Empty} icon="lists" title="It has no list with items">
            <p>No feature of <bdi>${type}</bdi> currently has items of this entity.</p></${Empty}>`}
    </section>`;
}

const Rows = ({ type, id, lists }) => html`
  <table class="table items cards-when-narrow">
    <caption class="unseen">Lists with items</caption>
    <thead><tr><th scope="col">Feature</th><th scope="col">Type</th><th scope="col">Its newest item</th><th scope="col">Time</th></tr></thead>
    <tbody>${lists.map(({ feature, version, newest, valueType }) => html`
      <tr key=${`${feature} ${version}`}>
        <td class="main-cell"><a href=${`/console/lists?${new URLSearchParams({ type, feature, id, ...(version && { version }) })}`}
          ><bdi>${feature}</bdi></a>${version && html` <${Badge}>${versionName(version)}</${Badge}>`}</td>
        <td><${TypeBadge} type=${valueType}/></td>
        <td class="value-cell">${newest.key !== undefined && html`<strong><bdi>${newest.key}</bdi></strong> `}<${Value} type=${valueType} value=${newest.value}/></td>
        <td class="nowrap"><${Time} at=${newest.timestamp} kind="relative"/></td>
      </tr>`)}</tbody>
  </table>`;
