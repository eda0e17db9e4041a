/**
 * Bundles an application as its author would: `node bundle.js BUNDLER KIND FOLDER` makes FOLDER/made/app.cjs of
 * FOLDER/app.js.
 *
 * "page" is one script for a page, whose exports are the global `app`; "commonjs" is a module for Node.
 */
import path from "node:path";

const [OUT, FILE] = ["made", "app.cjs"];

const bundlers = {
  async esbuild({ folder, isPage }) {
    const { build } = await import("esbuild");
    const format = isPage
      ? { platform: "browser", format: "iife", globalName: "app" }
      : { platform: "node", format: "cjs" };
    await build({
      absWorkingDir: folder,
      entryPoints: ["app.js"],
      bundle: true,
      minify: true,
      outfile: `${OUT}/${FILE}`,
      ...format,
    });
  },

  async vite({ folder, isPage }) {
    const { build } = await import("vite");
    const page = { lib: { entry: "app.js", name: "app", formats: ["iife"], fileName: () => FILE } };
    const server = { ssr: "app.js", rolldownOptions: { output: { format: "cjs", entryFileNames: FILE } } };
    await build({
      root: folder,
      configFile: false,
      logLevel: "warn",
      ssr: { noExternal: true },
      build: { outDir: OUT, ...(isPage ? page : server) },
    });
  },

  async webpack({ folder, isPage }) {
    const { default: webpack } = await import("webpack");
    const made = await new Promise((resolve, reject) => {
      const library = isPage ? { name: "app", type: "var" } : { type: "commonjs2" };
      const output = { path: path.join(folder, OUT), filename: FILE, library };
      const options = {
        context: folder,
        entry: "./app.js",
        mode: "production",
        target: isPage ? "web" : "node",
        output,
      };
      webpack(options, (error, stats) => (error ? reject(error) : resolve(stats)));
    });
    if (made.hasErrors() || made.hasWarnings()) throw new Error(made.toString("errors-warnings"));
  },
};

const [bundler, kind, folder] = process.argv.slice(2);
await bundlers[bundler]({ folder: path.resolve(folder), isPage: kind === "page" });
