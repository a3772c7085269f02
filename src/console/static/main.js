// The console's frame: the caller, the navigation and the page of the address.

import { html, render, useEffect, useState } from "./lib/html.js";
import { awaited, connection } from "./lib/api.js";
import { zone } from "./lib/format.js";
import { followLinks, place, segments, toTop, usePlace } from "./lib/router.js";
import { refresh, session, start } from "./lib/session.js";
import { useStore } from "./lib/store.js";
import { Header, Navigation } from "./ui/frame.js";
import { Connection, Loading, Notice, Said, Trouble } from "./ui/parts.js";
import { SignIn } from "./pages/sign_in.js";
import { Features } from "./pages/features.js";

/** The page of an address. All but the first are fetched when they are opened. */
const PAGES = [
  [/^\/(console(\/features)?\/?)?$/, async () => Features],
  [/^\/console\/features\/new\/?$/, async () => (await import("./pages/feature_new.js")).FeatureNew],
  [/^\/console\/features\//, async () => (await import("./pages/feature.js")).FeaturePage],
  [/^\/console\/lists(\/|$)/, async () => (await import("./pages/lists.js")).Lists],
  [/^\/console\/entities(\/|$)/, async () => (await import("./pages/entities.js")).Entities],
  [/^\/console\/erasure(\/|$)/, async () => (await import("./pages/erasure.js")).Erasure],
  [/^\/console\/health(\/|$)/, async () => (await import("./pages/health.js")).Health],
  [/^\/console\/access(\/|$)/, async () => (await import("./pages/access.js")).Access],
  [/^\/docs(\/|$)/, async () => (await import("./pages/reference.js")).Reference],
];
const lost = async () => (await import("./pages/lost.js")).Lost;

function Page({ path }) {
  const load = PAGES.find(([pattern]) => pattern.test(path))?.[1] ?? lost;
  const [loaded, setLoaded] = useState({ load: PAGES[0][1], page: Features });
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    let current = true;
    setProblem(null);
    awaited(load()).then(
      (page) => current && setLoaded({ load, page }),
      (error) => current && setProblem({ title: "Cannot load this page", detail: error.message }),
    );
    return () => { current = false; };
  }, [load]);
  if (problem) return html`<${Trouble} problem=${problem} onRetry=${() => location.reload()}/>`;
  if (loaded.load !== load) return html`<${Loading}/>`;
  return html`<${loaded.page} segments=${segments(path)}/>`;
}

function App() {
  const { path } = usePlace();
  const { state, problem } = useStore(session);
  // All times are drawn again in the chosen zone.
  useStore(zone);
  const [isMenuOpen, setMenuOpen] = useState(false);
  useEffect(() => setMenuOpen(false), [path]);
  // The reference needs no key.
  const isSignInNeeded = state === "out" && !path.startsWith("/docs");
  return html`
    <div class="app" onClick=${followLinks}>
      <a class="skip" href="#main">Skip to content</a>
      <${Header} onMenu=${() => setMenuOpen(!isMenuOpen)} isMenuOpen=${isMenuOpen}/>
      <div class="below" id="below">
        <${Navigation} path=${path} isOpen=${isMenuOpen}/>
        <main id="main" tabindex="-1">
          <${Connection}/>
          ${state === "unknown" && html`
            <${Notice} kind="warn" title="Cannot determine who you are.">
              <p>${problem.detail ?? problem.message}</p>
            </${Notice}>`}
          ${state === "starting" ? html`<${Loading} what="Contacting the server"/>`
            : isSignInNeeded ? html`<${SignIn} problem=${problem}/>`
            : html`<${Page} path=${path}/>`}
        </main>
      </div>
      <${Said}/>
    </div>`;
}

// A new page begins at its top, and the focus leaves removed elements.
let before = place.get().path;
place.subscribe(({ path }) => {
  if (path === before) return;
  before = path;
  toTop();
  document.activeElement?.blur?.();
});
connection.subscribe(({ online }) => online && session.get().state !== "in" && refresh());

render(html`<${App}/>`, document.getElementById("app"));
start();
