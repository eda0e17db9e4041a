/** What is asked of every line of JavaScript: sdk/js and the dashboard. Formatting is prettier's business. */
import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: ["**/*.min.js", "docs/", "tests/", ".venv/", ".bench-venv/"] },
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2022, sourceType: "module" },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      curly: ["error", "multi-line"],
      eqeqeq: ["error", "always", { null: "ignore" }],
      "no-implicit-coercion": "error",
      "no-promise-executor-return": "off",
      "no-shadow": "error",
      "no-unused-vars": ["error", { varsIgnorePattern: "^_$" }],
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      "prefer-template": "error",
      "max-depth": ["error", 4],
      complexity: ["error", 15],
    },
  },
  {
    files: ["sdk/js/**/*.js"],
    languageOptions: { globals: { ...globals["shared-node-browser"], ...globals.node, indexedDB: "readonly" } },
  },
  { files: ["src/keyveil/dashboard/static/**/*.js"], languageOptions: { globals: globals.browser } },
];
