// The same as a command. A key is never part of it: it is read from the environment.

import { isOpen } from "./session.js";
import { quoted } from "./values.js";

/** A call of the API by curl. It omits empty parameters, and repeats a parameter for each value of an array. */
export function curl(path, query = {}, { method, headers = {}, body } = {}) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) if (one !== undefined && one !== "") parameters.append(name, one);
  }
  const text = parameters.toString();
  const words = ["curl -s"];
  if (!isOpen()) words.push('-H "Authorization: Bearer $LISTSTORE_TOKEN"');
  if (method) words.push("-X", method);
  for (const [name, value] of Object.entries(headers)) words.push("-H", quoted(`${name}: ${value}`));
  if (body !== undefined) words.push("--json", quoted(body));
  return [...words, quoted(`${location.origin}${path}${text && `?${text}`}`)].join(" ");
}

/** A command with its options, [name, value] each, of which empty ones are left out, and then its arguments. */
export function shell(command, options, given) {
  const words = [command];
  for (const [name, value] of [...options, ["--url", location.origin]]) {
    if (value !== undefined && value !== "") words.push(name, quoted(String(value)));
  }
  if (given.some((argument) => argument.startsWith("-"))) words.push("--");
  return [...words, ...given.map(quoted)].join(" ");
}
