// Erasures of many lists at once: purges of features, and the erasure of an entity.

import { html } from "../lib/html.js";
import { session } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { PageHead, Tabs } from "../ui/parts.js";
import { EraseEntity } from "./erase_entity.js";
import { Purges } from "./purges.js";

export function Erasure({ segments: [, , view = ""] }) {
  useStore(session);
  return html`
    <${PageHead} title="Erasure" about="Remove data before it expires."/>
    <${Tabs} label="Views of erasure" current=${view} tabs=${[
      ["", "Features", "/console/erasure"], ["entity", "An entity", "/console/erasure/entity"],
    ]}/>
    ${view === "entity" ? html`<${EraseEntity}/>` : html`<${Purges}/>`}`;
}
