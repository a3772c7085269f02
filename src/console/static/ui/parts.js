// The parts that pages are made of.

import { html, useEffect, useId, useRef, useState } from "../lib/html.js";
import { connection } from "../lib/api.js";
import { dayTime, millisOf, nanos, relative, rfc3339 } from "../lib/format.js";
import { createStore, useStore } from "../lib/store.js";
import { Icon } from "./icons.js";

/** The head of a page: its subject and its actions. The heading takes the focus of a new page. */
export function PageHead({ title, about, children, before }) {
  const heading = useRef();
  useEffect(() => {
    document.title = `${title} · Liststore`;
    if (!document.activeElement || document.activeElement === document.body) {
      heading.current?.focus({ preventScroll: true });
    }
  }, [title]);
  return html`
    <header class="page-head">
      <div class="page-title">
        ${before}
        <h1 tabindex="-1" ref=${heading}><bdi>${title}</bdi></h1>
        ${about && html`<p class="muted">${about}</p>`}
      </div>
      <div class="actions">${children}</div>
    </header>`;
}

/** A button. A refused one stays reachable, and shows the reason. */
export function Button({ kind = "", icon, children, refused, label, ...rest }) {
  const id = useId();
  const named = label ? { "aria-label": label, title: label } : {};
  if (refused) {
    return html`
      <span class="refused">
        <button type="button" class=${`button ${kind}`} aria-disabled="true" aria-describedby=${id} ...${named}
          onClick=${(event) => event.preventDefault()}>
          ${icon && html`<${Icon} name=${icon}/>`}${children}
        </button>
        <span class="why" role="tooltip" id=${id}>${refused}</span>
      </span>`;
  }
  return html`
    <button type="button" class=${`button ${kind}`} ...${named} ...${rest}>
      ${icon && html`<${Icon} name=${icon}/>`}${children}
    </button>`;
}

export const LinkButton = ({ kind = "", icon, href, children, refused }) =>
  refused
    ? html`<${Button} kind=${kind} icon=${icon} refused=${refused}>${children}</${Button}>`
    : html`<a class=${`button ${kind}`} href=${href}>${icon && html`<${Icon} name=${icon}/>`}${children}</a>`;

export const Badge = ({ kind = "", children }) => html`<span class=${`badge ${kind}`}>${children}</span>`;
export const TypeBadge = ({ type }) => html`<span class="badge type" data-type=${type}>${type}</span>`;

/** A banner while the server is slow or does not respond. A dialog repeats it, because it covers the page. */
export function Connection() {
  const { online, slow } = useStore(connection);
  if (!online) {
    return html`
      <div class="banner bad" role="alert">
        <strong>The server does not respond.</strong> The page shows its last data. Retrying…
      </div>`;
  }
  return slow ? html`<div class="banner warn" role="status"><strong>Still waiting for the server…</strong></div>` : null;
}

/** A moment: when, and how far away. It is a button that shows the exact time, to the nanosecond. */
export function Time({ at, kind = "both" }) {
  const [isExact, setExact] = useState(false);
  const ns = nanos(at);
  if (ns === null) return html`<span>${at}</span>`;
  const millis = Number(ns / 1000000n);
  const exact = rfc3339(ns);
  const words = kind === "relative" ? relative(millis) : dayTime(millis);
  return html`
    <span class="moment"><button type="button" class="time" title=${exact} aria-expanded=${isExact} onClick=${() => setExact(!isExact)}
      ><time datetime=${exact}>${words}</time></button>${kind === "both" && html` <span class="muted nowrap">· ${relative(millis)}</span>`}${isExact
      && html` <code class="exact">${exact}</code>`}</span>`;
}

/** A labelled field. `input` gets the attributes that tie it to its label, hint and error. */
export function Field({ label, hint, error, children, required, wide }) {
  const id = useId();
  const describedBy = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(" ");
  const ties = {
    id, "aria-describedby": describedBy || undefined, "aria-invalid": error ? "true" : undefined,
    "aria-required": required ? "true" : undefined,
  };
  return html`
    <div class=${`field ${wide ? "wide" : ""}`}>
      <label for=${id}>${label}${required && html`<span class="required" aria-hidden="true"> *</span>`}</label>
      ${children(ties)}
      ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
      ${error && html`<p class="error" id=${`${id}-error`}><${Icon} name="warn" size="14"/>${error}</p>`}
    </div>`;
}

export const TextField = ({ value, onInput, label, hint, error, required, wide, area, mono, ...rest }) => html`
  <${Field} label=${label} hint=${hint} error=${error} required=${required} wide=${wide}>
    ${(ties) => area
      ? html`<textarea class=${`input ${mono ? "mono" : ""}`} spellcheck=${false} value=${value} onInput=${(e) => onInput(e.target.value)} ...${ties} ...${rest}/>`
      : html`<input class="input" type="text" autocomplete="off" spellcheck=${false} value=${value}
          onInput=${(e) => onInput(e.target.value)} ...${ties} ...${rest}/>`}
  </${Field}>`;

export const SelectField = ({ value, onChange, label, hint, options, ...rest }) => html`
  <${Field} label=${label} hint=${hint}>
    ${(ties) => html`
      <select class="input" value=${value} onChange=${(e) => onChange(e.target.value)} ...${ties} ...${rest}>
        ${options.map(([option, text]) => html`
          <option value=${option} selected=${option === value}>${text}</option>`)}
      </select>`}
  </${Field}>`;

