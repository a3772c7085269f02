// Finds bags by an index: values of its properties, between bounds of its order, page by page.

import { html, useState } from "../lib/html.js";
import { readMoment, readOrderBound, rfc3339 } from "../lib/format.js";
import { pageOfType } from "../lib/entities.js";
import { findAsCommand, findAsCurl, findBags, loadIndexes, scalarOf } from "../lib/indexes.js";
import { go, usePlace } from "../lib/router.js";
import { refusal } from "../lib/session.js";
import { Button, Copy, Empty, LinkButton, Loading, Notice, SelectField, TextField, Trouble } from "../ui/parts.js";
import { BagRows } from "../ui/bags.js";
import { useLoad } from "../ui/use.js";
import { WalkPager, useWalk } from "../ui/walk.js";

const LIMIT = 50;

export function Find({ type }) {
  const { query } = usePlace();
  const refused = refusal("lists:read", type, "") ?? refusal("features:read", type, "");
  const loaded = useLoad(async (signal) => (refused ? [] : loadIndexes(type, signal)), [type, refused]);
  const indexes = (loaded.data ?? []).filter(({ state }) => state !== "dropping");
  const wanted = { index: query.get("index") ?? indexes[0]?.name, texts: query.getAll("value"), min: query.get("min") ?? "",
    max: query.get("max") ?? "", order: query.get("order") ?? "" };
  const index = indexes.find(({ name }) => name === wanted.index);
  if (refused) return html`<section class="card"><${Empty} icon="search" title="You may not find bags here"><p>${refused}</p></${Empty}></section>`;
  if (!loaded.data) return html`<${Trouble} problem=${loaded.problem} onRetry=${loaded.again}/>${loaded.loading && html`<${Loading} what="Loading indexes"/>`}`;
  if (!indexes.length) {
    return html`<section class="card"><${Empty} icon="search" title="No index yet" actions=${html`
        <${LinkButton} kind="primary" icon="plus" href=${pageOfType(type, "indexes")}>To the indexes</${LinkButton}>`}>
      <p>Create an index with the properties that you want to search by.</p></${Empty}></section>`;
  }
  const isAsked = index && wanted.texts.length === index.properties.length && wanted.texts.every(Boolean);
  return html`
    <${Choice} key=${JSON.stringify(wanted)} type=${type} indexes=${indexes} index=${index} wanted=${wanted}/>
    ${!index ? html`<${Notice} kind="warn" title="Index not found."/>`
      : isAsked ? html`<${Results} type=${type} index=${index} wanted=${wanted}/>`
      : html`<section class="card"><${Empty} icon="search" title="Which bags?">
          <p>Enter the full value of ${index.properties.length === 1 ? "this property" : "these properties"}. An index finds equal values.</p></${Empty}></section>`}`;
}

/** A bound for the server: { text }, or { error }. */
function readBound(text, order) {
  if (order) return readOrderBound(text);
  const { ns, error } = readMoment(text);
  return error ? { error } : { text: ns === null ? "" : rfc3339(ns) };
}

