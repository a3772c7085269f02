// The present place: only the address bar stores it. It survives a reload, and can be sent to another person.

import { createStore, useStore } from "./store.js";

const here = () => ({ path: location.pathname, query: new URLSearchParams(location.search), state: history.state });

export const place = createStore(here());
addEventListener("popstate", () => place.set(here()));

/** Goes somewhere: a path with its query. `replace` leaves no step to go back to. */
export function go(url, { replace = false, state = null } = {}) {
  history[replace ? "replaceState" : "pushState"](state, "", url);
  place.set(here());
}

export const usePlace = () => useStore(place);

/** A path of its segments, each encoded. */
export const path = (...segments) => "/" + segments.map(encodeURIComponent).join("/");

/** The present address with some of its query changed, without empty parameters. */
export function withQuery(changes, from = place.get()) {
  const query = new URLSearchParams(from.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  return from.path + (text ? `?${text}` : "");
}

/** A value of the query, and how to set it. Setting it leaves no step to go back to. */
export function useQuery(name, fallback = "") {
  const { query } = usePlace();
  const value = query.get(name) ?? fallback;
  return [value, (next) => go(withQuery({ [name]: next === fallback ? "" : next, page: "" }), { replace: true })];
}

/** Shows the top of the page. The part below the head scrolls separately, so that the head never covers it. */
export const toTop = () => document.getElementById("below")?.scrollTo(0, 0);

const isOurs = (url) =>
  url.origin === location.origin && /^\/(console|docs)(\/|$)/.test(url.pathname) && !url.pathname.includes("/static/");

/** Links within the console change the view and load nothing. */
export function followLinks(event) {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || link.target || link.download) return;
  const url = new URL(link.href);
  if (!isOurs(url) || (url.hash && url.pathname === location.pathname)) return;
  event.preventDefault();
  go(url.pathname + url.search);
}

/** The segments behind a prefix, decoded; null if the address does not begin so. */
export function segments(pathname) {
  try {
    return pathname.split("/").slice(1).map(decodeURIComponent);
  } catch {
    return [];
  }
}
