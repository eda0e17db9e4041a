/** The files that Python writes (scripts/vectors.py): read, never written, here. */
import { readdirSync, readFileSync } from "node:fs";

const folder = new URL("../../../../tests/vectors/", import.meta.url);

/** The names of all files in a folder of vectors. */
export function names(under = "") {
  const found = readdirSync(new URL(under, folder)).filter((name) => name.endsWith(".json"));
  return found.map((name) => under + name).sort();
}

export const load = (name) => JSON.parse(readFileSync(new URL(name, folder), "utf8"));
