// The amount that would be deleted with a feature or a version: an estimate from one call at once, and the exact
// number on request.

import { html, useEffect, useRef, useState } from "../lib/html.js";
import { bytes, group, short } from "../lib/format.js";
import { refusal } from "../lib/session.js";
import { weigh } from "../lib/weight.js";
import { Button, Trouble } from "./parts.js";

/** About ten million lists. */
const CALLS_MAX = 10000;

export function Weight({ feature, versions }) {
  const [weight, setWeight] = useState(null);
  const [problem, setProblem] = useState(null);
  const [isCounting, setCounting] = useState(false);
  const ending = useRef(null);
  const mayRead = !refusal("lists:read", feature.entity_type, feature.name);
  const count = async (callsMax) => {
    ending.current?.abort();
    const { signal } = (ending.current = new AbortController());
    setProblem(null);
    setCounting(true);
    try {
      await weigh(feature, versions, { callsMax, onSome: setWeight, signal });
    } catch (problem) {
      if (!signal.aborted) setProblem(problem);
    }
    if (!signal.aborted) setCounting(false);
  };
  const stop = () => { ending.current.abort(); setCounting(false); };
  useEffect(() => {
    if (mayRead) count(versions.length);
    return () => ending.current?.abort();
  }, []);
  if (!mayRead) return html`<li class="muted">You may not read its lists, so their number is not shown.</li>`;
  const some = weight && (weight.isWhole ? "" : "at least ");
  return html`
    <li aria-live="polite">
      ${!weight ? problem ? "Cannot count its lists." : "Counting its lists…"
        : weight.lists === 0 && weight.isWhole ? html`<strong>No list</strong> has items.`
        : html`<strong>${some}${group(weight.lists)} ${weight.lists === 1 ? "list" : "lists"}</strong>${weight.items
            ? html`, with about ${short(weight.items)} ${Math.round(weight.items) === 1 ? "item" : "items"} and <strong>${bytes(weight.bytes)}</strong> of values` : ""}.`}
      ${weight && !weight.isWhole && html`
        <p class="fine">Counting all lists scans the whole store.
          ${" "}${isCounting
            ? html`<${Button} kind="small" onClick=${stop}>Stop counting</${Button}>`
            : html`<${Button} kind="small" onClick=${() => count(CALLS_MAX)}>Count all</${Button}>`}</p>`}
      <${Trouble} problem=${problem} onRetry=${() => count(versions.length)}/>
    </li>`;
}
