// Numbers, times and sizes in words. All times have seconds and a zone, and one switch changes the zone of all of them.

import { createStore } from "./store.js";
import { DURATION_SECS_MAX, durationSecs, readTime, rfc3339, timeOfAnyYear } from "./times.js";

export { rfc3339 };

const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
const NAMES = { d: "day", h: "hour", m: "minute", s: "second" };

/** The seconds of a TTL such as 1d12h, or an error as the server would word it. */
export function readTtl(text) {
  const malformed = 'A TTL is whole numbers with units y, w, d, h, m, s, the largest first, such as "30d" or "1d12h".';
  if (text?.length > 64) return { error: "A TTL must have at most 64 characters." };
  const secs = durationSecs(text);
  if (secs === null) return { error: malformed };
  if (secs < 1) return { error: "A TTL must be at least 1s." };
  if (secs > DURATION_SECS_MAX) return { error: "A TTL must be at most 7300d (20 years)." };
  return { secs };
}

const plural = (count, name) => `${group(count)} ${name}${count === 1 ? "" : "s"}`;

/** 1d12h as "1 day 12 hours"; 365d as "365 days (1 year)". */
export function ttlWords(text) {
  const { secs } = readTtl(text);
  if (secs === undefined) return text;
  const parts = [];
  let rest = secs;
  for (const [unit, length] of UNITS) {
    if (rest >= length) parts.push(plural(Math.floor(rest / length), NAMES[unit]));
    rest %= length;
  }
  const days = secs / 86400;
  const about = days >= 365 && days % 365 === 0 ? plural(days / 365, "year")
    : days >= 60 ? `about ${plural(Math.round(days / 30.44), "month")}` : "";
  return parts.join(" ") + (about ? ` (${about})` : "");
}

/** Nanoseconds since the Unix epoch of a timestamp of the API; null for any other text. */
export function nanos(text) {
  if (/^\d{1,19}$/.test(text)) return BigInt(text);
  return (/^\d{4}-/.test(text) ? readTime(text, 0n).ns : null) ?? null;
}

export const millisOf = (text) => {
  const ns = nanos(text);
  return ns === null ? NaN : Number(ns / 1000000n);
};
export const nowNanos = () => BigInt(Date.now()) * 1000000n;

const NUMBER = /^-?\d+(\.\d+)?([eE][-+]?\d+)?$/;

/** A bound in the order by a property, as text for the server: a number or a time of any year, with quotes as in a bag or without. */
export function readOrderBound(typed, now = nowNanos()) {
  const text = typed.trim().replace(/^"(.*)"$/s, "$1");
  if (!text || NUMBER.test(text)) return { text };
  const { ns, error } = timeOfAnyYear(text, now);
  return error ? { error } : { text: rfc3339(ns) };
}

/** Reads a bound as people write it. An empty text is no bound. */
export const readMoment = (text, now = nowNanos()) => (text.trim() ? readTime(text, now) : { ns: null });

const ZONE = "liststore.times";

function storedZone() {
  try {
    return localStorage.getItem(ZONE) === "local" ? "local" : "utc";
  } catch {
    return "utc";
  }
}

/** The zone of all shown times: utc, or local for the browser's zone. */
export const zone = createStore(storedZone());
zone.subscribe((chosen) => {
  try {
    localStorage.setItem(ZONE, chosen);
  } catch {
    // Without storage, the choice lasts as long as the page.
  }
});

/** The offset of the shown times at a moment, in minutes. */
const offsetAt = (millis) => (zone.get() === "local" ? -new Date(millis).getTimezoneOffset() : 0);
const two = (number) => String(number).padStart(2, "0");
const offsetText = (minutes) =>
  `${minutes < 0 ? "-" : "+"}${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`;
/** The civil date and time of a moment in the chosen zone, as ISO 8601 writes them. */
const civil = (millis) => new Date(millis + offsetAt(millis) * 60000).toISOString();

/** A moment with seconds and zone, in a form that the console's fields and the commands take. */
export function dayTime(millis) {
  if (!Number.isFinite(millis)) return "–";
  const text = civil(millis);
  return `${text.slice(0, 10)} ${text.slice(11, 19)} ${zone.get() === "local" ? offsetText(offsetAt(millis)) : "UTC"}`;
}
export const day = (millis) => civil(millis).slice(0, 10);

const STEPS = [
  ["year", 31536000], ["month", 2629800], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60],
];

/** "3 hours ago", "in 12 days". */
export function relative(millis, now = Date.now()) {
  const secs = Math.abs(millis - now) / 1000;
  if (!Number.isFinite(secs)) return "";
  if (secs < 45) return millis > now + 1000 ? "in a moment" : "just now";
  const [name, length] = STEPS.find(([, step]) => secs >= step * (step === 60 ? 0.75 : 1)) ?? STEPS.at(-1);
  const count = Math.max(1, Math.round(secs / length));
  return millis > now ? `in ${plural(count, name)}` : `${plural(count, name)} ago`;
}

/** How long, in one unit: "12 days". */
export const span = (secs) => {
  if (secs < 1) return `${Math.round(secs * 1000)} ms`;
  const [name, length] = STEPS.find(([, step]) => secs >= step) ?? ["second", 1];
  return plural(Math.round(secs / length), name);
};

export const group = (number) => Number(number).toLocaleString("en-GB");

/** 12.3 k, 4 M: at most three significant digits. */
export function short(number) {
  if (!Number.isFinite(number)) return "–";
  const size = Math.abs(number);
  for (const [unit, at] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (size >= at) return `${trim(number / at)} ${unit}`;
  }
  return size >= 100 || Number.isInteger(number) ? String(Math.round(number)) : trim(number);
}
const trim = (number) => String(Number(number.toPrecision(3)));

export function bytes(number) {
  if (!Number.isFinite(number)) return "–";
  for (const [unit, at] of [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (number >= at) return `${trim(number / at)} ${unit}`;
  }
  return `${trim(number)} B`;
}

export function seconds(number) {
  if (!Number.isFinite(number)) return "–";
  if (number >= 1) return `${trim(number)} s`;
  if (number >= 0.001) return `${trim(number * 1e3)} ms`;
  return `${trim(number * 1e6)} µs`;
}

// Characters that change the look of the text around them, or that are invisible.
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu;

/** A text with its invisible characters made visible. */
export const visible = (text) =>
  text.replace(HIDDEN, (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
