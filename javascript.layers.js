/**
 * Who may import whom, from the top to the bottom: a module imports from rows below its own, never from its own row or
 * from above. A file that stands nowhere fails, so a new one must be given its place. Held by eslint.config.js.
 */
export const LAYERS = {
  // The browser's entry has no way to Node's: only node.js stands above the ledger that opens files.
  "sdk/js": [
    ["node.js"],
    ["keyveil.js", "sealed.js", "src/ledgers/file.js"],
    // A plain device has no way to what seals: whoever passes `seal` brings it in.
    ["src/client/relayed.js"],
    ["src/client/device.js"],
    ["src/client/hiding.js"],
    ["src/client/options.js", "src/client/upload.js"],
    ["src/client/keys.js", "src/client/backoff.js", "src/client/route.js"],
    // A vote is made without the network: it and the transport know nothing of each other.
    ["src/client/vote.js", "src/client/transport.js", "src/client/explain.js"],
    ["src/client/consent.js", "src/client/transactions.js", "src/client/deadline.js"],
    ["src/descriptions/round.js"],
    ["src/descriptions/campaign.js"],
    ["src/descriptions/segments.js", "src/descriptions/series.js"],
    ["src/ledgers/browser.js", "src/ledgers/memory.js"],
    ["src/ledgers/states.js"],
    ["src/mechanisms/named.js"],
    ["src/mechanisms/calibrations.js", "src/mechanisms/kernels.js"],
    ["src/mechanisms/oracles.js"],
    ["src/mechanisms/selection.js"],
    ["src/report/reports.js", "src/reading.js"],
    ["src/dither.js", "src/crossing.js"],
    ["src/report/layouts.js", "src/records.js"],
    // It knows of no report and no device.
    ["src/sealing/sealed.js"],
    ["src/sealing/hpke.js"],
    ["src/texts.js"],
    ["src/numerics/words.js", "src/numerics/mixing.js"],
    ["src/numerics/bytes.js", "src/numerics/exact.js"],
    ["src/checks.js"],
    ["src/refusals.js"],
  ],
  // Pages know nothing of each other; keyveil.js and vendor/ are served beside them.
  "src/keyveil/dashboard/static": [
    ["app.js"],
    ["pages/*.js"],
    ["pairs.js", "segments.js"],
    ["lines.js"],
    ["charts.js", "found.js", "painting.js", "parts.js", "trends.js"],
    ["api.js", "dom.js", "format.js", "keyveil.js", "vendor/*.js", "theme.js"],
  ],
};

/** Modules that may be named beside those of the layers, and by whom. */
export const OUTSIDE = { "sdk/js/node.js": ["node:crypto"], "sdk/js/src/ledgers/file.js": ["node:fs/promises"] };
