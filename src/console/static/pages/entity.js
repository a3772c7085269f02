// One entity: its bag, and the lists that it has.

import { html, useState } from "../lib/html.js";
import { entityAsCommand, entityPath, loadBag, pageOfEntity, pageOfType, ttlOf } from "../lib/entities.js";
import { bytes } from "../lib/format.js";
import { parseExact, pretty } from "../lib/json.js";
import { go, usePlace } from "../lib/router.js";
import { refusal, session } from "../lib/session.js";
import { curl } from "../lib/shell.js";
import { useStore } from "../lib/store.js";
import { Button, Copy, Empty, LinkButton, Loading, PageHead, Time, Trouble, say } from "../ui/parts.js";
import { Expiry } from "../ui/bags.js";
import { EntityForm } from "../ui/entity_form.js";
import { useLoad } from "../ui/use.js";
import { Value } from "../ui/value.js";
import { DeleteBag, EditBag } from "./bag_edit.js";
import { EntityLists } from "./entity_lists.js";

export function EntityPage() {
  useStore(session);
  const { query } = usePlace();
  const [type, id] = [query.get("type") ?? "", query.get("id") ?? ""];
  const erase = `/console/erasure/entity?${new URLSearchParams({ type, id })}`;
  return html`
    <${PageHead} title=${id || "An entity"} before=${html`<p class="crumbs"><a href="/console/entities">Entities</a>${type && html`
        ${" › "}<a href=${pageOfType(type)}><bdi>${type}</bdi></a>`}</p>`}>
      ${type && id && html`<${LinkButton} icon="bin" href=${erase} refused=${refusal("lists:write", type, "*")}>Erase the entity</${LinkButton}>`}
    </${PageHead}>
    <${EntityForm} key=${`${type}/${id}`} type=${type} id=${id} label="Which entity" onGo=${(type, id) => go(pageOfEntity(type, id))}/>
    ${type && id ? html`
        <${BagCard} key=${`bag ${type}/${id}`} type=${type} id=${id}/>
        <${EntityLists} key=${`lists ${type}/${id}`} type=${type} id=${id}/>`
      : html`<section class="card"><${Empty} icon="entities" title="Which entity?">
          <p>Enter its type and ID to see its bag and its lists.</p></${Empty}></section>`}`;
}

function BagCard({ type, id }) {
  const refused = refusal("lists:read", type, "");
  const [open, setOpen] = useState(null);
  const loaded = useLoad(async (signal) => (refused ? {} : { bag: await loadBag(type, id, signal), ttl: await ttlOf(type, signal) }),
    [type, id, refused]);
  const { bag, ttl } = loaded.data ?? {};
  const writing = refusal("lists:write", type, "");
  const close = () => setOpen(null);
  const done = (words) => { close(); say(words); loaded.again(); };
  const isTypeMissing = loaded.problem?.code === "entity_type_not_found";
  if (refused) {
    return html`<section class="card" aria-label="The bag"><${Empty} icon="entities" title="You may not read its bag"><p>${refused}</p></${Empty}></section>`;
  }
  if (open === "edit") return html`<${EditBag} type=${type} id=${id} bag=${bag} onClose=${close} onDone=${done} refused=${writing}/>`;
  return html`
    <section class="card" aria-label="The bag">
      <div class="card-head">
        <div><h2>Bag</h2>${bag && html`<p class="muted">Updated <${Time} at=${bag.updatedAt}/></p>`}</div>
        <div class="actions">
          <${Copy} text=${curl(entityPath(type, id))} label="Copy as curl">curl</${Copy}>
          <${Copy} text=${entityAsCommand(type, id)} label="Copy as command">Command</${Copy}>
          <${Button} kind="small" icon="refresh" label="Read again" onClick=${loaded.again}/>
          ${bag && html`
            <${Button} kind="small danger" icon="bin" refused=${writing} onClick=${() => setOpen("delete")}>Delete bag</${Button}>
            <${Button} kind="small primary" icon="edit" refused=${writing} onClick=${() => setOpen("edit")}>Edit</${Button}>`}
        </div>
      </div>
      ${!isTypeMissing && html`<${Trouble} problem=${loaded.problem} onRetry=${loaded.again}/>`}
      ${isTypeMissing ? html`<${NoType} type=${type}/>`
        : loaded.data === undefined ? loaded.loading && html`<${Loading} what="Loading the bag"/>`
        : bag ? html`<${Bag} bag=${bag} ttl=${ttl}/>`
        : html`<${Empty} icon="entities" title="This entity has no bag"
            actions=${html`<${Button} kind="primary" icon="plus" refused=${writing} onClick=${() => setOpen("edit")}>Put a bag</${Button}>`}>
            <p>No bag was stored, or it was deleted or has expired. A bag is any JSON object. It is stored until
              the time to live of <bdi>${type}</bdi> has passed after its last change.</p></${Empty}>`}
      ${open === "delete" && html`<${DeleteBag} type=${type} id=${id} bag=${bag} onClose=${close} onDone=${done}/>`}
    </section>`;
}

const Bag = ({ bag, ttl }) => html`
  <div class="bag"><${Value} key=${bag.etag} type="json" value=${parseExact(bag.text)} isOpen/></div>
  <dl class="facts bag-facts">
    ${ttl && html`<div><dt>Expires</dt><dd><${Expiry} updatedAt=${bag.updatedAt} ttl=${ttl}/>
      <p class="fine">If it is not changed. Earlier if it was written with a shorter time to live.</p></dd></div>`}
    <div><dt>Entity tag</dt><dd><code>${bag.etag}</code></dd></div>
    <div><dt>Size</dt><dd>${bytes(new TextEncoder().encode(bag.text).length)} <span class="muted">of at most 262 kB</span>
      ${" "}<${Copy} kind="small quiet" label="Copy the bag" text=${pretty(bag.text)}/></dd></div>
  </dl>`;

const NoType = ({ type }) => html`
  <${Empty} icon="entities" title="This entity type has no bags" actions=${html`
      <${LinkButton} kind="primary" icon="plus" refused=${refusal("features:write", type, "")}
        href=${`/console/entities/new?${new URLSearchParams({ type })}`}>Create the entity type</${LinkButton}>`}>
    <p>Create the entity type <bdi>${type}</bdi> once to allow bags. Lists do not need it.</p>
  </${Empty}>`;
