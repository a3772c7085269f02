// The health of the server: problems first, then its work in real time.

import { html, useEffect, useMemo } from "../lib/html.js";
import { bytes, group, seconds, short, span } from "../lib/format.js";
import { quantile, rate, total } from "../lib/metrics.js";
import { isOpen, refusal, session } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { watch, watched } from "../lib/watch.js";
import { Badge, Empty, LinkButton, Loading, Notice, PageHead } from "../ui/parts.js";
import { Graph } from "../ui/graph.js";
import { Pool } from "./pool.js";

const CHECKS = {
  item_store: ["Item store", "The list actors and their store."],
  catalog: ["Catalog", "The definitions in memory, which every list operation reads."],
  metadata_store: ["Metadata store", "Stores the definitions."],
  access: ["Access", "Whether callers must identify themselves."],
  accepting: ["Accepting", "Whether new requests are accepted."],
};
const KINDS = { pass: ["good", "fine"], warn: ["warn", "warning"], fail: ["bad", "failing"] };
const WORSE = ["fail", "warn", "pass"];

export function Health() {
  useStore(session);
  const refused = refusal("server:read");
  const { health, readings, problem, refused: unread } = useStore(watched);
  useEffect(() => watch(!refused), [refused]);
  return html`
    <${PageHead} title="Health" about="The current state, refreshed every two seconds."/>
    ${!health ? !problem && html`<${Loading} what="Contacting the server"/>` : html`<${Verdict} health=${health}/>`}
    ${isOpen() && html`
      <${Notice} kind="warn" title="Anyone who can reach this server has full access."
        action=${html`<${LinkButton} kind="small" href="/console/access">Create an API key</${LinkButton}>`}>
        <p>Creating the first API key ends this.</p>
      </${Notice}>`}
    ${!refusal("pools:write") && html`<${Pool}/>`}
    ${refused ? html`
      <${Empty} icon="health" title="You may not read the metrics"><p>${refused}</p></${Empty}>`
      : unread && !readings.length ? html`<${Notice} kind="warn" title="There are no metrics."><p>${unread}</p></${Notice}>`
      : readings.length > 0 && html`<${Metrics} readings=${readings}/>`}`;
}

function Verdict({ health }) {
  const checks = Object.entries(health.checks).sort((a, b) => WORSE.indexOf(a[1]) - WORSE.indexOf(b[1]));
  const words = { pass: "All checks pass", warn: "Working, with warnings", fail: "Not accepting requests" };
  return html`
    <section class="card" aria-label="Checks">
      <div class=${`verdict ${health.status}`} role="status"><span class="light" aria-hidden="true"/>
        <h2>${words[health.status]}</h2></div>
      ${checks.filter(([, check]) => check !== "pass").map(([name, check]) => html`
        <${Notice} key=${name} kind=${KINDS[check][0]} title=${CHECKS[name]?.[0] ?? name}>
          <p>${health.reasons?.[name] ?? "No reason is given."}</p>
        </${Notice}>`)}
      <ul class="checks">
        ${checks.map(([name, check]) => html`
          <li key=${name}><${Badge} kind=${KINDS[check][0]}>${KINDS[check][1]}</${Badge}>
            <strong>${CHECKS[name]?.[0] ?? name}</strong><p class="fine">${CHECKS[name]?.[1]}</p></li>`)}
      </ul>
    </section>`;
}

const isRead = ({ operation }) =>
  /^(get_items|batch_get|(count|contains|lookup|aggregate)_items|get_bag|find_bags|list_(bags|entities|lists))/.test(operation);
const isWrite = ({ operation }) => /^((add|remove|remove_all)_items|batch_add|(put|patch|create|delete)_bag)$/.test(operation);
const isData = (labels) => isRead(labels) || isWrite(labels);
const HEALTH = new Set(["livez", "readyz", "metrics", "openapi", "none", "get_me"]);
const isControl = (labels) => !isData(labels) && !HEALTH.has(labels.operation);
const hasFailed = ({ status }) => status.startsWith("5");
const REQUESTS = "liststore_http_requests_total";
const DURATION = "liststore_http_request_duration_seconds";
const perSecond = (value) => (value === null ? "–" : value > 0 && value < 10 ? value.toFixed(1) : short(value));
const whole = (value) => short(value);
/** A quantile in words. Beyond the last bound of its histogram, the value is unknown. */
const duration = (value) => (value === Infinity ? "longer than measured" : seconds(value));

/** A quantile of the last minute, and of all readings together if they are fewer. */
const lately = (name, q, which) => (_, after, minute) => quantile(minute, after, name, q, which);
const quantiles = (name, which) => [["p50", lately(name, 0.5, which)], ["p99", lately(name, 0.99, which)]];

