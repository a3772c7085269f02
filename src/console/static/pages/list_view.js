// The items of one list, over time and in a table, and the actions on them.

import { html, useState } from "../lib/html.js";
import { group, millisOf, nanos, readTtl, relative, rfc3339, ttlWords } from "../lib/format.js";
import { deprecation, identityOf, pageOf, titleOf, versionName } from "../lib/features.js";
import { asCommand, asCurl, getItems } from "../lib/lists.js";
import { go, usePlace, withQuery } from "../lib/router.js";
import { isOpen, refusal } from "../lib/session.js";
import { hasOperation, takesParameter } from "../lib/document.js";
import { valueJson } from "../lib/values.js";
import { Badge, Button, Copy, Empty, Loading, Time, Trouble, TypeBadge, say } from "../ui/parts.js";
import { Timeline } from "../ui/timeline.js";
import { Icon } from "../ui/icons.js";
import { Value } from "../ui/value.js";
import { useLoad, useNow } from "../ui/use.js";
import { Deprecated } from "./deprecate.js";
import { Aggregate } from "./list_aggregate.js";
import { AddItem, RemoveAll, RemoveValue } from "./list_changes.js";
import { LookUp } from "./list_lookup.js";
import { WhyMissing } from "./list_missing.js";

const LIMIT = 50;
/** The number of items in the picture over time. */
const OVERVIEW = 1000;

export function ListView({ wanted, feature }) {
  const place = usePlace();
  const now = useNow();
  const [open, setOpen] = useState(null);
  const list = { type: wanted.type, feature: wanted.feature, version: wanted.version, id: wanted.id };
  const limit = Math.min(1000, Math.max(1, Number(wanted.limit) || LIMIT));
  const hasOrder = useLoad(() => takesParameter("get_items", "order"), []).data;
  const hasAggregates = useLoad(() => hasOperation("aggregate_items"), []).data;
  const bounds = {
    min_timestamp: wanted.min || undefined, max_timestamp: wanted.max || undefined,
    order: (hasOrder && wanted.order) || undefined,
  };
  // The tokens of the previous pages, to return to them. They survive a reload.
  const token = place.query.get("token") ?? undefined;
  const before = place.state?.before ?? [];
  const keys = [JSON.stringify(list), JSON.stringify(bounds), limit];
  const page = useLoad(
    (signal) => getItems(list, { ...bounds, limit, page_token: token }, signal), [...keys, token, Boolean(bounds.order)],
  );
  const overview = useLoad((signal) => getItems(list, { ...bounds, limit: OVERVIEW }, signal), [...keys, Boolean(bounds.order)]);
  const again = () => { page.again(); overview.again(); };
  const version = feature.versions.find((version) => version.version === wanted.version);
  const ttl = version?.ttl ?? feature.ttl;
  const identity = identityOf(feature, version);
  const refused = refusal("lists:write", wanted.type, wanted.feature);
  const query = { ...bounds, limit };
  const all = overview.data?.items ?? [];
  const items = page.data?.items ?? [];
  const isReversed = bounds.order === "oldest";
  const on = () => go(withQuery({ token: page.data.next_page_token }), { state: { before: [...before, token ?? ""] } });
  const back = () => go(withQuery({ token: before.at(-1) }), { state: { before: before.slice(0, -1) } });
  const pick = (from, to) => go(withQuery({
    min: rfc3339(BigInt(from) * 1000000n), max: rfc3339(BigInt(to) * 1000000n - 1n), token: "",
  }));
  const close = () => setOpen(null);
  const done = (words) => { close(); say(words); again(); };
  return html`
    <section class="card list" aria-label="The list">
      <div class="card-head">
        <div>
          <h2><bdi class="clip-id">${wanted.id}</bdi></h2>
          <p class="muted list-about">
            <a href=${pageOf(feature)}><bdi>${titleOf(feature)}</bdi></a>
            ${wanted.version && html`<${Badge}>${versionName(wanted.version)}</${Badge}>`}
            <${TypeBadge} type=${feature.value_type}/><span>kept for ${ttlWords(ttl)}</span>
            ${version?.max_items && html`<span>· the newest ${group(version.max_items)} of them</span>`}
            ${identity !== "item" && html`<span>· each ${identity} once</span>`}
            <${Deprecated} note=${deprecation(feature, wanted.version)}/>
          </p>
        </div>
        <div class="actions">
          <${Copy} text=${asCurl(list, query, !isOpen())} label="Copy as curl">curl</${Copy}>
          <${Copy} text=${asCommand(list, query)} label="Copy as command">Command</${Copy}>
          <${Button} kind="small" icon="refresh" label="Read again" onClick=${again}/>
          <${Button} kind="small danger" icon="bin" refused=${refused} onClick=${() => setOpen(["all"])}>Remove all</${Button}>
          <${Button} kind="small primary" icon="plus" refused=${refused} onClick=${() => setOpen(["add"])}>Add an item</${Button}>
        </div>
      </div>
      <${Trouble} problem=${page.problem} onRetry=${again}/>
      ${all.length > 0 && html`
        <${Timeline} millis=${all.map((item) => millisOf(item.timestamp))} onPick=${pick}
          isPart=${Boolean(overview.data.next_page_token)} expiry=${now - readTtl(ttl).secs * 1000}/>`}
      ${(wanted.min || wanted.max) && html`
        <p class="bounded">Only from ${wanted.min ? html`<${Time} at=${wanted.min} kind="absolute"/>` : "the beginning"} to
          ${" "}${wanted.max ? html`<${Time} at=${wanted.max} kind="absolute"/>` : "the end"}.
          ${" "}<a href=${withQuery({ min: "", max: "", token: "" })}>Show all times</a></p>`}
      ${page.data === undefined && page.loading ? html`<${Loading} what="Loading items"/>`
        : items.length ? html`
          <${Items} items=${items} feature=${feature} isKeyed=${identity === "key"} ttl=${ttl} now=${now} refused=${refused}
            onRemove=${(item) => setOpen(["value", item])}/>`
        : page.data && html`<${NoItems} wanted=${wanted} token=${token} refused=${refused} onAdd=${() => setOpen(["add"])}/>`}
      <div class="pager" role="group" aria-label="Pages of items">
        ${token && !before.length
          ? html`<a class="button small" href=${withQuery({ token: "" })}>${isReversed ? "Oldest" : "Newest"}</a>`
          : html`<${Button} kind="small" icon="left" disabled=${!before.length} onClick=${back}>
              ${isReversed ? "Older" : "Newer"}</${Button}>`}
        ${hasOrder && html`
          <label class="order">Order <select class="input small" aria-label="Order" value=${wanted.order}
            onChange=${(event) => go(withQuery({ order: event.target.value, token: "" }), { replace: true })}>
            <option value="" selected=${!wanted.order}>newest first</option>
            <option value="oldest" selected=${wanted.order === "oldest"}>oldest first</option></select></label>`}
        <${Button} kind="small" disabled=${!page.data?.next_page_token} onClick=${on}>
          ${isReversed ? "Newer" : "Older"} <${Icon} name="right"/></${Button}>
      </div>
    </section>
    ${identity !== "item" && html`<${LookUp} key=${`lookup ${keys[0]}`} list=${list} feature=${feature} isKeyed=${identity === "key"}/>`}
    ${hasAggregates && html`<${Aggregate} key=${`aggregate ${keys[0]}`} list=${list} feature=${feature}/>`}
    <${WhyMissing} key=${keys[0]} list=${list} feature=${feature} ttl=${ttl} isKeyed=${identity === "key"}/>
    ${open?.[0] === "add" && html`<${AddItem} list=${list} feature=${feature} ttl=${ttl} isKeyed=${identity === "key"} onClose=${close} onDone=${done}/>`}
    ${open?.[0] === "value" && html`
      <${RemoveValue} list=${list} feature=${feature} item=${open[1]} onClose=${close} onDone=${done}/>`}
    ${open?.[0] === "all" && html`<${RemoveAll} list=${list} feature=${feature} onClose=${close} onDone=${done}/>`}`;
}

