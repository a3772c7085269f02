// One feature: its definition, its versions side by side and its history; and the ways to change and delete it.

import { html, useState } from "../lib/html.js";
import { IDENTITIES, KEEPS, TYPES, deprecationOf, identityOf, featurePath, loadFeature, purgeOf } from "../lib/features.js";
import { dayTime, readTtl, ttlWords } from "../lib/format.js";
import { path } from "../lib/router.js";
import { refusal, session } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { Button, Empty, LinkButton, Loading, PageHead, Tabs, Time, Trouble, TypeBadge, say } from "../ui/parts.js";
import { Labels } from "../ui/feature_parts.js";
import { PROPERTIES } from "../ui/properties.js";
import { History } from "../ui/history.js";
import { useLoad, useNow } from "../ui/use.js";
import { DeleteFeature } from "./feature_delete.js";
import { Deprecate, DeprecationNotice } from "./deprecate.js";
import { EditFeature } from "./feature_edit.js";
import { Versions } from "./versions.js";

export function FeaturePage({ segments: [, , entityType, name, view = ""] }) {
  useStore(session);
  const loaded = useLoad((signal) => loadFeature(entityType, name, signal), [entityType, name]);
  const [open, setOpen] = useState(null);
  const close = () => setOpen(null);
  const { feature, etag } = loaded.data ?? {};
  const at = `/console/features${path(entityType, name)}`;
  const refused = refusal("features:write", entityType, name);
  const mayRead = refusal("lists:read", entityType, name);
  if (!feature && loaded.problem?.status === 404 && view !== "history") {
    return html`<${Gone} entityType=${entityType} name=${name} at=${at}/>`;
  }
  return html`
    <${PageHead} title=${`${entityType}.${name}`}
      before=${html`<p class="crumbs"><a href="/console/features">Features</a></p>`}>
      ${feature && html`
        <${LinkButton} icon="lists" refused=${mayRead}
          href=${`/console/lists?${new URLSearchParams({ type: entityType, feature: name })}`}>Explore lists</${LinkButton}>
        <${LinkButton} icon="edit" href=${`${at}/edit`} refused=${refused}>Edit</${LinkButton}>
        <${Button} icon="sunset" refused=${refused} onClick=${() => setOpen("deprecate")}>Deprecate</${Button}>
        <${Button} icon="bin" kind="danger" refused=${refused} onClick=${() => setOpen("delete")}>Delete</${Button}>`}
    </${PageHead}>
    <${Tabs} label="Views of the feature" current=${view}
      tabs=${[["", "Overview", at], ["edit", "Edit", `${at}/edit`], ["history", "History", `${at}/history`]]}/>
    ${feature && html`<${DeprecationNotice} note=${deprecationOf(feature)} title="This feature is deprecated."/>`}
    ${loaded.problem && loaded.problem.status !== 404
      && html`<${Trouble} problem=${loaded.problem} onRetry=${loaded.again}/>`}
    ${view === "history" ? html`<${History} path=${featurePath(entityType, name)}/>`
      : !feature ? html`<${Loading} what="Loading the feature"/>`
      : view === "edit" ? html`<${EditFeature} key=${etag} feature=${feature} etag=${etag} onSaved=${loaded.again}
          refused=${refused}/>`
      : html`<${Overview} feature=${feature} etag=${etag} refused=${refused} onChanged=${loaded.again}/>`}
    ${open === "delete" && html`<${DeleteFeature} feature=${feature} etag=${etag} onClose=${close} onStale=${loaded.again}/>`}
    ${open === "deprecate" && html`<${Deprecate} feature=${feature} etag=${etag} onClose=${close}
      onDone=${(words) => { close(); say(words); loaded.again(); }}/>`}`;
}

