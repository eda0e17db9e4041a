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
import { randomBytes, toHex } from "./bytes.js";
import { parsed } from "./checks.js";
import { refuse, Refused } from "./codes.js";
import { freshState, readState } from "./states.js";

const FREE = "free";
const STATE = "state.json";
const HELD = /^held-(\d+)-(\d+)-[0-9a-f]+$/;

// A change takes milliseconds. Who is silent for longer is taken for gone; nothing is lost if that was wrong.
const PATIENCE = 2_000;
// How long to wait for others in all.
const LONGEST_WAIT = 10_000;
const PAUSE = 5;

const isMissing = (error) => error.code === "ENOENT";
const unique = () => toHex(randomBytes(8));

/** Thrown where another process took the ledger away meanwhile. */
class Overtaken extends Error {}

export class FileLedger {
  #path;
  #folder;
  #turn = Promise.resolve();

  /** The ledger lies beside `path`, in `path` + ".d". A file at `path` is a ledger of version 1, and is taken over. */
  constructor(path) {
    this.#path = String(path);
    this.#folder = `${path}.d`;
  }

  update(change) {
    const turn = this.#turn.then(() => this.#transact(change));
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  async #transact(change) {
    const fs = await import("node:fs/promises");
    const ends = performance.now() + LONGEST_WAIT;
    for (;;) {
      const held = await this.#take(fs, ends);
      try {
        return await this.#change(fs, held, change);
      } catch (error) {
        if (!(error instanceof Overtaken)) throw error;
      } finally {
        await fs.rename(held, `${this.#folder}/${FREE}`).catch(() => undefined);
      }
    }
  }

  /** The folder's path under a name of our own. */
  async #take(fs, ends) {
    const held = `${this.#folder}/held-${process.pid}-${Date.now()}-${unique()}`;
    for (;;) {
      const found = await this.#toTake(fs);
      if (found && (await isRenamed(fs, `${this.#folder}/${found}`, held))) return held;
      if (performance.now() > ends) refuse("ledger-busy");
      if (!found) await new Promise((wake) => setTimeout(wake, PAUSE));
    }
  }

  /** The name under which the folder may be taken now, if any. */
  async #toTake(fs) {
    const names = await fs
      .readdir(this.#folder)
      .catch((error) => (isMissing(error) ? null : refuse("ledger-unwritable")));
    if (names !== null) return names.find((name) => name === FREE || isLeftBehind(name));
    await this.#create(fs);
    return FREE;
  }

  async #change(fs, held, change) {
    const flushed = await openFolder(fs, held);
    try {
      const state = await readHeld(fs, held);
      const result = change(state);
      const beside = `${held}/new-${unique()}`;
      await asOvertaken(async () => {
        await removeDrafts(fs, held);
        await write(fs, beside, state);
        await fs.rename(beside, `${held}/${STATE}`);
        await flushed?.sync();
      });
      return result;
    } finally {
      await flushed?.close();
    }
  }

  /** Make a complete ledger under another name, then give it its own; the first of two makers wins. */
  async #create(fs) {
    const draft = `${this.#folder}.${unique()}`;
    try {
      const old = await readFile(fs, this.#path);
      for (const folder of [draft, `${draft}/${FREE}`]) await fs.mkdir(folder, { mode: 0o700 });
      await write(fs, `${draft}/${FREE}/${STATE}`, old ?? freshState());
      await fs.rename(draft, this.#folder);
      await flush(fs, `${this.#folder}/${FREE}`, this.#folder, `${this.#folder}/..`);
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

/** Whether the holder in a name died, or has been silent for too long; a time to come is a clock set back since. */
function isLeftBehind(name) {
  const [, pid, since] = HELD.exec(name) ?? [];
  if (pid === undefined) return false;
  const age = Date.now() - Number(since);
  return age < 0 || age > PATIENCE || !isAlive(Number(pid));
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code !== "ESRCH";
  }
}

/** Whether the folder was there to be taken; another process may have been faster. */
async function isRenamed(fs, from, to) {
  try {
    await fs.rename(from, to);
    return true;
  } catch (error) {
    // EPERM and EBUSY: on Windows a folder with open files cannot be renamed yet.
    return ["ENOENT", "EPERM", "EBUSY"].includes(error.code) ? false : refuse("ledger-unwritable");
  }
}

/** The state in a file; null where there is none. */
async function readFile(fs, path) {
  const text = await fs.readFile(path, "utf8").catch((error) => (isMissing(error) ? null : refuse("ledger-corrupt")));
  return text === null ? null : readState(parsed(text, "ledger-corrupt"));
}

async function readHeld(fs, held) {
  const state = await readFile(fs, `${held}/${STATE}`);
  if (state !== null) return state;
  const isStillHeld = await fs.stat(held).then(
    () => true,
    () => false,
  );
  return isStillHeld ? refuse("ledger-corrupt") : overtaken();
}

function overtaken() {
  throw new Overtaken();
}

/** A path that is gone means that the folder was taken away. */
async function asOvertaken(work) {
  try {
    await work();
  } catch (error) {
    if (isMissing(error)) overtaken();
    refuse("ledger-unwritable");
  }
}

/** Drafts of a holder that was overtaken: it may still write to them, so they are never written over. */
async function removeDrafts(fs, held) {
  for (const name of await fs.readdir(held)) {
    if (name.startsWith("new-")) await fs.rm(`${held}/${name}`, { force: true });
  }
}

async function write(fs, path, state) {
  const file = await fs.open(path, "wx", 0o600);
  try {
    await file.writeFile(JSON.stringify(state));
    await file.sync();
  } finally {
    await file.close();
  }
}

/** A folder to be flushed, whatever its name becomes; null where the system opens no folders. */
const openFolder = (fs, path) => fs.open(path, "r").catch(() => null);

async function flush(fs, ...paths) {
  for (const path of paths) {
    const folder = await openFolder(fs, path);
    await folder?.sync().catch(() => undefined);
    await folder?.close();
  }
}
