// The sign-in with a key, or with an identity provider. The tab stores a valid key or token until it is closed.

import { html, useState } from "../lib/html.js";
import { leave, nameOfProvider, providers, unable } from "../lib/provider.js";
import { place } from "../lib/router.js";
import { signIn } from "../lib/session.js";
import { Button, Command, PageHead, TextField, Trouble } from "../ui/parts.js";
import { useLoad, useTask } from "../ui/use.js";

export function SignIn({ problem }) {
  const [text, setText] = useState("");
  const task = useTask();
  const submit = (event) => {
    event.preventDefault();
    task.run(() => signIn(text.trim()));
  };
  return html`
    <div class="sign-in">
      <${PageHead} title="Sign in" about="This server requires an API key or token."/>
      ${problem && html`<${Trouble} problem=${problem}/>`}
      <${Providers}/>
      <form class="card" onSubmit=${submit}>
        <${Trouble} problem=${task.problem}/>
        <${TextField} label="API key" required value=${text} onInput=${setText} type="password" name="key" autofocus
          placeholder="ls_…" hint="Stored in this tab until you close it, and sent only to this server."/>
        <${Button} kind="primary" type="submit" disabled=${task.busy || !text.trim()}>Sign in</${Button}>
      </form>
      <section class="card quiet-card">
        <h2>No key yet?</h2>
        <p>Ask the operator of this server. On the server's machine, this command creates a key for the console:</p>
        <${Command} label="command" text="liststore key create console --role admin --local"/>
      </section>
    </div>`;
}

/** The providers of the server's settings. Most servers have none. */
function Providers() {
  const { data } = useLoad(providers, []);
  const task = useTask();
  if (!data?.length) return null;
  const here = () => place.get().path + location.search;
  return html`
    <section class="card" aria-label="Identity providers">
      <${Trouble} problem=${task.problem}/>
      <p class="actions">
        ${data.map((provider) => html`
          <${Button} kind="primary" refused=${unable()} disabled=${task.busy}
            onClick=${() => task.run(() => leave(provider, here()))}>Sign in with ${nameOfProvider(provider)}</${Button}>`)}
      </p>
    </section>`;
}
