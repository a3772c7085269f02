// Prometheus' text format: read, and two readings compared.

const LINE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;
const LABEL = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** A reading: the series of each name, with the moment that it was taken. */
export function readMetrics(text, at = Date.now()) {
  const names = new Map();
  for (const line of text.split("\n")) {
    if (!line || line.startsWith("#")) continue;
    const found = LINE.exec(line);
    if (!found) continue;
    const labels = {};
    for (const [, name, value] of (found[2] ?? "").matchAll(LABEL)) labels[name] = value;
    const series = names.get(found[1]) ?? [];
    series.push({ labels, value: Number(found[3].replace("Inf", "Infinity")) });
    names.set(found[1], series);
  }
  return { at, names };
}

const all = () => true;

/** The sum of the series of a name; null if there is none. */
export function total(reading, name, which = all) {
  const series = reading?.names.get(name);
  return series ? series.filter(({ labels }) => which(labels)).reduce((sum, { value }) => sum + value, 0) : null;
}

/** The growth of a counter per second; null without an earlier reading, or after a restart of the server. */
export function rate(before, after, name, which = all) {
  const now = total(after, name, which);
  if (!before || now === null) return null;
  const grown = now - (total(before, name, which) ?? 0);
  return grown < 0 ? null : grown / ((after.at - before.at) / 1000);
}

/** A quantile of a histogram between two readings; null if it counted nothing, Infinity beyond its last bound. */
export function quantile(before, after, name, q, which = all) {
  const counts = (reading) => {
    const sums = new Map();
    for (const { labels, value } of reading?.names.get(`${name}_bucket`) ?? []) {
      if (which(labels)) sums.set(labels.le, (sums.get(labels.le) ?? 0) + value);
    }
    return sums;
  };
  const [old, now] = [counts(before), counts(after)];
  const buckets = [...now]
    .map(([le, value]) => [Number(le.replace("Inf", "Infinity")), value - (old.get(le) ?? 0)])
    .sort((a, b) => a[0] - b[0]);
  const count = buckets.at(-1)?.[1] ?? 0;
  if (!before || count <= 0) return null;
  let [low, below] = [0, 0];
  for (const [le, value] of buckets) {
    if (value >= q * count) {
      if (le === Infinity) return Infinity;
      return low + (le - low) * ((q * count - below) / Math.max(1e-9, value - below));
    }
    [low, below] = [le, value];
  }
  return low;
}
