// The size of a feature: counts its lists by paging through them, and the items of each list.

import { get } from "./api.js";
import { featurePath } from "./features.js";
import { itemsPath } from "./lists.js";

const PAGE_SIZE = 1000;
/** The largest count of one list by the server. */
const COUNT_MAX = 1000000;
/** Lists whose items are counted at once. */
const COUNTED_AT_ONCE = 8;

/**
 * Counts the lists of some versions and their items. `onSome` gets the counts so far: { lists, isWhole, items, isExact }.
 * Both numbers are lower bounds until `isWhole` and `isExact`. It stops after so many pages of lists of each version,
 * and so many lists whose items are counted.
 */
export async function weigh(feature, versions, { pagesMax, countsMax, onSome, signal }) {
  const found = { lists: 0, isWhole: true, items: 0, isExact: true };
  let counted = 0;
  for (const version of versions) {
    let token;
    let pages = 0;
    do {
      const query = { version, page_size: PAGE_SIZE, page_token: token };
      const { data } = await get(`${featurePath(feature.entity_type, feature.name)}/entities`, query, { signal });
      found.lists += data.entities.length;
      token = data.next_page_token;
      pages += 1;
      const looked = data.entities.slice(0, countsMax - counted);
      counted += looked.length;
      if (looked.length < data.entities.length) found.isExact = false;
      for (let at = 0; at < looked.length; at += COUNTED_AT_ONCE) {
        const counts = await Promise.all(looked.slice(at, at + COUNTED_AT_ONCE).map((id) => countOf(feature, version, id, signal)));
        for (const { count, exact } of counts) {
          found.items += count;
          found.isExact &&= exact;
        }
        const isLast = at + COUNTED_AT_ONCE >= looked.length;
        if (!isLast) onSome({ ...found, isWhole: false, isExact: false });
      }
    } while (token && pages < pagesMax);
    if (token) Object.assign(found, { isWhole: false, isExact: false });
    const isLast = version === versions.at(-1);
    onSome(isLast ? { ...found } : { ...found, isWhole: false, isExact: false });
  }
}

const countOf = async (feature, version, id, signal) =>
  (await get(`${itemsPath({ type: feature.entity_type, feature: feature.name, id })}:count`, { version, max: COUNT_MAX }, { signal })).data;
