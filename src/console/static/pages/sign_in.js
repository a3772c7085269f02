// A server that asks for a key: one shows it, and it is kept for as long as the tab is open.

import { html, useState } from "../lib/html.js";
import { signIn } from "../lib/session.js";
import { Button, Command, PageHead, TextField, Trouble } from "../ui/parts.js";
import { useTask } from "../ui/use.js";

export function SignIn({ problem }) {
  const [text, setText] = useState("");
  const task = useTask();
  const submit = (event) => {
    event.preventDefault();
    task.run(() => signIn(text.trim()));
  };
  return html`
    <div class="sign-in">
      <${PageHead} title="Sign in" about="This server asks for an API key."/>
      <form class="card" onSubmit=${submit}>
        ${problem && !task.problem && html`
          <${Trouble} problem=${{ ...problem, title: "The key that was used before does not hold any more" }}/>`}
        <${Trouble} problem=${task.problem}/>
        <${TextField} label="API key" required value=${text} onInput=${setText} type="password" name="key" autofocus
          placeholder="ls_…" hint="It stays in this tab, until the tab is closed, and is sent to this server alone."/>
        <${Button} kind="primary" type="submit" disabled=${task.busy || !text.trim()}>Sign in</${Button}>
      </form>
      <section class="card quiet-card">
        <h2>No key yet?</h2>
        <p>Ask whoever runs this server for one. On the server's own machine, this makes one for the console:</p>
        <${Command} label="command" text="liststore key create console --role admin --local"/>
      </section>
    </div>`;
}
