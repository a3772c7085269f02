// A walk over pages that the server gives one after the other, both ways.

import { html } from "../lib/html.js";
import { go, usePlace, withQuery } from "../lib/router.js";
import { Button } from "./parts.js";
import { Icon } from "./icons.js";

/** Where one is: the token of the page, which stands in the address, and the ways on and back. They stay through a reload. */
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

/** Who came by an address has no pages before this one: they begin anew. */
export const WalkPager = ({ walk, next, label }) => html`
  <div class="pager" role="group" aria-label=${label}>
    ${walk.token && !walk.hasBefore ? html`<a class="button small" href=${withQuery({ token: "" })}>First page</a>`
      : html`<${Button} kind="small" icon="left" disabled=${!walk.hasBefore} onClick=${walk.back}>Back</${Button}>`}
    <${Button} kind="small" disabled=${!next} onClick=${() => walk.on(next)}>More <${Icon} name="right"/></${Button}>
  </div>`;
