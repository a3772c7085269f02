// Times as people write them: the same spellings as on the command line. A text that could be two moments is refused,
// and the error says how to write it. tests/support/typed_times.json is the table of spellings.

export const SECOND_NS = 1000000000n;
/** The last moment that a timestamp can be: 2286-11-20T17:46:39.999999999Z. */
const LAST_NS = 9999999999999999999n;
const RANGE = "a timestamp must be from 1970-01-01T00:00:00Z to 2286-11-20T17:46:39.999999999Z";
const FORMS = 'write 2024-08-29, "2024-08-29 16:44", 2024-08-29T16:44:05Z, now, -7d (7 days ago), or nanoseconds since the Unix epoch';
const UNKNOWN = `not a timestamp: ${FORMS}`;
const LEAP = "Unix time has no leap seconds: write second 59 instead of 60";

/** RFC 3339 in UTC with nine decimals. */
export function rfc3339(ns) {
  const decimals = ((ns % SECOND_NS) + SECOND_NS) % SECOND_NS;
  const text = new Date(Number((ns - decimals) / SECOND_NS) * 1000).toISOString().slice(0, 19);
  return `${text}.${String(decimals).padStart(9, "0")}Z`;
}

const DURATION = /^(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/;
const DURATION_UNITS = [31536000, 604800, 86400, 3600, 60, 1];
export const DURATION_SECS_MAX = 630720000;

/** The seconds of a duration such as 1w2d; null for any other text. */
export function durationSecs(text) {
  const found = text && text.length <= 64 ? DURATION.exec(text) : null;
  return found && DURATION_UNITS.reduce((sum, unit, i) => sum + Number(found[i + 1] ?? 0) * unit, 0);
}

/** Seconds before now as the fields take them: now, -45s, -1m30s. */
export function ago(secs) {
  let rest = Math.round(secs);
  if (rest === 0) return "now";
  const parts = ["d", "h", "m", "s"].map((unit, i) => {
    const count = Math.floor(rest / DURATION_UNITS[i + 2]);
    rest %= DURATION_UNITS[i + 2];
    return count ? `${count}${unit}` : "";
  });
  return `-${parts.join("")}`;
}

const isDuration = (secs) => secs !== null && secs >= 1 && secs <= DURATION_SECS_MAX;

/** Reads a text at a moment: { ns, isUtcAssumed }, or { error }. */
export function readTime(typed, now) {
  const read = timeOfAnyYear(typed, now);
  return read.ns < 0n || read.ns > LAST_NS ? { error: RANGE } : read;
}

/** The same for the bound of an index: a date may be before 1970 or after 2286, as in properties of bags. */
export function timeOfAnyYear(typed, now) {
  // A page shows a time and how long ago it was.
  const [at, words, ...more] = typed.trim().split(" · ");
  const text = words && !more.length && timeInWords(words, now)?.ns !== undefined ? at : typed.trim();
  return relativeTime(text, now) ?? numberTime(text) ?? calendarTime(text);
}

const between = (ns) => (ns < 0n ? 0n : ns > LAST_NS ? LAST_NS : ns);
const SECS_IN_WORDS = { second: 1, minute: 60, hour: 3600, day: 86400, week: 604800, month: 2629800, year: 31536000 };

/** 3 hours ago, 3h ago, in 12 days, just now; null for any other text. */
function timeInWords(text, now) {
  const words = text.toLowerCase().split(/\s+/);
  if (["just now", "in a moment"].includes(words.join(" "))) return { ns: now };
  const isAgo = words.at(-1) === "ago";
  if (isAgo === (words[0] === "in")) return null;
  const [count, unit, ...more] = isAgo ? words.slice(0, -1) : words.slice(1);
  const secs = unit === undefined ? durationSecs(count)
    : (/^an?$/.test(count) ? 1 : /^\d{1,9}$/.test(count) ? Number(count) : NaN) * (SECS_IN_WORDS[unit.replace(/s$/, "")] ?? NaN);
  if (more.length || secs === null || Number.isNaN(secs) || (unit === undefined && !isDuration(secs))) return null;
  if (secs > DURATION_SECS_MAX) return { error: `${text} is more than 20 years from now: write a date, such as 2024-08-29` };
  return { ns: between(now + BigInt(secs) * (isAgo ? -SECOND_NS : SECOND_NS)) };
}

/** now, -7d, +1h, now-1h30m, and times in words; null if the text is not relative. */
function relativeTime(text, now) {
  if (text === "now") return { ns: now };
  const inWords = timeInWords(text, now);
  if (inWords) return inWords;
  const offset = text.startsWith("now") ? text.slice(3) : text;
  const sign = offset[0];
  if (sign !== "-" && sign !== "+") {
    return isDuration(durationSecs(offset)) ? { error: `write -${text} for ${text} ago, or +${text} for ${text} from now` } : null;
  }
  const secs = durationSecs(offset.slice(1));
  if (!isDuration(secs)) {
    return { error: `${text}: write a duration from 1 s to 20 years with units, such as ${sign}7d, ${sign}1h or ${sign}1w2d (units: y, w, d, h, m, s)` };
  }
  return { ns: between(now + BigInt(secs) * (sign === "-" ? -SECOND_NS : SECOND_NS)) };
}

/** Units of numbers: name, nanoseconds, and how many decimals are whole nanoseconds. The finest is first. */
const UNITS = [["nanoseconds", 1n, 0], ["microseconds", 1000n, 3], ["milliseconds", 1000000n, 6], ["seconds", SECOND_NS, 9]];
/** A year, month, day, minute, second or millisecond without separators. The digits of an hour are likely seconds. */
const BARE_DATE = /^(?:19|20|21|22)\d\d(?:(?:0[1-9]|1[0-2])(?:\d\d(?:\d{4}(?:\d\d(?:\d{3})?)?)?)?)?$/;
/** 2001-01-01: the earliest moment that a number is likely to mean. */
const LIKELY_FROM_SECS = 978307200n;

/** Nanoseconds since the Unix epoch. A number that is likely of another unit is refused. Null if the text is no number. */
function numberTime(text) {
  const found = /^(\d+)(?:\.(\d*))?(?:[eE][-+]?\d+)?$/.exec(text);
  if (!found) return null;
  const [whole, decimals] = [BigInt(found[1]), (found[2] ?? "").replace(/0+$/, "")];
  const hasExponent = /[eE]/.test(text);
  const unit = hasExponent ? undefined : UNITS.find(([, size]) => whole / (SECOND_NS / size) >= LIKELY_FROM_SECS);
  if (unit && unit !== UNITS[0] && decimals.length <= unit[2]) {
    const ns = whole * unit[1] + BigInt(decimals.padEnd(unit[2], "0") || 0);
    if (ns <= LAST_NS) return { error: `${text} is not nanoseconds but likely ${unit[0]}: write ${rfc3339(ns)}` };
  }
  if (hasExponent || decimals || whole > LAST_NS) return { error: `${text} must be whole nanoseconds since the Unix epoch, 0 to ${LAST_NS}` };
  if (BARE_DATE.test(text)) {
    return { error: `${text} would be nanoseconds since the Unix epoch, a moment of 1970: write a date such as 2026-11-20` };
  }
  return { ns: whole };
}

/** Words of other programs for a missing value. */
const MISSING = ["null", "none", "nan", "nat", "n/a", "na", "\\n"];

function calendarTime(text) {
  if (!text) return { error: "the timestamp is empty" };
  if (MISSING.includes(text.toLowerCase())) return { error: `the timestamp is missing (${text})` };
  if (/^[A-Za-z]/.test(text)) return namedTime(text);
  if (/^\d{1,2}[/.-]\d{1,2}[/.-]/.test(text)) return { error: "day and month may be swapped: write the year first, such as 2026-11-20" };
  if (/^\d{5,}\D/.test(text) && !/^\d{8}[Tt ]/.test(text)) return { error: "the year must be from 1970 to 2286" };
  const found = /^(\d{4})([-/]?)(\d\d)\2(\d\d)(?:[Tt ](\d\d)(:?)(\d\d)(?:\6(\d\d)(?:[.,](\d+))?)?)?(.*)$/s.exec(text);
  if (!found) return { error: UNKNOWN };
  const [, year, separator, month, day, hour, , minute, second = "00", decimals = "", rest] = found;
  if (hour === undefined && !separator) return { error: UNKNOWN };
  const zone = zoneOf(rest.trim());
  return zone.error ? zone : moment([year, month, day, hour ?? "00", minute ?? "00", second], decimals, zone.secs);
}

/** The offset that stands behind a time of day, in seconds; undefined if there is none. */
function zoneOf(text) {
  if (!text) return {};
  if (/^(z|utc|gmt)$/i.test(text)) return { secs: 0 };
  const found = /^([+-])(\d\d)(?::?([0-5]\d))?$/.exec(text);
  if (found && Number(found[2]) < 24) return { secs: (found[1] === "-" ? -1 : 1) * (Number(found[2]) * 3600 + Number(found[3] ?? 0) * 60) };
  return { error: /^[A-Za-z]+$/.test(text) ? `${text} is not the same offset everywhere and all year: write an offset, such as +01:00` : UNKNOWN };
}

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const CLOCK = "(\\d\\d):(\\d\\d)(?::(\\d\\d))?";
/** Fri, 20 Nov 2026 16:44:05 GMT, as in HTTP. */
const MAIL = new RegExp(`^(\\w{3}),\\s+(\\d{1,2})\\s+(\\w{3})\\s+(\\d{4})\\s+${CLOCK}\\s+(.+)$`);
/** Fri Nov 20 16:44:05 2026, with an offset before the year or without one. */
const CTIME = new RegExp(`^(\\w{3})\\s+(\\w{3})\\s+(\\d{1,2})\\s+${CLOCK}(?:\\s+([+-]\\d{4}))?\\s+(\\d{4})$`);

/** A text that begins with the name of a weekday. */
function namedTime(text) {
  if (text.includes(":60")) return { error: LEAP };
  const [mail, ctime] = [MAIL.exec(text), CTIME.exec(text)];
  const parts = mail ? [mail[1], mail[4], mail[3], mail[2], mail[5], mail[6], mail[7], mail[8]]
    : ctime ? [ctime[1], ctime[8], ctime[2], ctime[3], ctime[4], ctime[5], ctime[6], ctime[7]] : null;
  if (!parts) return { error: UNKNOWN };
  const [weekday, year, name, day, hour, minute, second = "00", zone = ""] = parts;
  const month = MONTHS.indexOf(name.toLowerCase()) + 1;
  const { secs, error } = zoneOf(zone);
  const isThatDay = new Date(Date.UTC(Number(year), month - 1, Number(day))).getUTCDay() === WEEKDAYS.indexOf(weekday.toLowerCase());
  if (error || !month || !isThatDay) return { error: UNKNOWN };
  return moment([year, String(month), day, hour, minute, second], "", secs);
}

/** The moment of a date and time of day, at its offset or in UTC. */
function moment(parts, decimals, offset) {
  const [year, month, day, hour, minute, second] = parts.map(Number);
  if (hour === 24 && !minute && !second) return { error: "24:00 must be written as 00:00 of the next day" };
  if (second === 60) return { error: LEAP };
  const kept = decimals.replace(/0+$/, "");
  if (kept.length > 9) return { error: "a second must have at most nine decimals" };
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second);
  const isThere = date.getUTCFullYear() === year && date.getUTCMonth() === month - 1 && date.getUTCDate() === day
    && hour < 24 && minute < 60 && second < 60;
  if (!isThere) return { error: "no such date or time of day" };
  const ns = (BigInt(date.getTime() / 1000) - BigInt(offset ?? 0)) * SECOND_NS + BigInt(kept.padEnd(9, "0"));
  // A year of RFC 3339 has four digits, and an offset may lead out of them.
  const at = new Date(Number(ns / SECOND_NS) * 1000).getUTCFullYear();
  return at < 0 || at > 9999 ? { error: RANGE } : { ns, isUtcAssumed: offset === undefined };
}
