// Hooks of pages: loads, tasks and the current time.

import { useCallback, useEffect, useRef, useState } from "../lib/html.js";
import { connection } from "../lib/api.js";

/**
 * Loads when `keys` change, and again when the server is back. `load` gets a signal that ends it.
 * The previous data stays until the new data is loaded.
 */
export function useLoad(load, keys) {
  const [state, setState] = useState({ data: undefined, problem: null, loading: true });
  const [turn, setTurn] = useState(0);
  const shown = useRef();
  useEffect(() => {
    const ending = new AbortController();
    const key = JSON.stringify(keys);
    const isSame = shown.current === key;
    shown.current = key;
    setState((now) => ({ data: isSame ? now.data : undefined, problem: null, loading: true }));
    load(ending.signal).then(
      (data) => ending.signal.aborted || setState({ data, problem: null, loading: false }),
      (problem) => ending.signal.aborted || setState((now) => ({ data: now.data, problem, loading: false })),
    );
    return () => ending.abort();
  }, [...keys, turn]);
  const again = useCallback(() => setTurn((turn) => turn + 1), []);
  useEffect(() => {
    let wasOnline = connection.get().online;
    return connection.subscribe(({ online }) => {
      if (online && !wasOnline) again();
      wasOnline = online;
    });
  }, []);
  return { ...state, again };
}

/** Runs one task at a time. `run` resolves to whether it succeeded. */
export function useTask() {
  const [state, setState] = useState({ busy: false, problem: null });
  const run = async (task) => {
    setState({ busy: true, problem: null });
    try {
      await task();
      setState({ busy: false, problem: null });
      return true;
    } catch (problem) {
      setState({ busy: false, problem });
      return false;
    }
  };
  return { ...state, run, clear: () => setState({ busy: false, problem: null }) };
}

/** Draws again at intervals, for times relative to now. */
export function useNow(millis = 10000) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), millis);
    return () => clearInterval(timer);
  }, [millis]);
  return now;
}
