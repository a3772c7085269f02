// One entity type: its definition, bags, indexes and history; and the ways to change and delete it.

import { html, useState } from "../lib/html.js";
import { changeType, loadType, pageOfEntity, pageOfType, typePath } from "../lib/entities.js";
import { readTtl, ttlWords } from "../lib/format.js";
import { go } from "../lib/router.js";
import { refusal, session } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { Button, Empty, LinkButton, Loading, PageHead, Tabs, Time, Trouble, say } from "../ui/parts.js";
import { BAG, Labels } from "../ui/feature_parts.js";
import { History } from "../ui/history.js";
import { useLoad } from "../ui/use.js";
import { BagsOfType } from "./bags.js";
import { EditDefinition } from "./definition_edit.js";
import { DeleteType } from "./entity_type_delete.js";
import { PurgeBags } from "./entity_type_purge.js";
import { Find } from "./find.js";
import { Indexes } from "./indexes.js";

const CRUMBS = html`<p class="crumbs"><a href="/console/entities">Entities</a></p>`;
const TABS = [["", "Overview"], ["bags", "Bags"], ["indexes", "Indexes"], ["find", "Find"], ["edit", "Edit"], ["history", "History"]];

export function EntityTypePage({ segments: [, , , type = "", view = ""] }) {
  useStore(session);
  const loaded = useLoad((signal) => loadType(type, signal), [type]);
  const [open, setOpen] = useState(null);
  const close = () => setOpen(null);
  const purged = () => { close(); say("The purge has started"); go("/console/erasure"); };
  const { definition, etag } = loaded.data ?? {};
  // An operation on all entities of a type needs a scope for all of its features.
  const refused = refusal("features:write", type, "");
  if (!definition && loaded.problem?.status === 404 && view !== "history") {
    return html`<${Gone} type=${type} onPurge=${() => setOpen("purge")}/>
      ${open === "purge" && html`<${PurgeBags} type=${type} isGone onClose=${close} onDone=${purged}/>`}`;
  }
  return html`
    <${PageHead} title=${type} before=${CRUMBS}>
      ${definition && html`
        <${LinkButton} icon="search" href=${pageOfType(type, "find")} refused=${refusal("lists:read", type, "")}>Find bags</${LinkButton}>
        <${LinkButton} icon="edit" href=${pageOfType(type, "edit")} refused=${refused}>Edit</${LinkButton}>
        <${Button} icon="bin" refused=${refusal("lists:write", type, "")} onClick=${() => setOpen("purge")}>Purge bags</${Button}>
        <${Button} icon="bin" kind="danger" refused=${refused} onClick=${() => setOpen("delete")}>Delete</${Button}>`}
    </${PageHead}>
    <${Tabs} label="Views of the entity type" current=${view} tabs=${TABS.map(([id, words]) => [id, words, pageOfType(type, id)])}/>
    ${loaded.problem && loaded.problem.status !== 404 && html`<${Trouble} problem=${loaded.problem} onRetry=${loaded.again}/>`}
    ${view === "history" ? html`<${History} path=${typePath(type)}/>`
      : !definition ? !loaded.problem && html`<${Loading} what="Loading the entity type"/>`
      : view === "edit" ? html`
        <${EditDefinition} key=${etag} definition=${definition} etag=${etag} refused=${refused} title=${type} page=${pageOfType(type)}
          fields=${["ttl", "description", "owner", "labels"]} about="The name cannot be changed." ttlWhat=${BAG} consequence=${consequence}
          onSaved=${loaded.again} change=${(patch, etag) => changeType(type, patch, etag)} load=${() => loadType(type)}/>`
      : view === "bags" ? html`<${BagsOfType} type=${type}/>`
      : view === "indexes" ? html`<${Indexes} type=${type} refused=${refused}/>`
      : view === "find" ? html`<${Find} type=${type}/>`
      : html`<${Overview} definition=${definition}/>`}
    ${open === "purge" && html`<${PurgeBags} type=${type} onClose=${close} onDone=${purged}/>`}
    ${open === "delete" && html`<${DeleteType} definition=${definition} etag=${etag} onClose=${close} onStale=${loaded.again}/>`}`;
}

/** What a change of a TTL does at once, in words. */
function consequence(before, after) {
  const [old, next] = [readTtl(before).secs, readTtl(after).secs];
  if (!old || !next || old === next) return null;
  return next < old
    ? html`Bags unchanged for <strong>${ttlWords(after)}</strong> are hidden immediately, and their space is reclaimed later.`
    : html`Bags written from now on live longer. Existing bags keep the expiry they were written with.`;
}

const Overview = ({ definition }) => html`
  <div class="split">
    <section class="card" aria-label="Definition">
      <dl class="facts">
        <div><dt>Bags live for</dt><dd><strong>${ttlWords(definition.ttl)}</strong><p class="fine">After their last change.</p></dd></div>
        <div><dt>Description</dt><dd>${definition.description
          ? html`<bdi class="long">${definition.description}</bdi>` : html`<span class="muted">none</span>`}</dd></div>
        <div><dt>Owner</dt><dd>${definition.owner
          ? html`<bdi class="long">${definition.owner}</bdi>` : html`<span class="muted">none</span>`}</dd></div>
        <div><dt>Labels</dt><dd>${Object.keys(definition.labels).length
          ? html`<${Labels} labels=${definition.labels}/>` : html`<span class="muted">none</span>`}</dd></div>
        <div><dt>Created</dt><dd><${Time} at=${definition.created_at}/></dd></div>
        <div><dt>Changed</dt><dd><${Time} at=${definition.updated_at}/></dd></div>
      </dl>
    </section>
    <${LookInto} type=${definition.entity_type}/>
  </div>`;

function LookInto({ type }) {
  const [id, setId] = useState("");
  return html`
    <section class="card quiet-card" aria-label="Open an entity">
      <h2>Open an entity</h2>
      <p>Enter the ID of a <bdi>${type}</bdi> to see its bag and lists, or to store a bag.</p>
      <form class="inline-form" onSubmit=${(event) => { event.preventDefault(); if (id) go(pageOfEntity(type, id)); }}>
        <input class="input" type="text" aria-label="Entity ID" placeholder=${`${type} ID`} value=${id}
          autocomplete="off" spellcheck=${false} onInput=${(event) => setId(event.target.value)}/>
        <${Button} kind="primary" type="submit">Show</${Button}>
      </form>
    </section>`;
}

const Gone = ({ type, onPurge }) => html`
  <${PageHead} title=${type} before=${CRUMBS}/>
  <${Empty} icon="search" title="Entity type not found" actions=${html`
      <${LinkButton} href="/console/entities">All entity types</${LinkButton}>
      <${LinkButton} href=${pageOfType(type, "history")}>Its history</${LinkButton}>
      <${Button} refused=${refusal("lists:write", type, "")} onClick=${onPurge}>Erase remaining bags</${Button}>
      <${LinkButton} kind="primary" icon="plus" refused=${refusal("features:write", type, "")}
        href=${`/console/entities/new?${new URLSearchParams({ type })}`}>New entity type</${LinkButton}>`}>
    <p>If it was deleted, its history shows when and by whom. The lists of its entities remain.</p>
  </${Empty}>`;
