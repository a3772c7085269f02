// The frame of every page: the name, the present caller, the colours, and the navigation.

import { html, useEffect, useState } from "../lib/html.js";
import { zone } from "../lib/format.js";
import { nameOf, session, signOut } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { Icon, Mark } from "./icons.js";
import { Button } from "./parts.js";

const PLACES = [
  ["/console/features", "Features", "features"],
  ["/console/lists", "Lists", "lists"],
  ["/console/entities", "Entities", "entities"],
  ["/console/erasure", "Erasure", "bin"],
  ["/console/health", "Health", "health"],
  ["/console/access", "Access", "access"],
  ["/docs", "API", "docs"],
];

export function Header({ onMenu, isMenuOpen }) {
  return html`
    <header class="top">
      <${Button} kind="quiet menu-button" icon="menu" label="Menu" aria-expanded=${isMenuOpen} aria-controls="places"
        onClick=${onMenu}/>
      <a class="brand" href="/console/features"><${Mark}/><span>Liststore</span></a>
      <div class="top-right"><${Who}/><${Zone}/><${Theme}/></div>
    </header>`;
}

export const Navigation = ({ path, isOpen }) => html`
  <nav id="places" class=${`places ${isOpen ? "open" : ""}`} aria-label="Pages">
    ${PLACES.map(([href, name, icon]) => html`
      <a href=${href} aria-current=${isAt(path, href) ? "page" : undefined}>
        <${Icon} name=${icon} size="18"/><span>${name}</span>
      </a>`)}
  </nav>`;

const isAt = (path, href) =>
  path === href || path.startsWith(`${href}/`) || (href === "/console/features" && /^\/(console\/?)?$/.test(path));

function Who() {
  const { state, me } = useStore(session);
  if (state !== "in") return null;
  if (me.kind === "anonymous") {
    return html`<a class="who open" href="/console/access" title="Anyone who can reach this server has full access">
      <${Icon} name="warn"/><span>Open server</span></a>`;
  }
  return html`
    <a class="who" href="/console/access"><${Icon} name="access"/><bdi>${nameOf(me)}</bdi></a>
    <${Button} kind="quiet" icon="out" label="Sign out" onClick=${signOut}/>`;
}

/** Switches all times between UTC and the browser's zone. */
function Zone() {
  const isLocal = useStore(zone) === "local";
  return html`
    <button type="button" class="button quiet zone" aria-label=${`Times: ${isLocal ? "local" : "UTC"}. Change to ${isLocal ? "UTC" : "local"}`}
      onClick=${() => zone.set(isLocal ? "utc" : "local")}>${isLocal ? "Local" : "UTC"}</button>`;
}

const THEMES = { auto: ["auto", "as the system"], light: ["sun", "light"], dark: ["moon", "dark"] };

function Theme() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme ?? "auto");
  useEffect(() => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      if (theme === "auto") localStorage.removeItem("liststore.theme");
      else localStorage.setItem("liststore.theme", theme);
    } catch {
      // Without storage, the choice lasts as long as the page.
    }
  }, [theme]);
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(theme) + 1) % names.length];
  const [icon, words] = THEMES[theme];
  return html`
    <${Button} kind="quiet" icon=${icon} label=${`Colours: ${words}. Change to ${THEMES[next][1]}`}
      onClick=${() => setTheme(next)}/>`;
}