/**
 * A dialog of the browser: it holds the focus, and Escape closes it. The focus begins in its first field, or on the
 * button that cancels if the action loses data.
 */
export function Dialog({ title, onClose, children, actions, kind = "" }) {
  const dialog = useRef();
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    dialog.current.showModal();
    const field = kind === "danger" ? null : dialog.current.querySelector(".dialog-body :is(input, select, textarea)");
    (field ?? dialog.current.querySelector(".dialog-foot :is(button, a)"))?.focus();
    return () => before?.focus?.();
  }, []);
  return html`
    <dialog ref=${dialog} class=${`dialog ${kind}`} aria-labelledby=${id}
      onCancel=${(event) => { event.preventDefault(); onClose(); }}>
      <div class="dialog-head">
        <h2 id=${id}>${title}</h2>
        <${Button} kind="quiet small" icon="close" label="Close" onClick=${onClose}/>
      </div>
      <div class="dialog-body"><${Connection}/>${children}</div>
      <div class="dialog-foot">${actions}</div>
    </dialog>`;
}

/** A problem, in the server's words. */
export function Trouble({ problem, onRetry, children }) {
  if (!problem) return null;
  return html`
    <div class="notice bad" role="alert">
      <${Icon} name="warn"/>
      <div>
        <strong>${problem.title ?? "Something went wrong"}</strong>
        <p>${problem.detail ?? problem.message}</p>
        ${problem.outcome_unknown && html`<p>The request may have been applied. Check before you retry.</p>`}
        ${children}
        <p class="fine">
          ${problem.code && html`<a href=${`/docs/errors/${problem.code}`} target="_blank" rel="noopener"><code>${problem.code}</code></a>`}
          ${problem.field && html` · field <code>${problem.field}</code>`}
          ${problem.requestId && html` · request <code>${problem.requestId}</code>`}
        </p>
        ${onRetry && html`<${Button} kind="small" icon="refresh" onClick=${onRetry}>Try again</${Button}>`}
      </div>
    </div>`;
}

/** A text with its code spans. */
export const Prose = ({ text }) =>
  html`${text.split("`").map((part, i) => (i % 2 ? html`<code>${part}</code>` : part))}`;

export const Notice = ({ kind = "info", title, children, action }) => html`
  <div class=${`notice ${kind}`}>
    <${Icon} name=${kind === "good" ? "check" : "warn"}/>
    <div>${title && html`<strong>${title}</strong>`}${children}</div>
    ${action}
  </div>`;

/** An empty state, with the first step. */
export const Empty = ({ icon, title, children, actions }) => html`
  <div class="empty">
    <span class="empty-icon"><${Icon} name=${icon} size="28"/></span>
    <h2>${title}</h2>
    <div class="muted">${children}</div>
    ${actions && html`<div class="actions">${actions}</div>`}
  </div>`;

export const Loading = ({ what = "Loading" }) => html`
  <p class="loading" role="status"><span class="spinner" aria-hidden="true"/>${what}…</p>`;

/** Links to the views of a page. Each view has an address. */
export const Tabs = ({ label, tabs, current }) => html`
  <nav class="tabs" aria-label=${label}>
    ${tabs.map(([id, text, href]) => html`
      <a href=${href} aria-current=${id === current ? "page" : undefined}>${text}</a>`)}
  </nav>`;

export function Copy({ text, label = "Copy", kind = "small", children }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return undefined;
    const timer = setTimeout(() => setDone(false), 1800);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      say(`${label}: copied`);
    } catch {
      say("The browser does not allow copying: select the text instead");
    }
  };
  return html`
    <${Button} kind=${kind} icon=${done ? "check" : "copy"} onClick=${copy} label=${done ? "Copied" : label}>
      ${children && (done ? "Copied" : children)}
    </${Button}>`;
}

/** A command to be copied. */
export const Command = ({ text, label }) => html`
  <div class="command"><pre tabindex="0" role="region" aria-label=${label}>${text}</pre>
    <${Copy} text=${text} label=${`Copy ${label}`}/></div>`;

const said = createStore({ text: "", count: 0 });

/** Shows a message for a while, also to screen readers. */
export const say = (text) => said.set({ text, count: said.get().count + 1 });

export function Said() {
  const { text, count } = useStore(said);
  const [shown, setShown] = useState(0);
  useEffect(() => {
    setShown(count);
    const timer = setTimeout(() => setShown(0), 5000);
    return () => clearTimeout(timer);
  }, [count]);
  return html`<div class="said" role="status" aria-live="polite">
    ${shown === count && text && html`<p class="toast"><${Icon} name="check"/>${text}</p>`}
  </div>`;
}

/** Pages of a table that is in memory. */
export function Pager({ page, pages, onPage, label }) {
  if (pages < 2) return null;
  return html`
    <nav class="pager" aria-label=${label}>
      <${Button} kind="small" icon="left" disabled=${page <= 1} onClick=${() => onPage(page - 1)}>Previous</${Button}>
      <span class="muted">Page ${page} of ${pages}</span>
      <${Button} kind="small" disabled=${page >= pages} onClick=${() => onPage(page + 1)}>
        Next <${Icon} name="right"/></${Button}>
    </nav>`;
}
