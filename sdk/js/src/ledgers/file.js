/**
 * A ledger in a folder (Node), safe between processes, also where one of them is paused at any moment.
 *
 * The state lies in a folder of its own, and whoever holds the ledger has given that folder a name that nobody
 * else uses:
 *
 *     ledger.json.d/free/state.json                          nobody holds it
 *     ledger.json.d/held-<process>-<time>-<random>/state.json    one process does
 *
 * Taking and leaving it is one rename of the folder. A holder that is gone, or silent for `PATIENCE`, loses it in the
 * same way: the folder gets the next holder's name. That name is the fencing token. Every path of the one before
 * leads nowhere from then on, so a process that wakes up late can neither read nor replace the newer state: its
 * write fails, and it begins anew on what is there now.
 *
 * A new state is written beside the old one, flushed, and renamed over it; then the folder is flushed.
 */
import * as fs from "node:fs/promises";
import { randomBytes, toHex } from "../numerics/bytes.js";
import { parsed } from "../checks.js";
import { refuse, Refused } from "../refusals.js";
import { freshState, readState } from "./states.js";

/** @import { Ledger, LedgerState } from "../../index.d.ts" */

const FREE = "free";
const STATE = "state.json";
const HELD = /^held-(\d+)-(\d+)-[0-9a-f]+$/;

// A change takes milliseconds. Who is silent for longer is taken for gone; nothing is lost if that was wrong.
const PATIENCE = 2_000;
// How long to wait for others in all.
const LONGEST_WAIT = 10_000;
const PAUSE = 5;

/** The system's code of an error, such as ENOENT. */
const codeOf = (/** @type {unknown} */ error) => (error instanceof Error && "code" in error ? error.code : undefined);
const isMissing = (/** @type {unknown} */ error) => codeOf(error) === "ENOENT";
const unique = () => toHex(randomBytes(8));

/** Thrown where another process took the ledger away meanwhile. */
class Overtaken extends Error {}

/** @implements {Ledger} */
export class FileLedger {
  #path;
  #folder;
  /** @type {Promise<unknown>} */
  #turn = Promise.resolve();

  /**
   * The ledger lies beside `path`, in `path` + ".d". A file at `path` is a ledger of version 1, and is taken over.
   *
   * @param {string | URL} path
   */
  constructor(path) {
    this.#path = String(path);
    this.#folder = `${path}.d`;
  }

  /**
   * @template T
   * @param {(state: LedgerState) => T} change
   * @returns {Promise<T>}
   */
  update(change) {
    const turn = this.#turn.then(() => this.#transact(change));
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  /**
   * @template T
   * @param {(state: LedgerState) => T} change
   */
  async #transact(change) {
    const ends = performance.now() + LONGEST_WAIT;
    for (;;) {
      const held = await this.#take(ends);
      try {
        return await this.#change(held, change);
      } catch (error) {
        if (!(error instanceof Overtaken)) throw error;
      } finally {
        await fs.rename(held, `${this.#folder}/${FREE}`).catch(() => undefined);
      }
    }
  }

