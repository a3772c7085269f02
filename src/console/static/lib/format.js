// Numbers, times and sizes as people say them.

const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
const NAMES = { d: "day", h: "hour", m: "minute", s: "second" };
export const TTL_SECS_MAX = 630720000;

/** The seconds of a TTL such as 1d12h, or an error as the server would word it. */
export function readTtl(text) {
  const malformed = 'A TTL is whole numbers with units y, w, d, h, m, s, the largest first, such as "30d" or "1d12h".';
  if (!text) return { error: malformed };
  if (text.length > 64) return { error: "A TTL must have at most 64 characters." };
  const found = /^(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/.exec(text);
  if (!found) return { error: malformed };
  const secs = [["y", 31536000], ["w", 604800], ...UNITS].reduce((sum, [, unit], i) => sum + Number(found[i + 1] ?? 0) * unit, 0);
  if (secs < 1) return { error: "A TTL must be at least 1s." };
  if (secs > TTL_SECS_MAX) return { error: "A TTL must be at most 7300d (20 years)." };
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

/** Nanoseconds since the Unix epoch of an RFC 3339 timestamp or of its digits; null if it is none. */
export function nanos(text) {
  if (/^\d{1,19}$/.test(text)) return BigInt(text);
  const found = /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)$/.exec(text);
  if (!found) return null;
  const millis = Date.parse(`${found[1]}T${found[2]}${found[4].toUpperCase()}`);
  if (Number.isNaN(millis) || millis < 0) return null;
  return BigInt(millis) * 1000000n + BigInt((found[3] ?? "").padEnd(9, "0"));
}

/** The same as RFC 3339 in UTC, with nine decimals. */
export function rfc3339(ns) {
  const secs = ns / 1000000000n;
  const text = new Date(Number(secs) * 1000).toISOString().slice(0, 19);
  return `${text}.${String(ns % 1000000000n).padStart(9, "0")}Z`;
}

export const millisOf = (text) => {
  const ns = nanos(text);
  return ns === null ? NaN : Number(ns / 1000000n);
};
export const nowNanos = () => BigInt(Date.now()) * 1000000n;

/** A bound as people write it: RFC 3339, nanoseconds, or -7d for "7 days ago". */
export function readMoment(text, now = nowNanos()) {
  if (!text) return { ns: null };
  if (text.startsWith("-")) {
    const { secs, error } = readTtl(text.slice(1));
    return error ? { error: 'Write how long ago, such as "-7d".' } : { ns: now - BigInt(secs) * 1000000000n };
  }
  const ns = nanos(text);
  return ns === null
    ? { error: 'Write a time such as "2024-08-29T16:44:05Z", nanoseconds since 1970, or "-7d" for 7 days ago.' }
    : { ns };
}

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const SHORT = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

export const day = (millis) => DAY.format(millis);
export const dayTime = (millis) => `${DAY.format(millis)}, ${SHORT.format(millis)}`;
export const clock = (millis) => TIME.format(millis);

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

/** 12.3 k, 4 M: at most three digits that mean something. */
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
  return `${Math.round(number)} B`;
}

export function seconds(number) {
  if (!Number.isFinite(number)) return "–";
  if (number >= 1) return `${trim(number)} s`;
  if (number >= 0.001) return `${trim(number * 1e3)} ms`;
  return `${trim(number * 1e6)} µs`;
}

// Characters that change the look of the text around them, or that are invisible.
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu;

/** A text with what cannot be seen made visible. */
export const visible = (text) =>
  text.replace(HIDDEN, (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
