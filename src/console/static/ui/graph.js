// A graph of some series over time, with their latest values as text.

import { html, useEffect, useRef, useState } from "../lib/html.js";
import { awaited } from "../lib/api.js";
import { ago } from "../lib/times.js";

let library = null;

/** The library is fetched when the first graph is drawn. */
const uplot = () => {
  library ??= awaited(import("../vendor/uplot.js")).then((module) => module.default);
  return library;
};

const COLOURS = {
  light: ["#0f766e", "#c2410c", "#4f46e5", "#8a4b06", "#64748b"],
  dark: ["#3fc6b5", "#fb923c", "#a5b4fc", "#f0b45b", "#94a3b8"],
};

const isDark = () => {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

/** Whether it is dark now, and from when it changes. */
function useDark() {
  const [dark, setDark] = useState(isDark());
  useEffect(() => {
    const look = () => setDark(isDark());
    const media = matchMedia("(prefers-color-scheme: dark)");
    const observer = new MutationObserver(look);
    observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    media.addEventListener("change", look);
    return () => { observer.disconnect(); media.removeEventListener("change", look); };
  }, []);
  return dark;
}

/** Graphs grow with letters. */
const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize);
const height = () => 12 * rem();

/** Seconds between two labels of the axis of time. */
const STEPS = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400];

function options(width, names, show, dark) {
  const style = getComputedStyle(document.documentElement);
  const [soft, line] = [style.getPropertyValue("--soft").trim(), style.getPropertyValue("--line").trim()];
  const font = `${Math.round(0.74 * rem())}px system-ui, sans-serif`;
  const axis = { stroke: soft, font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 } };
  const colours = COLOURS[dark ? "dark" : "light"];
  return {
    width, height: height(), legend: { show: false }, cursor: { y: false, points: { size: 6 } },
    scales: { x: { time: false }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.15 : 1] } },
    axes: [
      { ...axis, size: 1.8 * rem(), space: 4 * rem(), incrs: STEPS, values: (_, times) => times.map((at) => ago(-at)) },
      { ...axis, size: 4.2 * rem(), space: 2.3 * rem(), values: (_, values) => values.map(show) },
    ],
    series: [{}, ...names.map((name, i) => ({
      label: name, stroke: colours[i], width: 1.75, points: { show: false }, spanGaps: false,
      fill: names.length === 1 ? `${colours[i]}22` : undefined,
    }))],
  };
}

const isNumber = (value) => value !== null && value !== undefined;

export function Graph({ title, times, series, show, empty = "No values yet." }) {
  const dark = useDark();
  const now = series.map(([name, values]) => [name, values.findLast(isNumber)]);
  // Axes without values would show times and numbers without a meaning.
  const isEmpty = times.length < 2 || !series.some(([, values]) => values.some(isNumber));
  const words = ([name, value]) => `${name} ${isNumber(value) ? show(value) : "unknown"}`;
  const colours = COLOURS[dark ? "dark" : "light"];
  const since = times.length ? `since ${ago((times.at(-1) - times[0]) / 1000)}` : "over time";
  const label = `${title} ${since}. Now: ${now.map(words).join(", ")}`;
  return html`
    <section class="card" aria-label=${title}>
      <div class="graph-head">
        <h3>${title}</h3>
        <div class="keys-of-graph">
          ${now.map(([name, value], i) => html`
            <span><i style=${{ background: colours[i] }}/><span class="muted">${name}</span>${" "}
              <strong>${isNumber(value) ? show(value) : "–"}</strong></span>`)}
        </div>
      </div>
      ${isEmpty ? html`<p class="graph graph-empty muted">${empty}</p>`
        : html`<${Plot} label=${label} times=${times} series=${series} show=${show} dark=${dark}/>`}
    </section>`;
}

function Plot({ label, times, series, show, dark }) {
  const place = useRef();
  const plot = useRef();
  const names = series.map(([name]) => name);
  // Times are relative to the latest one: their labels are spellings that fields of times take.
  const data = [times.map((at) => (at - times.at(-1)) / 1000), ...series.map(([, values]) => values)];
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    let gone = false;
    let observer;
    uplot().then((Plot) => {
      if (gone) return;
      const width = place.current.clientWidth;
      plot.current = new Plot(options(width, names, show, dark), latest.current, place.current);
      observer = new ResizeObserver(([{ contentRect }]) => plot.current.setSize({ width: contentRect.width, height: height() }));
      observer.observe(place.current);
    });
    return () => {
      gone = true;
      observer?.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [dark, names.join("\n")]);
  useEffect(() => { plot.current?.setData(latest.current); });
  return html`<div class="graph" ref=${place} role="img" aria-label=${label}/>`;
}