function Overview({ feature, etag, refused, onChanged }) {
  const now = useNow();
  const { secs } = readTtl(feature.ttl);
  return html`
    <div class="split">
      <section class="card" aria-label="Definition">
        <dl class="facts">
          <div><dt>Value type</dt><dd><${TypeBadge} type=${feature.value_type}/>${" "}<span class="muted">${TYPES[feature.value_type]?.[0]}</span></dd></div>
          <div><dt>Time to live</dt><dd><strong>${ttlWords(feature.ttl)}</strong>
            <p class="fine">Currently shows items since ${dayTime(now - secs * 1000)}.</p></dd></div>
          ${PROPERTIES.filter(({ name }) => feature[name]).map(({ name, title, fact }) => html`
            <div key=${name}><dt>${title}</dt><dd>${fact(feature[name])}</dd></div>`)}
          ${identityOf(feature) !== "item" && html`<div><dt>Identity</dt><dd><strong>${IDENTITIES[feature.identity]?.[0] ?? feature.identity}</strong>:
            ${" "}${KEEPS[feature.keep] ?? feature.keep}</dd></div>`}
          ${feature.bucket && html`<div><dt>Bucket</dt><dd><strong>${feature.bucket}</strong>: a partition of a list for each,
            on ScyllaDB and Cassandra</dd></div>`}
          <div><dt>Description</dt><dd>${feature.description
            ? html`<bdi class="long">${feature.description}</bdi>` : html`<span class="muted">none</span>`}</dd></div>
          <div><dt>Owner</dt><dd>${feature.owner
            ? html`<bdi class="long">${feature.owner}</bdi>` : html`<span class="muted">none</span>`}</dd></div>
          <div><dt>Labels</dt><dd>${Object.keys(feature.labels).length
            ? html`<${Labels} labels=${feature.labels}/>` : html`<span class="muted">none</span>`}</dd></div>
          <div><dt>Created</dt><dd><${Time} at=${feature.created_at}/></dd></div>
          <div><dt>Changed</dt><dd><${Time} at=${feature.updated_at}/></dd></div>
        </dl>
      </section>
      <${LookInto} feature=${feature}/>
    </div>
    <${Versions} feature=${feature} etag=${etag} refused=${refused} onChanged=${onChanged}/>`;
}

/** The way to a list, which is the most frequent purpose of this page. */
function LookInto({ feature }) {
  const [id, setId] = useState("");
  const refused = refusal("lists:read", feature.entity_type, feature.name);
  if (refused) return null;
  const query = new URLSearchParams({ type: feature.entity_type, feature: feature.name, id });
  return html`
    <section class="card quiet-card" aria-label="Open a list">
      <h2>Open a list</h2>
      <p>Show the items of one <bdi>${feature.entity_type}</bdi>, or find out why an item is missing.</p>
      <div class="inline-form">
        <input class="input" type="text" aria-label="Entity ID" placeholder=${`${feature.entity_type} ID`} value=${id}
          autocomplete="off" spellcheck=${false} onInput=${(event) => setId(event.target.value)}
          onKeyDown=${(event) => event.key === "Enter" && id && event.target.parentElement.querySelector("a")?.click()}/>
        <${LinkButton} kind="primary" href=${id ? `/console/lists?${query}` : undefined}>Show</${LinkButton}>
      </div>
    </section>`;
}

const Gone = ({ entityType, name, at }) => html`
  <${PageHead} title=${`${entityType}.${name}`}
    before=${html`<p class="crumbs"><a href="/console/features">Features</a></p>`}/>
  <${Empty} icon="search" title="Feature not found" actions=${html`
      <${LinkButton} href="/console/features">All features</${LinkButton}>
      <${LinkButton} href=${`${at}/history`}>Its history</${LinkButton}>
      <${LinkButton} href=${purgeOf({ entity_type: entityType, name })}>Erase remaining items</${LinkButton}>
      <${LinkButton} kind="primary" icon="plus" refused=${refusal("features:write", entityType, name)}
        href=${`/console/features/new?${new URLSearchParams({ entity: entityType })}`}>New feature</${LinkButton}>`}>
    <p>If it was deleted, its history shows when and by whom.</p>
  </${Empty}>`;

