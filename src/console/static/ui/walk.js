// A walk over the server's pages, in both directions.

import { html } from "../lib/html.js";
import { go, usePlace, withQuery } from "../lib/router.js";
import { Button } from "./parts.js";
import { Icon } from "./icons.js";

/** The place in a walk: the token of the page, which the address has, and the ways on and back. A reload keeps them. */
export function useWalk() {
  const { query, state } = usePlace();
  const token = query.get("token") ?? undefined;
  const before = state?.before ?? [];
  return {
    token, hasBefore: before.length > 0,
    on: (next) => go(withQuery({ token: next }), { state: { before: [...before, token ?? ""] } }),
    back: () => go(withQuery({ token: before.at(-1) }), { state: { before: before.slice(0, -1) } }),
  };
}

/** A person who came by an address has no previous pages, and starts at the first one. */
export const WalkPager = ({ walk, next, label }) => html`
  <div class="pager" role="group" aria-label=${label}>
    ${walk.token && !walk.hasBefore ? html`<a class="button small" href=${withQuery({ token: "" })}>First page</a>`
      : html`<${Button} kind="small" icon="left" disabled=${!walk.hasBefore} onClick=${walk.back}>Back</${Button}>`}
    <${Button} kind="small" disabled=${!next} onClick=${() => walk.on(next)}>More <${Icon} name="right"/></${Button}>
  </div>`;