/** The graphs: title, format of numbers, series of readings (previous, present, a minute ago), and text if empty. */
const GRAPHS = [
  ["Requests a second", perSecond, [
    ["reads", (a, b) => rate(a, b, REQUESTS, isRead)], ["writes", (a, b) => rate(a, b, REQUESTS, isWrite)],
    ["control", (a, b) => rate(a, b, REQUESTS, isControl)],
    ["failed", (a, b) => rate(a, b, REQUESTS, hasFailed)],
  ]],
  ["Time of reads, last minute", duration, quantiles(DURATION, isRead), "No reads in the last minute."],
  ["Time of writes, last minute", duration, quantiles(DURATION, isWrite), "No writes in the last minute."],
  ["Permits in use", whole, [
    ["in use", (_, b) => total(b, "liststore_list_permits_in_use")],
    ["waiting", (_, b) => total(b, "liststore_list_permits_waiting")],
  ]],
  ["Items a second", perSecond, [
    ["read", (a, b) => rate(a, b, "liststore_items_read_total")],
    ["added", (a, b) => rate(a, b, "liststore_items_added_total")],
    ["removed", (a, b) => rate(a, b, "liststore_items_removed_total")],
  ]],
  ["On disk", bytes, [
    ["data files", (_, b) => total(b, "liststore_disk_bytes")], ["reclaimable", (_, b) => total(b, "liststore_hidden_bytes")],
    ["memtable", (_, b) => total(b, "liststore_pending_bytes")],
  ]],
  ["Compaction", (value) => `${bytes(value)}/s`, [
    ["written", (a, b) => rate(a, b, "liststore_compaction_bytes_total")],
  ]],
  ["Fsync latency, last minute", duration, quantiles("liststore_fsync_seconds"), "No fsync in the last minute."],
  ["Nodes of the cluster", whole, [
    ["reached", (_, b) => total(b, "liststore_cql_nodes_reached")], ["known", (_, b) => total(b, "liststore_cql_nodes")],
  ]],
  ["Requests to the cluster, last minute", duration, quantiles("liststore_cql_request_duration_seconds"), "No requests in the last minute."],
  ["Memory", bytes, [["resident", (_, b) => total(b, "process_resident_memory_bytes")]]],
  ["Processor", (value) => `${short(value * 100)} %`, [["of one core", (a, b) => rate(a, b, "process_cpu_seconds_total")]]],
  ["Connections", whole, [["open", (_, b) => total(b, "liststore_http_connections")]]],
];
/** Readings of a minute. */
const MINUTE = 30;

/** The metrics that a graph needs. */
const NEEDS = {
  "On disk": "liststore_disk_bytes", Compaction: "liststore_compaction_bytes_total",
  "Fsync latency, last minute": "liststore_fsync_seconds_bucket", "Nodes of the cluster": "liststore_cql_nodes",
  "Requests to the cluster, last minute": "liststore_cql_request_duration_seconds_bucket",
};

function Metrics({ readings }) {
  const last = readings.at(-1);
  const graphs = useMemo(() => GRAPHS
    .filter(([title]) => !NEEDS[title] || last.names.has(NEEDS[title]))
    .map(([title, show, series, empty]) => ({
      title, show, empty,
      series: series.map(([name, of]) => [name, readings.map((reading, i) => of(readings[i - 1], reading, i ? readings[Math.max(0, i - MINUTE)] : undefined))]),
    })), [readings]);
  const times = readings.map(({ at }) => at);
  const age = total(last, "liststore_catalog_age_seconds");
  const started = total(last, "process_start_time_seconds");
  const restarts = total(last, "liststore_list_actor_restarts_total");
  const refused = total(last, "liststore_list_permits_refused_total");
  const numbers = [
    ["Running", started && span(Date.now() / 1000 - started), "since the last start"],
    ["Catalog", group(total(last, "liststore_catalog_revision") ?? 0),
      age === null ? "revision" : age < 2 ? "revision, current" : `revision, current ${span(age)} ago`],
    ["Permits", group(total(last, "liststore_list_permits_limit") ?? 0), `of at most ${group(total(last, "liststore_list_permits_bound") ?? 0)}`],
    ["Refused", group(refused ?? 0), "no permit available"],
    ["Actors replaced", group(restarts ?? 0), "since the start"],
    ["Data files", total(last, "liststore_data_files"), `${group(total(last, "liststore_compactions_total") ?? 0)} compactions`],
    ["Open files", total(last, "process_open_fds"), `of ${short(total(last, "process_max_fds") ?? 0)}`],
  ].filter(([, value]) => value !== null && value !== false);
  return html`
    <dl class="tiles">
      ${numbers.map(([title, value, about]) => html`
        <div class="tile" key=${title}><dt>${title}</dt><dd>${value}<span class="fine">${about}</span></dd></div>`)}
    </dl>
    <div class="graphs">
      ${graphs.map(({ title, show, series, empty }) => html`
        <${Graph} key=${title} title=${title} show=${show} series=${series} times=${times} empty=${empty}/>`)}
    </div>
    <p class="fine">${readings.length < 3 ? "The graphs start when you open this page." : "The graphs keep their data while this tab is open."}</p>`;
}
