// Asks the server's public API, and nothing else.

import { createStore } from "./store.js";

const TOKEN = "liststore.token";

/** Whether the server answers at all. */
export const connection = createStore({ online: true });
/** Called when the server asks for a key, or for another one. */
export const onUnauthenticated = { call: () => {} };

/** What the server refused, or failed with: a problem document. */
export class Problem extends Error {
  constructor(fields) {
    super(fields.detail || fields.title);
    Object.assign(this, fields);
  }
}

// The token is stored for the life of the tab, and is sent only to this server.
export const token = {
  get() {
    try {
      return sessionStorage.getItem(TOKEN);
    } catch {
      return null;
    }
  },
  set(text) {
    if (text) sessionStorage.setItem(TOKEN, text);
    else sessionStorage.removeItem(TOKEN);
  },
};

/**
 * Sends a request. `query` leaves out what is undefined or empty, but for `version`, whose empty text is the
 * default version. `body` is a text, or a value to be written as JSON.
 */
export async function send(method, path, { query, body, headers = {}, signal, authorization } = {}) {
  const key = authorization === undefined ? token.get() : authorization;
  const asked = { ...(body !== undefined && { "Content-Type": "application/json" }), ...headers };
  if (key) asked.Authorization = `Bearer ${key}`;
  const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  const began = performance.now();
  let response;
  let content;
  try {
    response = await fetch(path + queryText(query), {
      method, headers: asked, body: text, signal, cache: "no-store", credentials: "omit", redirect: "error",
    });
    content = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    lost();
    throw new Problem({
      code: "offline", title: "The server does not respond", retryable: true, status: 0,
      detail: "The server does not respond. The last request may or may not have been applied.",
    });
  }
  if (!connection.get().online) connection.set({ online: true });
  return { status: response.status, headers: response.headers, text: content, took: performance.now() - began };
}

/** Sends a request, and reads the JSON of its answer. Throws a Problem for whatever is no success. */
export async function call(method, path, options = {}) {
  const answer = await send(method, path, options);
  const type = answer.headers.get("content-type") ?? "";
  const data = answer.text && type.includes("json") ? parse(answer.text) : undefined;
  const fine = answer.status < 400 || options.accept?.includes(answer.status);
  if (fine) return { data, etag: answer.headers.get("etag"), ...answer };
  const problem = new Problem({
    status: answer.status,
    code: "unknown",
    title: `The server answered ${answer.status}`,
    ...(data && typeof data === "object" ? data : {}),
    requestId: answer.headers.get("x-request-id"),
  });
  if (answer.status === 401 && !options.quiet) onUnauthenticated.call(problem);
  throw problem;
}

export const get = (path, query, options) => call("GET", path, { query, ...options });

function queryText(query) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && (value !== "" || name === "version")) parameters.set(name, value);
  }
  const text = parameters.toString();
  return text ? `?${text}` : "";
}

/** JSON in which a whole number that a double cannot hold stays what it is, as a BigInt. */
export function parse(text) {
  return JSON.parse(text, (_, value, context) => {
    const isRounded = typeof value === "number" && !Number.isSafeInteger(value) && context?.source;
    return isRounded && /^-?\d+$/.test(context.source) ? BigInt(context.source) : value;
  });
}

let asking = false;

/** Asks again until somebody answers. */
async function lost() {
  connection.set({ online: false });
  if (asking) return;
  asking = true;
  for (let wait = 500; !connection.get().online; wait = Math.min(wait * 1.6, 5000)) {
    await new Promise((resolve) => setTimeout(resolve, wait));
    try {
      await fetch("/livez", { cache: "no-store", credentials: "omit" });
      connection.set({ online: true });
    } catch {
      // Still nobody.
    }
  }
  asking = false;
}
