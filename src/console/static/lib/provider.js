// Signs people in with an identity provider: OpenID Connect, authorization code with PKCE (RFC 7636), as a public
// client. A started sign-in is stored in the tab, is valid once, and is sent nowhere, except its verifier to the
// provider.

import { Problem, get } from "./api.js";

/** The address to which the provider returns. */
export const BACK = "/console/signed-in";
const PENDING = "liststore.sign-in";

export const providers = async (signal) =>
  (await get("/v1/sign-in", {}, { quiet: true, authorization: null, signal })).data.providers;

export const nameOfProvider = ({ label, issuer }) => label ?? new URL(issuer).host;

/** Why this browser cannot sign in here; null if it can. */
export const unable = () =>
  globalThis.crypto?.subtle ? null : "Browsers allow this sign-in only over https or on the server's machine.";

const failed = (detail) => new Problem({ code: "sign_in_failed", title: "Sign-in failed", status: 0, detail });
const text64 = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const random = () => text64(crypto.getRandomValues(new Uint8Array(32)));

/** Asks the provider. Redirects are refused. */
async function ask(url, options) {
  let response;
  let data;
  try {
    response = await fetch(url, { cache: "no-store", credentials: "omit", redirect: "error", ...options });
    data = await response.json();
  } catch {
    throw failed("The identity provider does not respond, or does not allow requests from this page.");
  }
  if (!response.ok) throw failed(`The identity provider refused the sign-in: ${data.error_description ?? data.error ?? response.status}`);
  return data;
}

async function described(issuer) {
  const found = await ask(`${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`);
  const isOfIt = (url) => URL.canParse(url) && new URL(url).origin === new URL(issuer).origin;
  const isWeb = (url) => URL.canParse(url) && (new URL(url).protocol === "https:" || isOfIt(url));
  if (found.issuer !== issuer || !isWeb(found.authorization_endpoint) || !isOfIt(found.token_endpoint)) {
    throw failed("The identity provider's metadata names another issuer.");
  }
  return found;
}

const here = () => location.origin + BACK;

/** Opens the provider's page. The sign-in then returns to `back`. */
export async function leave(provider, back) {
  const { authorization_endpoint } = await described(provider.issuer);
  const pending = { issuer: provider.issuer, state: random(), nonce: random(), verifier: random(), back };
  sessionStorage.setItem(PENDING, JSON.stringify(pending));
  const challenge = text64(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(pending.verifier)));
  const url = new URL(authorization_endpoint);
  for (const [name, value] of Object.entries({
    response_type: "code",
    client_id: provider.client_id,
    redirect_uri: here(),
    scope: provider.scope,
    state: pending.state,
    nonce: pending.nonce,
    code_challenge: challenge,
    code_challenge_method: "S256",
  })) url.searchParams.set(name, value);
  location.assign(url);
}

/** The result of a sign-in: the token for the server, and the page to return to. */
export async function arrive(query) {
  const pending = JSON.parse(sessionStorage.getItem(PENDING) ?? "null");
  sessionStorage.removeItem(PENDING);
  // A foreign link to this page would sign a person in under another identity: it is refused.
  if (!pending || query.get("state") !== pending.state) throw failed("The sign-in was not started in this tab. Sign in again.");
  if (query.has("iss") && query.get("iss") !== pending.issuer) throw failed("The response came from another identity provider.");
  if (!query.get("code")) throw failed(query.get("error_description") ?? query.get("error") ?? "The response has no code.");
  const provider = (await providers()).find(({ issuer }) => issuer === pending.issuer);
  if (!provider) throw failed("The identity provider is no longer configured on this server.");
  const { token_endpoint } = await described(provider.issuer);
  const tokens = await ask(token_endpoint, {
    method: "POST",
    body: new URLSearchParams({
      grant_type: "authorization_code",
      code: query.get("code"),
      redirect_uri: here(),
      client_id: provider.client_id,
      code_verifier: pending.verifier,
    }),
  });
  if (tokens.id_token && nonceOf(tokens.id_token) !== pending.nonce) throw failed("The token belongs to another sign-in.");
  const token = tokens[provider.token];
  if (!token) throw failed(`The identity provider returned no ${provider.token}.`);
  return { token, back: pending.back };
}

/** Of a token whose signature is for the server to check. */
function nonceOf(token) {
  try {
    return JSON.parse(atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/"))).nonce;
  } catch {
    return undefined;
  }
}
