/** One line is at most 120 characters, as everywhere in this repository's JavaScript. */
export default { printWidth: 120, objectWrap: "collapse" };
