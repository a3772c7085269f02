// Marks a feature, or one of its versions, as deprecated, and removes the mark. It is a label, so the
// server refuses no read and no add for it.

import { html, useState } from "../lib/html.js";
import { changeFeature, deprecationError, deprecationLabel, deprecationOf, textError, titleOf, versionName }
  from "../lib/features.js";
import { Badge, Button, Dialog, Notice, TextField, Trouble } from "../ui/parts.js";
import { useTask } from "../ui/use.js";

const NOTE_CHARS_MAX = 255;

/** A mark of deprecation, with the replacement. */
export const Deprecated = ({ note }) =>
  note === undefined ? null : html`<${Badge} kind="warn"><span title=${note}>deprecated</span></${Badge}>`;

export const DeprecationNotice = ({ note, title }) =>
  note === undefined ? null : html`
    <${Notice} kind="warn" title=${title}>${note && html`<p><bdi class="long">${note}</bdi></p>`}</${Notice}>`;

/** `version` is undefined for all of the feature. */
export function Deprecate({ feature, etag, version, onClose, onDone }) {
  const present = deprecationOf(feature, version);
  const [note, setNote] = useState(present ?? "");
  const task = useTask();
  const name = version === undefined ? titleOf(feature) : `Version ${versionName(version)}`;
  const error = deprecationError(version) ?? textError(note, NOTE_CHARS_MAX);
  const label = (value) => task.run(async () => {
    const { [deprecationLabel(version)]: _, ...others } = feature.labels;
    const labels = value === undefined ? others : { ...others, [deprecationLabel(version)]: value };
    await changeFeature(feature.entity_type, feature.name, { labels }, etag);
    onDone(value === undefined ? `${name} is no longer deprecated` : `${name} is deprecated`);
  });
  return html`
    <${Dialog} title=${`Deprecate ${version === undefined ? "this feature" : name.toLowerCase()}?`} onClose=${onClose} actions=${html`
      <${Button} onClick=${onClose}>Cancel</${Button}>
      ${present !== undefined && html`<${Button} onClick=${() => label(undefined)} disabled=${task.busy}>Remove the deprecation</${Button}>`}
      <${Button} kind="primary" onClick=${() => label(note)} disabled=${task.busy || error || note === present}
        >${present === undefined ? "Deprecate" : "Save the note"}</${Button}>`}>
      <p>The console shows it next to <strong><bdi>${name}</bdi></strong>, and programs find it in the feature's label
        ${" "}<code>${deprecationLabel(version)}</code>. Reads and writes continue as before.</p>
      <${TextField} label="What to use instead" value=${note} onInput=${setNote} error=${error}
        placeholder="version v2, since March"/>
      <${Trouble} problem=${task.problem}/>
    </${Dialog}>`;
}