  /**
   * The folder's path under a name of our own.
   *
   * @param {number} ends
   */
  async #take(ends) {
    const held = `${this.#folder}/held-${process.pid}-${Date.now()}-${unique()}`;
    for (;;) {
      const found = await this.#toTake();
      if (found && (await isRenamed(`${this.#folder}/${found}`, held))) return held;
      if (performance.now() > ends) refuse("ledger-busy");
      if (!found) await new Promise((wake) => setTimeout(wake, PAUSE));
    }
  }

  /** The name under which the folder may be taken now, if any. */
  async #toTake() {
    const names = await fs
      .readdir(this.#folder)
      .catch((error) => (isMissing(error) ? null : refuse("ledger-unwritable")));
    if (names !== null) return names.find((name) => name === FREE || isLeftBehind(name));
    await this.#create();
    return FREE;
  }

  /**
   * @template T
   * @param {string} held
   * @param {(state: LedgerState) => T} change
   */
  async #change(held, change) {
    const flushed = await openFolder(held);
    try {
      const state = await readHeld(held);
      const result = change(state);
      const beside = `${held}/new-${unique()}`;
      await asOvertaken(async () => {
        await removeDrafts(held);
        await write(beside, state);
        await fs.rename(beside, `${held}/${STATE}`);
        await flushed?.sync();
      });
      return result;
    } finally {
      await flushed?.close();
    }
  }

  /** Make a complete ledger under another name, then give it its own; the first of two makers wins. */
  async #create() {
    const draft = `${this.#folder}.${unique()}`;
    try {
      const old = await readFile(this.#path);
      for (const folder of [draft, `${draft}/${FREE}`]) await fs.mkdir(folder, { mode: 0o700 });
      await write(`${draft}/${FREE}/${STATE}`, old ?? freshState());
      await fs.rename(draft, this.#folder);
      await flush(`${this.#folder}/${FREE}`, this.#folder, `${this.#folder}/..`);
      // So that a device of the version before stops, instead of spending again what was spent here.
      if (old) await fs.writeFile(this.#path, JSON.stringify({ version: 2, folder: this.#folder }));
    } catch (error) {
      if (error instanceof Refused) throw error;
      const isThere = await fs.stat(this.#folder).then(
        () => true,
        () => false,
      );
      if (!isThere) refuse("ledger-unwritable");
    } finally {
      await fs.rm(draft, { recursive: true, force: true }).catch(() => undefined);
    }
  }
}

/**
 * Whether the holder in a name died, or has been silent for too long; a time to come is a clock set back since.
 *
 * @param {string} name
 */
function isLeftBehind(name) {
  const [, pid, since] = HELD.exec(name) ?? [];
  if (pid === undefined) return false;
  const age = Date.now() - Number(since);
  return age < 0 || age > PATIENCE || !isAlive(Number(pid));
}

/** @param {number} pid */
function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) !== "ESRCH";
  }
}

/**
 * Whether the folder was there to be taken; another process may have been faster.
 *
 * @param {string} from
 * @param {string} to
 */
async function isRenamed(from, to) {
  try {
    await fs.rename(from, to);
    return true;
  } catch (error) {
    // EPERM and EBUSY: on Windows a folder with open files cannot be renamed yet.
    return ["ENOENT", "EPERM", "EBUSY"].includes(String(codeOf(error))) ? false : refuse("ledger-unwritable");
  }
}

/**
 * The state in a file; null where there is none.
 *
 * @param {string} path
 */
async function readFile(path) {
  const text = await fs.readFile(path, "utf8").catch((error) => (isMissing(error) ? null : refuse("ledger-corrupt")));
  return text === null ? null : readState(parsed(text, "ledger-corrupt"));
}

/** @param {string} held */
async function readHeld(held) {
  const state = await readFile(`${held}/${STATE}`);
  if (state !== null) return state;
  const isStillHeld = await fs.stat(held).then(
    () => true,
    () => false,
  );
  return isStillHeld ? refuse("ledger-corrupt") : overtaken();
}

/** @returns {never} */
function overtaken() {
  throw new Overtaken();
}

/**
 * A path that is gone means that the folder was taken away.
 *
 * @param {() => Promise<void>} work
 */
async function asOvertaken(work) {
  try {
    await work();
  } catch (error) {
    if (isMissing(error)) overtaken();
    refuse("ledger-unwritable");
  }
}

/**
 * Drafts of a holder that was overtaken: it may still write to them, so they are never written over.
 *
 * @param {string} held
 */
async function removeDrafts(held) {
  for (const name of await fs.readdir(held)) {
    if (name.startsWith("new-")) await fs.rm(`${held}/${name}`, { force: true });
  }
}

/**
 * @param {string} path
 * @param {LedgerState} state
 */
async function write(path, state) {
  const file = await fs.open(path, "wx", 0o600);
  try {
    await file.writeFile(JSON.stringify(state));
    await file.sync();
  } finally {
    await file.close();
  }
}

/**
 * A folder to be flushed, whatever its name becomes; null where the system opens no folders.
 *
 * @param {string} path
 */
const openFolder = (path) => fs.open(path, "r").catch(() => null);

/** @param {string[]} paths */
async function flush(...paths) {
  for (const path of paths) {
    const folder = await openFolder(path);
    await folder?.sync().catch(() => undefined);
    await folder?.close();
  }
}
