// When items happened: a bar for each stretch of time. A bar leads to its items; arrow keys go along them.

import { html, useRef, useState } from "../lib/html.js";
import { dayTime, group, span } from "../lib/format.js";

const BARS = 48;

/** Counts by stretches of whole milliseconds, from the oldest item to the newest. */
export function stretches(millis) {
  const oldest = Math.min(...millis);
  const length = Math.max(...millis) - oldest + 1;
  const width = Math.ceil(length / BARS);
  const counts = Array.from({ length: Math.ceil(length / width) }, (_, i) => ({ from: oldest + i * width, to: oldest + (i + 1) * width, count: 0 }));
  for (const at of millis) counts[Math.floor((at - oldest) / width)].count += 1;
  return counts;
}

export function Timeline({ millis, expiry, isPart, onPick }) {
  const [wanted, setAt] = useState(BARS - 1);
  const list = useRef();
  if (!millis.length) return null;
  const bars = stretches(millis);
  const at = Math.min(wanted, bars.length - 1);
  const highest = Math.max(...bars.map((bar) => bar.count));
  const [first, last] = [Math.min(...millis), Math.max(...millis)];
  const move = (event) => {
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: bars.length - 1 }[event.key];
    if (next === undefined || next < 0 || next >= bars.length) return;
    event.preventDefault();
    setAt(next);
    list.current.children[next].focus();
  };
  const items = (count) => `${group(count)} ${count === 1 ? "item" : "items"}`;
  const width = (bars[0].to - bars[0].from) / 1000;
  return html`
    <figure class="timeline">
      <figcaption>${isPart ? "The newest " : ""}${items(millis.length)} ${first === last ? `at ${dayTime(first)}`
        : html`over ${span((last - first) / 1000)}<span class="muted"> · a bar is ${span(width)}</span>`}</figcaption>
      <div class="bars" role="toolbar" aria-label="Items over time" ref=${list} onKeyDown=${move}>
        ${bars.map((bar, i) => html`
          <button type="button" class="bar" tabindex=${i === at ? 0 : -1} onFocus=${() => setAt(i)}
            aria-label=${`${items(bar.count)} from ${dayTime(bar.from)} to ${dayTime(bar.to)}`}
            title=${`${items(bar.count)}\n${dayTime(bar.from)} –\n${dayTime(bar.to)}`}
            onClick=${() => bar.count && onPick(bar.from, bar.to)}>
            <span style=${{ height: bar.count ? `${Math.max(6, (bar.count / highest) * 100)}%` : "2px" }}
              class=${bar.count ? "" : "none"}/>
          </button>`)}
      </div>
      <div class="axis">
        ${expiry > first && expiry < last && html`<span class="mark-at expiry" title="Older items have expired"
          style=${{ left: `${((expiry - first) / (last - first)) * 100}%` }}/>`}
        <span>${dayTime(first)}</span>${first !== last && html`<span>${dayTime(last)}</span>`}
      </div>
    </figure>`;
}