/** The choice becomes the address when it is submitted. */
function Choice({ type, indexes, index, wanted }) {
  const [draft, setDraft] = useState(wanted);
  const [isTried, setTried] = useState(false);
  const set = (changes) => setDraft((now) => ({ ...now, ...changes }));
  const properties = index?.properties ?? [];
  const order = index?.order_by;
  const url = (asked) => {
    const query = new URLSearchParams({ index: asked.index });
    for (const text of asked.texts ?? []) query.append("value", text);
    for (const name of ["min", "max", "order"]) if (asked[name]) query.set(name, asked[name]);
    return `${pageOfType(type, "find")}?${query}`;
  };
  const [min, max] = [readBound(draft.min, order), readBound(draft.max, order)];
  const texts = properties.map((_, i) => draft.texts[i] ?? "");
  const submit = (event) => {
    event.preventDefault();
    setTried(true);
    if (index && texts.every(Boolean) && !min.error && !max.error) go(url({ ...draft, texts, min: min.text, max: max.text }));
  };
  const sent = (text) => (text ? `Sent as ${scalarOf(text).slice(0, 80)}` : "Text, or JSON: 17, true, null, \"17\".");
  return html`
    <form class="card find" onSubmit=${submit} novalidate aria-label="Search">
      <div class="find-row">
        <${SelectField} label="Index" value=${draft.index} onChange=${(name) => go(url({ index: name }))}
          options=${[...(index ? [] : [[draft.index, draft.index]]), ...indexes.map(({ name }) => [name, name])]}/>
        ${properties.map((property, i) => html`
          <${TextField} key=${property} label=${html`Value of <code><bdi>${property}</bdi></code>`} value=${texts[i]} hint=${sent(texts[i])}
            error=${isTried && !texts[i] ? "Required." : null}
            onInput=${(text) => set({ texts: texts.map((one, at) => (at === i ? text : one)) })}/>`)}
      </div>
      <div class="find-row">
        <${TextField} label="From" value=${draft.min} onInput=${(min) => set({ min })} placeholder=${order ? "7.5" : "-7d"}
          error=${isTried && min.error} hint=${order ? html`Of <code><bdi>${order}</bdi></code>: a number, or a time.` : "Updated at or after this time."}/>
        <${TextField} label="To" value=${draft.max} onInput=${(max) => set({ max })} error=${isTried && max.error} hint="Both bounds are inclusive."/>
        <${SelectField} label="Order" value=${draft.order} onChange=${(order) => set({ order })}
          options=${order ? [["", "greatest first"], ["oldest", "least first"]] : [["", "newest first"], ["oldest", "oldest first"]]}/>
        <${Button} kind="primary" icon="search" type="submit">Find</${Button}>
      </div>
    </form>`;
}

function Results({ type, index, wanted }) {
  const walk = useWalk();
  const asked = { ...wanted, values: wanted.texts.map(scalarOf) };
  const page = useLoad((signal) => findBags(type, asked, { limit: LIMIT, token: walk.token }, signal), [type, JSON.stringify(asked), walk.token]);
  const { bags = [], next } = page.data ?? {};
  return html`
    <section class="card" aria-label="Results">
      <div class="card-head">
        <div><h2>Found${page.data && bags.length > 0 && html` <span class="muted">${bags.length}${next || walk.token ? " on this page" : ""}</span>`}</h2></div>
        <div class="actions">
          <${Copy} text=${findAsCurl(type, asked, LIMIT)} label="Copy as curl">curl</${Copy}>
          <${Copy} text=${findAsCommand(type, asked, LIMIT)} label="Copy as command">Command</${Copy}>
          <${Button} kind="small" icon="refresh" label="Read again" onClick=${page.again}/>
        </div>
      </div>
      ${index.state === "cancelled" && html`<${Notice} kind="warn" title="The build of the index was cancelled.">
        <p>Bags older than the index are missing. Clean the index to add them.</p></${Notice}>`}
      ${index.state === "building" && html`<${Notice} kind="warn" title="The index is being built.">
        <p>Bags older than the index may still be missing.</p></${Notice}>`}
      <${Trouble} problem=${page.problem} onRetry=${page.again}/>
      ${page.data === undefined ? page.loading && html`<${Loading} what="Looking for bags"/>`
        : bags.length ? html`<${BagRows} type=${type} bags=${bags} order=${index.order_by} caption="Matching bags"/>`
        : html`<${Empty} icon="search" title=${next || walk.token ? "None on this page" : "No matching bag"}>
            <p>${next ? "The next page may have some." : html`Values are typed: <code>1</code> is a number, <code>"1"</code> a text. A bag
              without one of these properties is not in the index.`}</p></${Empty}>`}
      <${WalkPager} walk=${walk} next=${next} label="Pages of results"/>
    </section>`;
}
