// Changes a feature.

import { html } from "../lib/html.js";
import { takesField } from "../lib/document.js";
import { changeFeature, loadFeature, pageOf, titleOf } from "../lib/features.js";
import { Loading } from "../ui/parts.js";
import { ttlConsequence } from "../ui/feature_parts.js";
import { useLoad } from "../ui/use.js";
import { EditDefinition } from "./definition_edit.js";

const ABOUT = "The entity type, name and value type cannot be changed. The time to live applies to the default version " +
  "and is the default of later versions.";

export function EditFeature({ feature, etag, refused, onSaved }) {
  const bounds = useLoad(async () => {
    const names = ["max_items", "timestamp_ahead_max"];
    const taken = await Promise.all(names.map((name) => takesField("update_feature", name)));
    return names.filter((_, i) => taken[i]);
  }, []).data;
  const { entity_type: type, name } = feature;
  if (bounds === undefined) return html`<${Loading}/>`;
  return html`
    <${EditDefinition} definition=${feature} etag=${etag} refused=${refused} title=${titleOf(feature)} page=${pageOf(feature)}
      fields=${["ttl", ...bounds, "description", "owner", "labels"]} about=${ABOUT}
      consequence=${ttlConsequence} onSaved=${onSaved} change=${(patch, etag) => changeFeature(type, name, patch, etag)}
      load=${async () => { const { feature, etag } = await loadFeature(type, name); return { definition: feature, etag }; }}/>`;
}
