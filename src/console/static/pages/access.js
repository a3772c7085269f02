// The caller, the API keys and the audit trail.

import { html } from "../lib/html.js";
import { aboutPermission, isOpen, nameOf, permissions, refusal, session, signOut } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { Badge, Button, Notice, PageHead, Tabs } from "../ui/parts.js";
import { Icon } from "../ui/icons.js";
import { Audit } from "./audit.js";
import { Keys } from "./keys.js";

export function Access({ segments: [, , view = ""] }) {
  const { me } = useStore(session);
  const refused = refusal("keys:write");
  return html`
    <${PageHead} title="Access" about="API keys, permissions and the audit trail."/>
    <${Tabs} label="Views of access" current=${view} tabs=${[
      ["", "You", "/console/access"], ["keys", "API keys", "/console/access/keys"],
      ["audit", "Audit trail", "/console/access/audit"],
    ]}/>
    ${isOpen() && html`
      <${Notice} kind="warn" title="This server is open: anyone who can reach it has full access.">
        <p>The first API key ends this permanently, for all servers that share its definitions. Create it for yourself
          with the role admin. The console then uses it.</p>
      </${Notice}>`}
    ${view === "keys" ? html`<${Keys} refused=${refused}/>`
      : view === "audit" ? html`<${Audit} refused=${refused}/>`
      : me && html`<${You} me=${me}/>`}`;
}

const You = ({ me }) => html`
  <div class="split">
    <section class="card" aria-label="Your permissions">
      <h2>Your permissions</h2>
      <ul class="rights">
        ${permissions.map((permission) => {
          const scopes = me.permissions[permission];
          return html`
            <li class=${scopes ? "" : "no"}>
              <span class=${scopes ? "yes" : "no"}><${Icon} name=${scopes ? "check" : "close"} size="14"/></span>
              <span><span class="unseen">${scopes ? "Allowed: " : "Not allowed: "}</span>${aboutPermission(permission)}
                ${scopes && !scopes.includes("*") && scopes.map((scope) => html` <${Badge}>${scope}</${Badge}>`)}
                ${" "}<code class="fine">${permission}</code></span>
            </li>`;
        })}
      </ul>
    </section>
    <section class="card quiet-card" aria-label="Your identity">
      <h2>${me.kind === "anonymous" ? "You are anonymous" : html`You are <bdi>${nameOf(me)}</bdi>`}</h2>
      <p>${me.kind === "anonymous" ? "The audit trail records your changes as "
        : "The audit trail records your changes as "}<code>${me.name}</code>.</p>
      ${me.kind === "known" && html`<p class="actions after"><${Button} icon="out" onClick=${signOut}>Sign out</${Button}></p>`}
    </section>
  </div>`;
