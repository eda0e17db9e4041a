/** The files that Python writes (scripts/vectors.py): read, never written, here. */
import { existsSync, readdirSync, readFileSync } from "node:fs";

const folder = new URL("../../../../tests/vectors/", import.meta.url);

/** The names of all files in a folder of vectors; none where there is no such folder. */
export function names(under = "") {
  const place = new URL(under, folder);
  if (!existsSync(place)) return [];
  return readdirSync(place).filter((name) => name.endsWith(".json")).map((name) => under + name).sort();
}

export const has = (name) => existsSync(new URL(name, folder));
export const load = (name) => JSON.parse(readFileSync(new URL(name, folder), "utf8"));
