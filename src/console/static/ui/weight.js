// The amount that would be deleted with a feature or a version: exact numbers, or marked lower bounds. A button counts
// the rest.

import { html, useEffect, useRef, useState } from "../lib/html.js";
import { group } from "../lib/format.js";
import { refusal } from "../lib/session.js";
import { weigh } from "../lib/weight.js";
import { Button, Trouble } from "./parts.js";

/** The automatic count: a page of lists of each version, and the items of some of them. */
const AT_FIRST = { pagesMax: 1, countsMax: 200 };
const ALL = { pagesMax: Infinity, countsMax: Infinity };

const counted = (number, isExact, one) => `${isExact ? "" : "at least "}${group(number)} ${number === 1 ? one : `${one}s`}`;

export function Weight({ feature, versions }) {
  const [weight, setWeight] = useState(null);
  const [problem, setProblem] = useState(null);
  const [isCounting, setCounting] = useState(false);
  const ending = useRef(null);
  const mayRead = !refusal("lists:read", feature.entity_type, feature.name);
  const count = async (bounds) => {
    ending.current?.abort();
    const { signal } = (ending.current = new AbortController());
    setProblem(null);
    setCounting(true);
    try {
      await weigh(feature, versions, { ...bounds, onSome: (weight) => signal.aborted || setWeight(weight), signal });
    } catch (problem) {
      if (!signal.aborted) setProblem(problem);
    }
    if (!signal.aborted) setCounting(false);
  };
  const stop = () => { ending.current.abort(); setCounting(false); };
  useEffect(() => {
    if (mayRead) count(AT_FIRST);
    return () => ending.current?.abort();
  }, []);
  if (!mayRead) return html`<li class="muted">You may not read its lists, so their number is not shown.</li>`;
  const isDone = weight?.isWhole && weight.isExact;
  return html`
    <li aria-live="polite">
      ${!weight ? problem ? "Cannot count its lists." : "Counting its lists…"
        : weight.lists === 0 && weight.isWhole ? html`<strong>No list</strong> has items.`
        : html`<strong>${counted(weight.lists, weight.isWhole, "list")}</strong> with <strong>${counted(weight.items, weight.isExact, "item")}</strong>.`}
      ${weight && !isDone && html`
        <p class="fine">${isCounting ? "Counting… " : "Counting all reads every list. "}${isCounting
            ? html`<${Button} kind="small" onClick=${stop}>Stop counting</${Button}>`
            : html`<${Button} kind="small" onClick=${() => count(ALL)}>Count all</${Button}>`}</p>`}
      <${Trouble} problem=${problem} onRetry=${() => count(AT_FIRST)}/>
    </li>`;
}
