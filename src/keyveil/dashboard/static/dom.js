/**
 * Elements, made one way only: attributes by name, children as nodes or text.
 *
 * Names of keys and campaigns are somebody else's. They become text nodes and nothing else; there is no way
 * from here to markup.
 */

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "rect", "line", "circle", "path", "g", "text", "title", "polyline", "polygon"]);

/** An element: `h("a", {href, class: "x", onclick}, "text", node, [more])`. */
export function h(tag, attributes = {}, ...children) {
  const element = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else if (name === "dataset") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  fill(element, ...children);
  return element;
}

/** Replace what is inside an element. */
export function put(element, ...children) {
  element.replaceChildren();
  fill(element, ...children);
  return element;
}

function fill(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

const LONGEST_NAME = 120;
// Characters that are not seen, or that turn the direction of what follows.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}\p{Cs}]/gu;

/** A name as it is shown: what cannot be seen is named, what is too long is cut; never empty. */
export function shown(name) {
  const letters = [...name.slice(0, 4 * LONGEST_NAME)];
  const cut = letters.slice(0, LONGEST_NAME).join("");
  const text = cut.replace(
    UNSEEN,
    (letter) => `\u27e8${Number(letter.codePointAt(0)).toString(16).toUpperCase().padStart(4, "0")}\u27e9`,
  );
  const rest = cut.length < name.length ? `\u2026 (${name.length.toLocaleString("en")} characters)` : "";
  return text.trim() === "" && !rest ? (name === "" ? "(no name)" : "(blank)") : text + rest;
}

/** A name in little room: names that begin alike are told apart by their ends, so what is left out is in the middle. */
export function shortened(name, most = 22) {
  const letters = [...shown(name)];
  if (letters.length <= most) return letters.join("");
  const tail = Math.floor((most - 1) / 2);
  return `${letters.slice(0, most - 1 - tail).join("")}\u2026${letters.slice(-tail).join("")}`;
}

/** The name inside an element that keeps its direction to itself. */
export function nameNode(name, tag = "bdi") {
  return h(tag, { class: "name" }, shown(name));
}

/** An element of index.html, by its id. */
export function byId(id) {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`index.html has no #${id}`);
  return element;
}

/** Say something to those who do not see the page. */
export function say(text) {
  byId("say").textContent = text;
}

/** Offer a file to be saved. */
export function download(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
