// Watches the server while a person looks: health and metrics every two seconds. Old data is dropped from memory.

import { Problem, call, send } from "./api.js";
import { readMetrics } from "./metrics.js";
import { createStore } from "./store.js";

const EVERY_MS = 2000;
/** Ten minutes. */
const KEPT = 300;

export const watched = createStore({ health: null, readings: [], problem: null, refused: null });
let watchers = 0;

/** Watches until the function that it returns is called. */
export function watch(withMetrics) {
  watchers += 1;
  if (watchers === 1) look(withMetrics);
  return () => { watchers -= 1; };
}

async function look(withMetrics) {
  let turn = Date.now();
  while (watchers > 0) {
    if (!document.hidden) await once(withMetrics);
    turn = Math.max(turn + EVERY_MS, Date.now());
    await new Promise((resolve) => setTimeout(resolve, turn - Date.now()));
  }
}

async function once(withMetrics) {
  try {
    const { data } = await call("GET", "/readyz", { accept: [503], quiet: true });
    watched.set({ ...watched.get(), health: data, problem: null });
    if (!withMetrics) return;
    const { status, text } = await send("GET", "/metrics");
    if (status !== 200) {
      const apart = "Health and metrics are served at the address of admin.listen.";
      watched.set({ ...watched.get(), refused: status === 404 ? apart : `The server answered ${status}.` });
      return;
    }
    watched.set({ ...watched.get(), readings: [...watched.get().readings, readMetrics(text)].slice(-KEPT), refused: null });
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    watched.set({ ...watched.get(), problem });
  }
}
