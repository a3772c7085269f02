// When items happened: a bar for each stretch of time. A bar leads to its items; arrow keys go along them.

import { html, useRef, useState } from "../lib/html.js";
import { dayTime, group, span } from "../lib/format.js";

const BARS = 48;

/** Counts by stretches of time: from the oldest item, or its expiry's edge, to the newest or now. */
export function stretches(millis, now, from, to) {
  const oldest = from ?? Math.min(...millis);
  const newest = Math.max(to ?? now, ...millis);
  const width = Math.max(1, (newest - oldest) / BARS);
  const counts = Array.from({ length: BARS }, (_, i) => ({ from: oldest + i * width, to: oldest + (i + 1) * width, count: 0 }));
  for (const at of millis) counts[Math.max(0, Math.min(BARS - 1, Math.floor((at - oldest) / width)))].count += 1;
  return counts;
}

export function Timeline({ millis, now, expiry, isPart, onPick }) {
  const [at, setAt] = useState(BARS - 1);
  const list = useRef();
  if (!millis.length) return null;
  const bars = stretches(millis, now);
  const highest = Math.max(...bars.map((bar) => bar.count));
  const [first, last] = [bars[0].from, bars.at(-1).to];
  const place = (moment) => `${Math.max(0, Math.min(100, ((moment - first) / (last - first)) * 100))}%`;
  const move = (event) => {
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: BARS - 1 }[event.key];
    if (next === undefined || next < 0 || next >= BARS) return;
    event.preventDefault();
    setAt(next);
    list.current.children[next].focus();
  };
  return html`
    <figure class="timeline">
      <figcaption>${isPart ? "The newest " : ""}${group(millis.length)} ${millis.length === 1 ? "item" : "items"} over
        ${" "}${span((last - first) / 1000)}<span class="muted"> · a bar is ${span((last - first) / 1000 / BARS)}</span></figcaption>
      <div class="bars" role="toolbar" aria-label="Items over time" ref=${list} onKeyDown=${move}>
        ${bars.map((bar, i) => html`
          <button type="button" class="bar" tabindex=${i === at ? 0 : -1} onFocus=${() => setAt(i)}
            aria-label=${`${group(bar.count)} items from ${dayTime(bar.from)} to ${dayTime(bar.to)}`}
            title=${`${group(bar.count)} items\n${dayTime(bar.from)} –\n${dayTime(bar.to)}`}
            onClick=${() => bar.count && onPick(bar.from, bar.to)}>
            <span style=${{ height: bar.count ? `${Math.max(6, (bar.count / highest) * 100)}%` : "2px" }}
              class=${bar.count ? "" : "none"}/>
          </button>`)}
      </div>
      <div class="axis">
        ${expiry > first && html`<span class="mark-at expiry" style=${{ left: place(expiry) }} title="Older items have expired"/>`}
        <span>${dayTime(first)}</span><span>${last - now > 1000 ? dayTime(last) : "now"}</span>
      </div>
    </figure>`;
}
