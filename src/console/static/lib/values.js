// Values of features: how what people type becomes JSON, as the server takes it, and what bytes hold.

import { parse } from "./api.js";
import { group } from "./format.js";
import { Digits } from "./json.js";

const VALUE_BYTES_MAX = 64000;

/** The JSON of a value that was typed, or why it is none. */
export function readValue(type, text) {
  const read = readTyped(type, text);
  const bytes = read.error ? 0 : storedBytes(type, parse(read.json));
  return bytes > VALUE_BYTES_MAX ? { error: `A value must have at most ${group(VALUE_BYTES_MAX)} bytes; this has ${group(bytes)}.` } : read;
}

function readTyped(type, text) {
  switch (type) {
    case "string": return { json: JSON.stringify(text) };
    case "int64": return readInteger(text.trim());
    case "double": return readDouble(text.trim());
    case "bool": return /^(true|false)$/.test(text) ? { json: text } : { error: "Expected true or false." };
    case "bytes": return readBase64(text.trim());
    default: return readJson(text);
  }
}

function readInteger(text) {
  if (!/^-?(0|[1-9]\d*)$/.test(text)) return { error: "Expected a whole number, such as -42." };
  const value = BigInt(text);
  const fits = value >= -(2n ** 63n) && value < 2n ** 63n;
  return fits ? { json: text } : { error: "Out of the 64-bit range: from −9223372036854775808 to 9223372036854775807." };
}

function readDouble(text) {
  const isNumber = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text);
  return isNumber && Number.isFinite(Number(text)) ? { json: text } : { error: "Expected a number, such as 0.75 or 1e-3." };
}

function readBase64(text) {
  const isBase64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text);
  return isBase64 ? { json: JSON.stringify(text) } : { error: "Expected Base64 with padding, such as 3q2+7w==" };
}

function readJson(text) {
  try {
    JSON.parse(text);
    return { json: text };
  } catch (error) {
    return { error: `Not valid JSON: ${error.message}` };
  }
}

/** The JSON of a value that the server sent: whole numbers stay whole. */
export function valueJson(value) {
  if (typeof value === "bigint") return String(value);
  if (value instanceof Digits) return value.text;
  if (Array.isArray(value)) return `[${value.map(valueJson).join(",")}]`;
  if (value && typeof value === "object") {
    return `{${Object.entries(value).map(([k, v]) => `${JSON.stringify(k)}:${valueJson(v)}`).join(",")}}`;
  }
  return JSON.stringify(value);
}

/** How many bytes a value has as it is stored. */
export function storedBytes(type, value) {
  if (type === "bool") return 1;
  if (type === "int64" || type === "double") return 8;
  if (type === "bytes") return (value.length * 3) / 4 - (value.endsWith("==") ? 2 : value.endsWith("=") ? 1 : 0);
  return new TextEncoder().encode(type === "string" ? value : valueJson(value)).length;
}

/** The bytes of Base64; null if it is none. */
export function bytesOf(base64) {
  try {
    return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  } catch {
    return null;
  }
}

/** Rows of sixteen bytes: offset, hexadecimal, and what of it can be printed. */
export function hexRows(bytes, max) {
  const rows = [];
  for (let at = 0; at < bytes.length && rows.length < max; at += 16) {
    const row = [...bytes.slice(at, at + 16)];
    rows.push({
      offset: at.toString(16).padStart(4, "0"),
      hex: row.map((byte) => byte.toString(16).padStart(2, "0")).join(" "),
      text: row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·")).join(""),
    });
  }
  return rows;
}

/** A text for a shell, as one word. */
export const quoted = (text) =>
  /^[A-Za-z0-9_./:@%+=,-]+$/.test(text) && !text.startsWith("-") ? text : `'${text.replaceAll("'", "'\\''")}'`;