const Items = ({ items, feature, isKeyed, ttl, now, refused, onRemove }) => {
  const { secs } = readTtl(ttl);
  return html`
    <table class="table items cards-when-narrow">
      <caption class="unseen">${items.length === 1 ? "1 item" : `${group(items.length)} items`} of the list</caption>
      <thead><tr><th scope="col">Time</th>
        ${isKeyed && html`<th scope="col">Key</th>`}<th scope="col">Value</th><th scope="col">Expires</th>
        <th scope="col"><span class="unseen">Actions</span></th></tr></thead>
      <tbody>
        ${items.map((item) => {
          const millis = millisOf(item.timestamp);
          const end = millis + secs * 1000;
          return html`
            <tr key=${item.timestamp + (item.key ?? "") + valueJson(item.value).slice(0, 200)}>
              <td class="nowrap items-time"><${Time} at=${item.timestamp} kind="absolute"/>
                <div class="fine">${relative(millis, now)}</div></td>
              ${isKeyed && html`<td class="value-cell" data-title="Key"><${Value} type="string" value=${item.key}/></td>`}
              <td class="value-cell"><${Value} type=${feature.value_type} value=${item.value}/></td>
              <td class="nowrap" data-title="Expires"><span class=${end - now < secs * 50 ? "soon" : ""}><${Time}
                at=${rfc3339(nanos(item.timestamp) + BigInt(secs) * 1000000000n)} kind="relative"/></span></td>
              <td class="row-actions">
                <${Copy} kind="small quiet" label="Copy value" text=${valueJson(item.value)}/>
                <${Button} kind="small quiet" icon="bin" label="Remove this value" refused=${refused}
                  onClick=${() => onRemove(item)}/>
              </td>
            </tr>`;
        })}
      </tbody>
    </table>`;
};

const NoItems = ({ wanted, token, refused, onAdd }) => html`
  <${Empty} icon="clock" title=${token ? "No more items" : wanted.min || wanted.max ? "No items in this time range" : "This list is empty"}
    actions=${!token && html`<${Button} icon="plus" refused=${refused} onClick=${onAdd}>Add an item</${Button}>`}>
    ${token ? html`<p>This is the end of the list.</p>`
      : html`<p>No items were added, all have expired, or they were removed. You can look for a missing item below.</p>`}
  </${Empty}>`;
