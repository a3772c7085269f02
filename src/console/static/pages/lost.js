// An address that leads nowhere.

import { html } from "../lib/html.js";
import { Empty, LinkButton, PageHead } from "../ui/parts.js";

export const Lost = () => html`
  <${PageHead} title="Nothing is here"/>
  <${Empty} icon="search" title="No page has this address"
    actions=${html`<${LinkButton} href="/console/features" kind="primary">To the features</${LinkButton}>`}>
    <p>It may have been mistyped, or be of another release.</p>
  </${Empty}>`;
