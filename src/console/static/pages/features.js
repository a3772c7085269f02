// All features, with search, filters and sorting. The page reads them once, and searches in memory.

import { html, useEffect, useMemo, useState } from "../lib/html.js";
import { group, ttlWords, readTtl, millisOf } from "../lib/format.js";
import { FEATURES_MAX, TYPES, deprecatedVersions, deprecationOf, loadFeatures, pageOf, titleOf, versionName } from "../lib/features.js";
import { go, toTop, usePlace, useQuery, withQuery } from "../lib/router.js";
import { isOpen, refusal } from "../lib/session.js";
import { Badge, Command, Empty, LinkButton, Loading, Notice, PageHead, Pager, SelectField, Time, Trouble, TypeBadge }
  from "../ui/parts.js";
import { Icon } from "../ui/icons.js";
import { Labels } from "../ui/feature_parts.js";
import { Deprecated } from "./deprecate.js";

const ROWS = 50;

const COLUMNS = [
  ["name", "Feature", (feature) => titleOf(feature)],
  ["type", "Type", (feature) => feature.value_type],
  ["ttl", "TTL", (feature) => readTtl(feature.ttl).secs],
  ["versions", "Versions", (feature) => feature.versions.length],
  ["owner", "Owner", (feature) => feature.owner.toLowerCase()],
  ["updated", "Changed", (feature) => millisOf(feature.updated_at)],
];

/** The features of the last visit. They are shown while the page reads them again. */
let remembered = null;

function useFeatures() {
  const [state, setState] = useState({ features: remembered ?? [], loading: true, more: false, problem: null });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const ending = new AbortController();
    const some = (features, more) =>
      remembered ? undefined : setState({ features, loading: more, more: false, problem: null });
    loadFeatures({}, some, ending.signal).then(
      ({ features, more }) => {
        remembered = features;
        setState({ features, loading: false, more, problem: null });
      },
      (problem) => ending.signal.aborted || setState((now) => ({ ...now, loading: false, problem })),
    );
    return () => ending.abort();
  }, [turn]);
  return { ...state, again: () => setTurn(turn + 1) };
}

