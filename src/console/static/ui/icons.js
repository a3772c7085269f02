// Pictures of 16 by 16, drawn in lines of the text's colour. The text next to them has the same information.

import { html } from "../lib/html.js";

const SHAPES = {
  features: "M2.5 4h11M2.5 8h11M2.5 12h7",
  lists: "M5.5 3.5h8M5.5 8h8M5.5 12.5h8M2.5 3.5h.01M2.5 8h.01M2.5 12.5h.01",
  entities: "M8 8.2a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6zM2.5 13.8c.6-2.3 2.8-3.6 5.5-3.6s4.9 1.3 5.5 3.6",
  health: "M1.5 8.5h3l2-5 3 9 2-4h3",
  access: "M10.2 9.3a3.7 3.7 0 1 0-3.4-3.4L1.8 11v3h3v-2h2v-2l1-.8M11.3 4.7h.01",
  docs: "M2.5 3h4A1.5 1.5 0 0 1 8 4.5v9A1.5 1.5 0 0 0 6.5 12h-4zM13.5 3h-4A1.5 1.5 0 0 0 8 4.5v9A1.5 1.5 0 0 1 9.5 12h4z",
  plus: "M8 3v10M3 8h10",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM14 14l-3.5-3.5",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  check: "M3 8.5l3.2 3.2L13 4.8",
  warn: "M8 2L1.5 13.5h13zM8 6.5v3M8 11.7h.01",
  close: "M3.5 3.5l9 9M12.5 3.5l-9 9",
  bin: "M2.5 4.5h11M6 4.5v-2h4v2M4 4.5l.6 9h6.8l.6-9M6.7 7v4M9.3 7v4",
  edit: "M10.5 3l2.5 2.5L6 12.5l-3 .5.5-3z",
  sunset: "M2 11h12M4.5 14h7M4.2 8.6a3.9 3.9 0 0 1 7.6 0M8 1.5v3M6.3 3.2L8 4.9l1.7-1.7",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1.2v1.3M8 13.5v1.3M1.2 8h1.3M13.5 8h1.3M3.2 3.2l.9.9M11.9 11.9l.9.9M3.2 12.8l.9-.9M11.9 4.1l.9-.9",
  moon: "M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7z",
  auto: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12",
  right: "M6 3.5L10.5 8 6 12.5",
  left: "M10 3.5L5.5 8 10 12.5",
  menu: "M2.5 4h11M2.5 8h11M2.5 12h11",
  out: "M6 2.5H2.5v11H6M10 5l3 3-3 3M13 8H6",
  clock: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 4.8V8l2.2 1.6",
  refresh: "M13.5 3v3.5H10M13 6.5A5.3 5.3 0 1 0 13.3 9",
};

/** Sizes are for letters of 15 pixels. Icons grow with the letters. */
const sized = (size) => ({ width: `${size / 15}rem`, height: `${size / 15}rem` });

export const Icon = ({ name, size = 16 }) => html`
  <svg class="icon" style=${sized(size)} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
    <path d=${SHAPES[name]} fill="none" stroke="currentColor" stroke-width="1.5"
      stroke-linecap="round" stroke-linejoin="round"/>
  </svg>`;

export const Mark = () => html`
  <svg class="mark" style=${sized(26)} viewBox="0 0 32 32" aria-hidden="true" focusable="false">
    <rect width="32" height="32" rx="8" fill="#0f766e"/>
    <path d="M13 10h11M13 16h8M13 22h4.5" fill="none" stroke="#fff" stroke-width="2.6" stroke-linecap="round"/>
    <g fill="#5eead4"><circle cx="8.5" cy="10" r="1.9"/><circle cx="8.5" cy="16" r="1.9"/>
      <circle cx="8.5" cy="22" r="1.9"/></g>
  </svg>`;
