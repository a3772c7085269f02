// The server's OpenAPI document: the console reads the server's abilities from it, and assumes none.

import { get } from "./api.js";

let asked = null;

/** The document, read once. */
export function openapi() {
  asked ??= get("/openapi.json", {}, { quiet: true }).then(
    ({ data }) => data,
    (problem) => {
      asked = null;
      throw problem;
    },
  );
  return asked;
}

/** All operations: {id, method, path, tag, ...}. The most used ones come first. */
export async function operations() {
  const document = await openapi();
  const order = new Map((document["x-order"] ?? []).map((id, place) => [id, place]));
  const placeOf = ({ id }) => order.get(id) ?? order.size;
  const all = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      ...operation, id: operation.operationId, method: method.toUpperCase(), path, tag: operation.tags?.[0] ?? "",
    })));
  return all.sort((a, b) => placeOf(a) - placeOf(b));
}

/** Whether the server has an operation. */
export const hasOperation = async (id) => (await operations()).some((operation) => operation.id === id);

export async function takesParameter(id, name) {
  const operation = (await operations()).find((operation) => operation.id === id);
  return Boolean(operation?.parameters?.some((parameter) => parameter.name === name));
}

/** Whether a body of the server has a field. The console does not offer fields that an older server lacks. */
export async function takesField(id, name) {
  const document = await openapi();
  const operation = (await operations()).find((operation) => operation.id === id);
  const body = resolve(document, operation?.requestBody?.content?.["application/json"]?.schema);
  return Boolean(body.properties?.[name]);
}

/** The schema of a reference. */
export function resolve(document, schema) {
  for (let steps = 0; schema?.$ref && steps < 10; steps += 1) {
    schema = schema.$ref.slice(2).split("/").reduce((at, key) => at?.[key.replaceAll("~1", "/").replaceAll("~0", "~")], document);
  }
  return schema ?? {};
}
