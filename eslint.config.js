/** What is asked of every line of JavaScript: sdk/js and the dashboard. Formatting is prettier's business. */
import path from "node:path";
import js from "@eslint/js";
import globals from "globals";
import { LAYERS, OUTSIDE } from "./javascript.layers.js";

const ROOT = import.meta.dirname;
const SDK = "sdk/js";
const DASHBOARD = "src/keyveil/dashboard/static";

/** The row that a file stands in, from the top; -1 where it has no place. `folder/*.js` is all of them. */
const rowOf = (room, file) =>
  LAYERS[room].findIndex((row) => row.includes(file) || row.includes(`${path.dirname(file)}/*.js`));

/** Imports go downwards. */
const layers = {
  create(context) {
    const here = path.relative(ROOT, context.filename);
    const room = Object.keys(LAYERS).find((folder) => here.startsWith(`${folder}/`));
    const inRoom = (file) => path.relative(path.join(ROOT, room), file);
    const row = rowOf(room, inRoom(context.filename));
    const check = (node) => {
      const name = node.source?.value;
      if (name === undefined || OUTSIDE[here]?.includes(name)) return;
      const target = inRoom(path.resolve(path.dirname(context.filename), name));
      const below = name.startsWith(".") ? rowOf(room, target) : -1;
      if (below <= row) context.report({ node, message: `${here} may not import ${name}: see javascript.layers.js` });
    };
    return {
      Program(node) {
        if (row < 0) context.report({ node, message: `${here} has no place in javascript.layers.js` });
      },
      ImportDeclaration: check,
      ImportExpression: check,
      ExportNamedDeclaration: check,
      ExportAllDeclaration: check,
    };
  },
};

const only = (names) => Object.fromEntries(names.map((name) => [name, "readonly"]));
/** What browsers, workers and Node all have; what only some have is reached in one file each, below. */
const EVERYWHERE = ["AbortController", "atob", "btoa", "clearTimeout", "performance", "setTimeout"];
const TEXTS = ["TextDecoder", "TextEncoder", "URL"];

/** Refuses names, and says where they belong. */
const leave = (message, ...names) => names.map((name) => ({ name, message }));
const noMarkup = ["innerHTML", "outerHTML", "insertAdjacentHTML", "write"].map((property) => ({
  property,
  message: "names are somebody else's: elements are made by dom.js",
}));

export default [
  { ignores: ["**/*.min.js", "docs/", "tests/", ".venv/", ".bench-venv/"] },
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2022, sourceType: "module", globals: globals.nodeBuiltin },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    plugins: { keyveil: { rules: { layers } } },
    rules: {
      complexity: ["error", 15],
      curly: ["error", "multi-line"],
      eqeqeq: ["error", "always", { null: "ignore" }],
      "max-depth": ["error", 4],
      "max-len": ["error", { code: 120 }],
      "no-implicit-coercion": "error",
      "no-shadow": "error",
      "no-unused-vars": ["error", { varsIgnorePattern: "^_$" }],
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      "prefer-template": "error",
    },
  },

  // --- the client ---
  {
    files: [`${SDK}/*.js`, `${SDK}/src/**/*.js`],
    ignores: [`${SDK}/bench.js`],
    languageOptions: { globals: { ...off(globals.nodeBuiltin), ...only([...EVERYWHERE, ...TEXTS]) } },
    rules: {
      "keyveil/layers": "error",
      "no-restricted-globals": [
        "error",
        ...leave("what only some platforms have is reached in one file", "globalThis"),
      ],
    },
  },
  { files: [`${SDK}/src/ledgers/file.js`], languageOptions: { globals: only(["process"]) } },
  {
    // Web Crypto; the person's wishes; fetch; IndexedDB; where the wishes are looked for unless a test says otherwise.
    files: ["numerics/bytes", "client/consent", "client/transport", "ledgers/browser", "client/options"].map(
      (file) => `${SDK}/src/${file}.js`,
    ),
    rules: { "no-restricted-globals": "off" },
  },

  // --- the dashboard ---
  {
    files: [`${DASHBOARD}/**/*.js`],
    languageOptions: { globals: { ...off(globals.nodeBuiltin), ...globals.browser } },
    rules: {
      "keyveil/layers": "error",
      "no-restricted-globals": [
        "error",
        ...leave("the collector is asked by api.js, with the token and a deadline", "fetch", "XMLHttpRequest"),
        ...leave("the token is api.js's", "sessionStorage"),
      ],
      "no-restricted-properties": ["error", ...noMarkup],
    },
  },
  { files: [`${DASHBOARD}/api.js`], rules: { "no-restricted-globals": "off" } },
  {
    // Numbers, and what follows from a release: no page is needed to make them.
    files: [`${DASHBOARD}/format.js`, `${DASHBOARD}/found.js`],
    languageOptions: { globals: off(globals.browser) },
  },
];

function off(names) {
  return Object.fromEntries(Object.keys(names).map((name) => [name, "off"]));
}
