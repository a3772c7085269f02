// Requests to the server's public API.

import { createStore } from "./store.js";

const TOKEN = "liststore.token";

/** Whether the server answers at all, and whether an answer takes long. */
export const connection = createStore({ online: true, slow: false });
/** Called when the server requires a key, or a different key. */
export const onUnauthenticated = { call: () => {} };

/** A refusal or failure of the server: a problem document. */
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

/** After this time, a banner says that the page still waits. */
const SLOW_MS = 5000;
/** A server without any answer for this long does not respond. */
const SILENT_MS = 15000;
const PROBE_MS = 5000;

/** The start of each awaited request. */
const awaiting = new Set();
let timer;
/** When the server last answered anything. */
let heard = -Infinity;

/** Counts an answer among the awaited ones. */
export async function awaited(answer) {
  const since = { at: performance.now() };
  awaiting.add(since);
  watchAwaited();
  try {
    return await answer;
  } finally {
    awaiting.delete(since);
    watchAwaited();
  }
}

function state(change) {
  const next = { ...connection.get(), ...change };
  if (next.online !== connection.get().online || next.slow !== connection.get().slow) connection.set(next);
}

/** Checks the oldest awaited answer, and again at the time when it takes too long. */
function watchAwaited() {
  clearTimeout(timer);
  const oldest = Math.min(...[...awaiting].map(({ at }) => at));
  const age = performance.now() - oldest;
  state({ slow: age >= SLOW_MS });
  if (!awaiting.size) return;
  if (age >= SLOW_MS) probe();
  timer = setTimeout(watchAwaited, age < SLOW_MS ? SLOW_MS - age : 1000);
}

let isProbing = false;

/** Probes a server that takes long. */
async function probe() {
  if (isProbing || !connection.get().online) return;
  isProbing = true;
  const silentSince = Math.max(heard, Math.min(...[...awaiting].map(({ at }) => at)));
  const patience = Math.max(PROBE_MS, silentSince + SILENT_MS - performance.now());
  try {
    await fetch("/livez", { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(patience) });
    heard = performance.now();
  } catch {
    lost();
  }
  isProbing = false;
}

/**
 * Sends a request. `query` leaves out undefined and empty values, except for `version`, whose empty text is the
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
    const sent = fetch(path + queryText(query), {
      method, headers: asked, body: text, signal, cache: "no-store", credentials: "omit", redirect: "error",
    });
    [response, content] = await awaited(sent.then(async (response) => [response, await response.text()]));
    heard = performance.now();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    lost();
    throw new Problem({
      code: "offline", title: "The server does not respond", retryable: true, status: 0,
      detail: "The server does not respond. The last request may or may not have been applied.",
    });
  }
  state({ online: true });
  return { status: response.status, headers: response.headers, text: content, took: performance.now() - began };
}

/** Sends a request, and reads the JSON of its answer. Throws a Problem unless it succeeds. */
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

/** Reads JSON. A whole number that a double cannot hold becomes a BigInt. */
export function parse(text) {
  return JSON.parse(text, (_, value, context) => {
    const isRounded = typeof value === "number" && !Number.isSafeInteger(value) && context?.source;
    return isRounded && /^-?\d+$/.test(context.source) ? BigInt(context.source) : value;
  });
}

let asking = false;

/** Asks again until the server answers. */
async function lost() {
  state({ online: false });
  if (asking) return;
  asking = true;
  for (let wait = 500; !connection.get().online; wait = Math.min(wait * 1.6, 5000)) {
    await new Promise((resolve) => setTimeout(resolve, wait));
    try {
      await fetch("/livez", { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(PROBE_MS) });
      heard = performance.now();
      state({ online: true });
    } catch {
      // No answer yet.
    }
  }
  asking = false;
}
