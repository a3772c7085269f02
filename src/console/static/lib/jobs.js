// Purges and the jobs that carry them out, and the erasure of an entity.

import { call, get } from "./api.js";
import { featurePath } from "./features.js";
import { path } from "./router.js";

/** All jobs, page by page, the newest first. */
export async function loadJobs(signal) {
  const jobs = [];
  let token;
  do {
    const { data } = await get("/v1/jobs", { page_size: 1000, page_token: token }, { signal });
    jobs.push(...data.jobs);
    token = data.next_page_token;
  } while (token);
  return jobs;
}
export const purge = async (entityType, feature, input) =>
  (await call("POST", `${featurePath(entityType, feature)}/purge`, { body: input })).data;
/** `what` is pause, resume or cancel. */
export const tellJob = async (job, what) => (await call("POST", `/v1/jobs${path(job.id, what)}`, { body: {} })).data;
export const isOver = (job) => job.state === "done" || job.state === "cancelled";

export const eraseEntity = async (entityType, id) => (await call("DELETE", `/v1/entities${path(entityType, id)}`)).data;

/** How many lists one call reads. */
const LISTS_MAX = 1000;

/** Which lists of an entity have items, of the features that are there: [{ feature, version, newest }], and whether all were asked. */
export async function listsOf(features, entityType, id, signal) {
  const all = features.filter((feature) => feature.entity_type === entityType)
    .flatMap((feature) => feature.versions.map(({ version }) => ({ feature: feature.name, version })));
  const asked = all.slice(0, LISTS_MAX);
  if (!asked.length) return { lists: [], isWhole: true };
  const requests = asked.map((list) => ({ entity_type: entityType, ...list, entity_id: id, limit: 1 }));
  const { data } = await call("POST", "/v1/lists:batchGet", { body: { requests }, signal });
  const lists = asked.map((list, i) => ({ ...list, newest: data.results[i].items?.[0] })).filter(({ newest }) => newest);
  return { lists, isWhole: all.length === asked.length && !data.results.some(({ problem }) => problem) };
}
