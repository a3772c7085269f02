// Purges and the jobs that carry them out, and the erasure of an entity.

import { call, get } from "./api.js";
import { entityPath, typePath } from "./entities.js";
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
export const purgeBags = async (entityType, input) => (await call("POST", `${typePath(entityType)}/purge`, { body: input })).data;
/** Checks the entries of one index, or of all indexes, against all bags. */
export const cleanIndexes = async (entityType, input) => (await call("POST", `${typePath(entityType)}/clean`, { body: input })).data;
/** `what` is `pause`, `resume` or `cancel`. */
export const tellJob = async (job, what) => (await call("POST", `/v1/jobs${path(job.id, what)}`, { body: {} })).data;
export const isOver = (job) => job.state === "done" || job.state === "cancelled";

export const eraseEntity = async (entityType, id) => (await call("DELETE", entityPath(entityType, id))).data;

/** A page of the lists of an entity with items, if the caller may read them: { lists, next }. */
async function pageOfLists(entityType, id, token, signal) {
  const { data } = await get(`${entityPath(entityType, id)}/lists`, { page_size: 1000, page_token: token }, { signal });
  return { lists: data.lists, next: data.next_page_token };
}

/** All lists of an entity that have items: [{ feature, version, value_type, newest_timestamp }]. */
export async function listsOf(entityType, id, signal) {
  const all = [];
  let token;
  do {
    const { lists, next } = await pageOfLists(entityType, id, token, signal);
    all.push(...lists);
    token = next;
  } while (token);
  return all;
}
