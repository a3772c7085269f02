// The caller and their permissions, as the server reports them. Forbidden actions are not offered, and the server also
// refuses them.

import { Problem, get, onUnauthenticated, token } from "./api.js";
import { BACK, arrive } from "./provider.js";
import { go } from "./router.js";
import { createStore } from "./store.js";

/** `state`: starting, in, out (a key is needed), or unknown (the server did not answer). */
export const session = createStore({ state: "starting", me: null, problem: null });

onUnauthenticated.call = (problem) => {
  const before = { ...problem, detail: problem.detail, title: "The previous key is no longer valid" };
  session.set({ state: "out", me: null, problem: token.get() ? before : null });
};

export async function refresh() {
  try {
    const { data } = await get("/v1/me", {}, { quiet: true });
    session.set({ state: "in", me: data, problem: null });
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    if (problem.status === 401) onUnauthenticated.call(problem);
    else session.set({ state: "unknown", me: null, problem });
  }
}

/** Loads the caller, and completes a sign-in with an identity provider. */
export async function start() {
  if (location.pathname !== BACK) return refresh();
  const query = new URLSearchParams(location.search);
  // The code is valid once. It must not stay in the history or in a copied address.
  go("/console", { replace: true });
  try {
    const { token, back } = await arrive(query);
    await signIn(token);
    go(back, { replace: true });
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    await refresh();
    if (session.get().state === "out") session.set({ state: "out", me: null, problem: { ...problem, detail: problem.detail, title: "Sign-in failed" } });
  }
}

/** Tries a key, and stores it if it is valid. */
export async function signIn(text) {
  const { data } = await get("/v1/me", {}, { quiet: true, authorization: text });
  token.set(text);
  session.set({ state: "in", me: data, problem: null });
  return data;
}

export function signOut() {
  token.set(null);
  session.set({ state: "starting", me: null, problem: null });
  refresh();
}

export const isOpen = () => session.get().me?.kind === "anonymous";

const ABOUT = {
  "lists:read": "read lists",
  "lists:write": "change lists",
  "features:read": "read features",
  "features:write": "create, change and delete features",
  "server:read": "read metrics",
  "server:write": "change the server's log configuration",
  "pools:write": "resize the pool of list actors",
  "keys:write": "manage API keys and read the audit trail",
};
export const permissions = Object.keys(ABOUT);
export const aboutPermission = (permission) => ABOUT[permission] ?? permission;

/** The name of a caller, without the kind of its credentials. */
export const nameOf = (me) => me.name.replace(/^(key|jwt|cert):/, "");

/**
 * Null if the caller has the permission, and otherwise the reason. Without a feature, a permission for some features
 * is enough.
 */
export function refusal(permission, entityType, feature) {
  const { me } = session.get();
  if (!me) return "Your permissions are not loaded yet.";
  const scopes = me.permissions[permission];
  if (!scopes) return `${nameOf(me)} has no role with the permission ${permission}.`;
  if (entityType === undefined || scopes.some((scope) => matches(scope, entityType, feature))) return null;
  return `${nameOf(me)} has ${permission} for ${scopes.join(", ")} only.`;
}

/** Whether a scope such as user.*, customer.purchase or a.b/c* is about a feature. */
function matches(scope, entityType, feature) {
  if (scope === "*") return true;
  const [of, name] = scope.includes("/") ? scope.split("/") : scope.split(".");
  const fits = (pattern = "", text) =>
    pattern.endsWith("*") ? text.startsWith(pattern.slice(0, -1)) : text === pattern;
  return fits(of, entityType) && fits(name, feature);
}
