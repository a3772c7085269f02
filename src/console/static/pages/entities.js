// Entities: their types, and the way to one entity.

import { html } from "../lib/html.js";
import { TYPES_MAX, loadTypes, pageOfEntity, pageOfType } from "../lib/entities.js";
import { group, ttlWords } from "../lib/format.js";
import { go, usePlace, useQuery, withQuery } from "../lib/router.js";
import { isOpen, refusal, session } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { Command, Empty, LinkButton, Loading, Notice, PageHead, Pager, Time, Trouble } from "../ui/parts.js";
import { EntityForm } from "../ui/entity_form.js";
import { Labels } from "../ui/feature_parts.js";
import { Icon } from "../ui/icons.js";
import { useLoad } from "../ui/use.js";
import { EntityPage } from "./entity.js";
import { EntityTypePage } from "./entity_type.js";
import { EntityTypeNew } from "./entity_type_new.js";

const ROWS = 50;
const VIEWS = { new: EntityTypeNew, type: EntityTypePage, entity: EntityPage };

export function Entities({ segments }) {
  const View = VIEWS[segments[2]] ?? Types;
  return html`<${View} segments=${segments}/>`;
}

function Types() {
  useStore(session);
  const refused = refusal("features:read");
  const loaded = useLoad(async (signal) => (refused ? { types: [] } : loadTypes(signal)), [refused]);
  const { types = [], more } = loaded.data ?? {};
  const create = html`
    <${LinkButton} kind="primary" icon="plus" href="/console/entities/new" refused=${refusal("features:write")}>New entity type</${LinkButton}>`;
  return html`
    <${PageHead} title="Entities" about="Entities have lists and, optionally, a bag of properties.">${create}</${PageHead}>
    <${EntityForm} type="" id="" types=${types.map(({ entity_type: type }) => type)} label="Which entity"
      onGo=${(type, id) => go(pageOfEntity(type, id))}/>
    <${Trouble} problem=${loaded.problem} onRetry=${loaded.again}/>
    ${refused ? html`<section class="card"><${Empty} icon="entities" title="You may not read entity types"><p>${refused}</p></${Empty}></section>`
      : !loaded.data ? loaded.loading && html`<${Loading} what="Loading entity types"/>`
      : types.length ? html`
        ${more && html`<${Notice} kind="warn" title=${`Only the first ${group(TYPES_MAX)} entity types are shown.`}>
          <p>Use the API to find the rest: <code>GET /v1/entity-types?q=…</code></p></${Notice}>`}
        <${Found} types=${types} more=${more}/>`
      : html`<${First} create=${create}/>`}`;
}

function Found({ types, more }) {
  const { query } = usePlace();
  const [q, setQ] = useQuery("q");
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  const found = types.filter(({ entity_type: type, description, owner }) =>
    words.every((word) => `${type} ${description} ${owner}`.toLowerCase().includes(word)));
  const pages = Math.max(1, Math.ceil(found.length / ROWS));
  const at = Math.min(pages, Math.max(1, Number(query.get("page")) || 1));
  return html`
    <section aria-label="Entity types">
      <div class="section-head">
        <h2>Entity types <span class="muted">${group(types.length)}${more ? " and more" : ""}</span></h2>
        <div class="search" role="search"><${Icon} name="search"/>
          <input class="input" type="search" aria-label="Search entity types" placeholder="Search names, descriptions, owners"
            value=${q} onInput=${(event) => setQ(event.target.value)}/></div>
      </div>
      ${found.length ? html`<${Table} rows=${found.slice((at - 1) * ROWS, at * ROWS)}/>`
        : html`<${Empty} icon="search" title="No matching entity type"><p>Search looks at names, descriptions and owners.</p></${Empty}>`}
      <${Pager} page=${at} pages=${pages} label="Pages of entity types" onPage=${(next) => { go(withQuery({ page: next === 1 ? "" : next })); scrollTo(0, 0); }}/>
    </section>`;
}

const Table = ({ rows }) => html`
  <div class="card table-card">
    <table class="table cards-when-narrow">
      <caption class="unseen">Entity types</caption>
      <thead><tr><th scope="col">Entity type</th><th scope="col">Bags live for</th><th scope="col">Owner</th>
        <th scope="col">Changed</th></tr></thead>
      <tbody>${rows.map((type) => html`
        <tr key=${type.entity_type}>
          <td class="main-cell"><a class="name" href=${pageOfType(type.entity_type)}><bdi>${type.entity_type}</bdi></a>
            ${type.description && html`<p class="clip muted"><bdi>${type.description}</bdi></p>`}
            <${Labels} labels=${type.labels} max=${3}/></td>
          <td data-title="Bags live for"><span title=${type.ttl}>${ttlWords(type.ttl)}</span></td>
          <td data-title="Owner" class="clip-cell">${type.owner
            ? html`<bdi title=${type.owner}>${type.owner}</bdi>` : html`<span class="muted">–</span>`}</td>
          <td data-title="Changed" class="nowrap"><${Time} at=${type.updated_at} kind="relative"/></td>
        </tr>`)}</tbody>
    </table>
  </div>`;

const First = ({ create }) => html`
  <section class="card"><${Empty} icon="entities" title="No entity types yet" actions=${create}>
    <p>Entities with lists can also have a <em>bag</em>: one JSON object, such as the name, city and scores of
      ${" "}<em>user u-123</em>. First create an entity type, then store a bag and find it by its properties.</p>
    ${isOpen() && html`<p>Or on the command line:</p>
      <${Command} label="command" text="liststore entity-type create user --ttl 365d"/>`}
  </${Empty}></section>`;