function chosen(features, { q, entity, type, owner, label }) {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  return features.filter((feature) => {
    if (entity && feature.entity_type !== entity) return false;
    if (type && feature.value_type !== type) return false;
    if (owner && feature.owner !== owner) return false;
    if (label && !Object.entries(feature.labels).some(([k, v]) => `${k}=${v}` === label || k === label)) return false;
    const text = `${titleOf(feature)} ${feature.description} ${feature.owner}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

function sorted(features, order) {
  const falling = order.startsWith("-");
  const value = COLUMNS.find(([id]) => id === order.replace("-", ""))?.[2] ?? COLUMNS[0][2];
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const keyed = features.map((feature) => [value(feature), titleOf(feature), feature]);
  keyed.sort((a, b) => (falling ? -1 : 1) * compare(a[0], b[0]) || compare(a[1], b[1]));
  return keyed.map(([, , feature]) => feature);
}

/** The values to choose from, the most frequent first. */
function values(features, all, max = 200) {
  const counts = new Map();
  for (const feature of features) for (const value of all(feature)) counts.set(value, (counts.get(value) ?? 0) + 1);
  const found = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, max);
  return found.map(([value, count]) => [value, `${value.slice(0, 60)} (${count})`]);
}

export function Features() {
  const { features, loading, more, problem, again } = useFeatures();
  const refused = refusal("features:write");
  const create = html`
    <${LinkButton} kind="primary" icon="plus" href="/console/features/new" refused=${refused}>New feature</${LinkButton}>`;
  const about = features.length ? `${group(features.length)}${more ? " and more" : ""} list features` : "";
  return html`
    <${PageHead} title="Features" about=${about}>${create}</${PageHead}>
    <${Trouble} problem=${problem} onRetry=${again}/>
    ${more && html`<${Notice} kind="warn" title=${`Only the first ${group(FEATURES_MAX)} are shown.`}>
      <p>Use the API to find the rest: <code>GET /v1/features?q=…</code></p></${Notice}>`}
    ${features.length ? html`<${Found} features=${features} loading=${loading}/>`
      : loading ? html`<${Loading} what="Loading features"/>`
      : !problem && html`<${First} create=${create}/>`}`;
}

function Found({ features, loading }) {
  const { query } = usePlace();
  const [order, setOrder] = useQuery("sort", "name");
  const filter = {
    q: query.get("q") ?? "", entity: query.get("entity") ?? "", type: query.get("type") ?? "",
    owner: query.get("owner") ?? "", label: query.get("label") ?? "",
  };
  const key = JSON.stringify(filter);
  const found = useMemo(() => sorted(chosen(features, filter), order), [features, key, order]);
  const pages = Math.max(1, Math.ceil(found.length / ROWS));
  const page = Math.min(pages, Math.max(1, Number(query.get("page")) || 1));
  const rows = found.slice((page - 1) * ROWS, page * ROWS);
  const isFiltered = Object.values(filter).some(Boolean);
  return html`
    <${Filters} features=${features}/>
    <p class="count" role="status">
      ${isFiltered ? `${group(found.length)} of ${group(features.length)} features` : ""}
      ${isFiltered && html` <a href="/console/features">Show all</a>`}
      ${loading && " Loading more…"}
    </p>
    ${found.length === 0
      ? html`<${Empty} icon="search" title="No matching feature"
          actions=${html`<${LinkButton} href="/console/features">Show all</${LinkButton}>`}>
          <p>Search looks at names, descriptions and owners.</p></${Empty}>`
      : html`<${Table} rows=${rows} order=${order} onOrder=${setOrder}/>`}
    <${Pager} page=${page} pages=${pages} label="Pages of features"
      onPage=${(next) => { go(withQuery({ page: next === 1 ? "" : next })); toTop(); }}/>`;
}

function Filters({ features }) {
  const [q, setQ] = useQuery("q");
  const [entity, setEntity] = useQuery("entity");
  const [type, setType] = useQuery("type");
  const [owner, setOwner] = useQuery("owner");
  const [label, setLabel] = useQuery("label");
  const choices = useMemo(() => ({
    entities: values(features, (feature) => [feature.entity_type]),
    owners: values(features, (feature) => (feature.owner ? [feature.owner] : [])),
    labels: values(features, (feature) => Object.entries(feature.labels).map(([k, v]) => (v ? `${k}=${v}` : k))),
  }), [features]);
  const select = (name, value, set, any, options) => html`
    <select class="input" aria-label=${name} value=${value} onChange=${(event) => set(event.target.value)}>
      <option value="" selected=${!value}>${any}</option>
      ${options.map(([option, text]) => html`
        <option value=${option} selected=${option === value}>${text}</option>`)}
    </select>`;
  return html`
    <div class="filters" role="search">
      <div class="search"><${Icon} name="search"/>
        <input class="input" type="search" aria-label="Search features" placeholder="Search names, descriptions, owners"
          value=${q} onInput=${(event) => setQ(event.target.value)}/></div>
      ${select("Entity type", entity, setEntity, "Any entity type", choices.entities)}
      ${select("Value type", type, setType, "Any value type", Object.keys(TYPES).map((name) => [name, name]))}
      ${select("Owner", owner, setOwner, "Any owner", choices.owners)}
      ${select("Label", label, setLabel, "Any label", choices.labels)}
    </div>`;
}

/** The marks of a deprecated feature, or of its deprecated versions. */
function Marks({ feature }) {
  const marked = deprecatedVersions(feature);
  if (!marked.length) return null;
  if (marked.length === feature.versions.length) return html`<${Deprecated} note=${deprecationOf(feature) ?? ""}/>`;
  const names = marked.map(({ version }) => versionName(version));
  return html`<${Badge} kind="warn"><bdi title=${names.join(", ")}>${marked.length === 1 ? `${names[0].slice(0, 20)} deprecated`
    : `${marked.length} versions deprecated`}</bdi></${Badge}>`;
}

const Table = ({ rows, order, onOrder }) => html`
  <div class="card table-card">
    <table class="table cards-when-narrow">
      <caption class="unseen">List features</caption>
      <thead><tr>
        ${COLUMNS.map(([id, title]) => {
          const isRising = order === id;
          const isFalling = order === `-${id}`;
          return html`
            <th scope="col" aria-sort=${isRising ? "ascending" : isFalling ? "descending" : undefined}>
              <button type="button" class="sort" onClick=${() => onOrder(isRising ? `-${id}` : id)}>
                ${title}<span aria-hidden="true">${isRising ? " ↑" : isFalling ? " ↓" : ""}</span>
              </button>
            </th>`;
        })}
      </tr></thead>
      <tbody>
        ${rows.map((feature) => html`
          <tr key=${titleOf(feature)}>
            <td class="main-cell">
              <a class="name" href=${pageOf(feature)}><bdi><span class="of">${feature.entity_type}.</span
                >${feature.name}</bdi></a> <${Marks} feature=${feature}/>
              ${feature.description && html`<p class="clip muted"><bdi>${feature.description}</bdi></p>`}
              <${Labels} labels=${feature.labels} max=${3} isBrief/>
            </td>
            <td><${TypeBadge} type=${feature.value_type}/></td>
            <td data-title="TTL"><span title=${ttlWords(feature.ttl)}>${feature.ttl}</span></td>
            <td data-title="Versions">${feature.versions.length === 1
              ? html`<span class="muted">1</span>` : html`<${Badge}>${feature.versions.length}</${Badge}>`}</td>
            <td data-title="Owner" class="clip-cell">${feature.owner
              ? html`<bdi title=${feature.owner}>${feature.owner}</bdi>` : html`<span class="muted">–</span>`}</td>
            <td data-title="Changed" class="nowrap"><${Time} at=${feature.updated_at} kind="relative"/></td>
          </tr>`)}
      </tbody>
    </table>
  </div>`;

const First = ({ create }) => html`
  <${Empty} icon="features" title="No features yet" actions=${create}>
    <p>A feature is a list that every entity of a kind has, such as <code>user.story_presented</code>: the stories that
      each user was shown. Choose the type of its values and how long they are visible.</p>
    ${isOpen() && html`<p>Or on the command line:</p>
      <${Command} label="command" text="liststore feature create user story_presented --value-type string --ttl 30d"/>`}
  </${Empty}>`;
