// Changes a feature.

import { html } from "../lib/html.js";
import { changeFeature, loadFeature, pageOf, titleOf } from "../lib/features.js";
import { Loading } from "../ui/parts.js";
import { ttlConsequence } from "../ui/feature_parts.js";
import { useTaken } from "../ui/properties.js";
import { EditDefinition } from "./definition_edit.js";

const ABOUT = "The entity type, name and value type cannot be changed. The time to live applies to the default version " +
  "and is the default of later versions.";

export function EditFeature({ feature, etag, refused, onSaved }) {
  const taken = useTaken("update_feature");
  const { entity_type: type, name } = feature;
  if (taken === undefined) return html`<${Loading}/>`;
  return html`
    <${EditDefinition} definition=${feature} etag=${etag} refused=${refused} title=${titleOf(feature)} page=${pageOf(feature)}
      fields=${["ttl", ...taken.map((property) => property.name), "description", "owner", "labels"]} about=${ABOUT}
      consequence=${ttlConsequence} onSaved=${onSaved} change=${(patch, etag) => changeFeature(type, name, patch, etag)}
      load=${async () => { const { feature, etag } = await loadFeature(type, name); return { definition: feature, etag }; }}/>`;
}
