// An unknown address.

import { html } from "../lib/html.js";
import { Empty, LinkButton, PageHead } from "../ui/parts.js";

export const Lost = () => html`
  <${PageHead} title="Page not found"/>
  <${Empty} icon="search" title="No page has this address"
    actions=${html`<${LinkButton} href="/console/features" kind="primary">To the features</${LinkButton}>`}>
    <p>The address may be mistyped, or belong to another release.</p>
  </${Empty}>`;
