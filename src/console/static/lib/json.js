// JSON as it is written: numbers keep every digit, unlike in the browser's parser.

/** The pieces of a JSON text: strings, punctuation, and the rest. */
const PIECES = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g;
const OPENING = new Set(["{", "["]);
const CLOSING = new Set(["}", "]"]);

/** A number that a double cannot represent. */
export class Digits {
  constructor(text) {
    this.text = text;
  }
}

/** Whether a value has members. */
export const isBranch = (value) => value !== null && typeof value === "object" && !(value instanceof Digits);

export const parseExact = (text) => JSON.parse(text, (_, value, context) =>
  typeof value === "number" && context?.source && context.source !== String(value) ? new Digits(context.source) : value);

/** The same over several lines, with one member a line. */
export function pretty(text) {
  const pieces = text.match(PIECES) ?? [];
  const written = [];
  let depth = 0;
  const line = () => written.push(`\n${"  ".repeat(depth)}`);
  for (const [i, piece] of pieces.entries()) {
    if (CLOSING.has(piece)) {
      depth -= 1;
      if (!OPENING.has(pieces[i - 1])) line();
    }
    written.push(piece === ":" ? ": " : piece);
    if (OPENING.has(piece)) depth += 1;
    if (piece === "," || (OPENING.has(piece) && !CLOSING.has(pieces[i + 1]))) line();
  }
  return written.join("");
}

/** The text of the value that begins at a piece, and where the next piece is. */
function valueAt(pieces, from) {
  let depth = 0;
  let to = from;
  do {
    depth += OPENING.has(pieces[to]) ? 1 : CLOSING.has(pieces[to]) ? -1 : 0;
    to += 1;
  } while (depth > 0);
  return [pieces.slice(from, to).join(""), to];
}

/** The members of a well-formed object: its keys, each with the text of its value. */
export function members(text) {
  const pieces = text.match(PIECES) ?? [];
  const found = new Map();
  for (let at = 1; at < pieces.length - 1; at += 1) {
    const [value, next] = valueAt(pieces, at + 2);
    found.set(JSON.parse(pieces[at]), value);
    at = next;
  }
  return found;
}

/** The elements of an array that is well formed, each as its text. */
export function elements(text) {
  const pieces = text.match(PIECES) ?? [];
  const found = [];
  for (let at = 1; at < pieces.length - 1; at += 1) {
    const [value, next] = valueAt(pieces, at);
    found.push(value);
    at = next;
  }
  return found;
}

/** An object of such members. */
export const objectOf = (found) => `{${[...found].map(([key, text]) => `${JSON.stringify(key)}:${text}`).join(",")}}`;

/** Equal JSON as equal texts. */
export function canonical(value) {
  if (value instanceof Digits) return value.text;
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (isBranch(value)) return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(",")}}`;
  return typeof value === "bigint" ? String(value) : JSON.stringify(value);
}

/** The members in which two objects differ: [key, text before, text after]; undefined for a missing member. */
export function changedMembers(before, after) {
  const [old, now] = [members(before), members(after)];
  const same = (a, b) => a !== undefined && b !== undefined && canonical(parseExact(a)) === canonical(parseExact(b));
  return [...new Set([...old.keys(), ...now.keys()])].sort()
    .filter((key) => !same(old.get(key), now.get(key))).map((key) => [key, old.get(key), now.get(key)]);
}
