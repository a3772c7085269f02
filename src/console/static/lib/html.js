// Preact and htm as one: `html` makes elements of templates, and every text in them is a text.

import { h } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export { Fragment, render } from "../vendor/preact.js";
export { useCallback, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useRef, useState } from
  "../vendor/preact-hooks.js";
export const html = htm.bind(h);
