/** Campaigns and descriptions of their rounds, as a collector would send them; honest until a test changes them. */
import { Device, MemoryLedger } from "../../keyveil.js";
import { floatText } from "../../src/descriptions/campaign.js";

/** A campaign's canonical text. */
export function campaignText(fields = {}) {
  const said = {
    name: "apps",
    epsilon: 1,
    keys: ["maps", "mail", "chess"],
    value_range: [0, 60],
    pairs_per_user: 2,
    mechanism: "pckv-ue",
    other: false,
    owner: "",
    purpose: "",
    expires: "",
    ...fields,
  };
  const written = { ...said, epsilon: floatText(said.epsilon), value_range: `[${said.value_range.map(floatText)}]` };
  const parts = Object.keys(said)
    .sort()
    .map((name) => {
      const isNumber = name === "epsilon" || name === "value_range";
      return `${JSON.stringify(name)}:${isNumber ? written[name] : JSON.stringify(said[name])}`;
    });
  return `{${parts.join()}}`;
}

export const MECHANISM = { id: "pckv-ue", epsilon: "1", allocation: "optimal", pairs_per_user: 2 };

/** The description of a round; `campaign` are fields of the campaign. */
export function description({ campaign = {}, ...fields } = {}) {
  return {
    format: "keyveil-round/1",
    campaign: campaignText(campaign),
    number: 1,
    purpose: "collect",
    protocol: "one-round/1",
    group: ["0", "1"],
    keys: null,
    mechanism: MECHANISM,
    ...fields,
  };
}

/** An environment in which nobody asked not to be tracked. */
export const QUIET = { environment: {} };

/** A device whose person has agreed. */
export async function agreeing(one = description(), options = {}) {
  const device = await Device.open(one, { ledger: new MemoryLedger(), ...QUIET, ...options });
  await device.enable();
  return device;
}

/** A record that fails when it is looked at. */
export const UNREADABLE = new Proxy(
  {},
  {
    ownKeys() {
      throw new Error("the record was read");
    },
    get() {
      throw new Error("the record was read");
    },
  },
);

/** Milliseconds of work that a call takes, whatever else the machine does. */
async function worked(call) {
  const before = process.cpuUsage();
  await call();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/** The least that a call took of three: what it needs, without the machine's own work in between. */
export async function fastest(call) {
  const times = [];
  for (let attempt = 0; attempt < 3; attempt++) times.push(await worked(call));
  return Math.min(...times);
}

/** The state of a ledger. */
export const stateOf = (ledger) => ledger.update((state) => structuredClone(state));

/** The units that the answers to a campaign cost; without one, what was spent in all: a series as a whole. */
export function unitsIn({ answers, series }, campaign) {
  const waves = new Set(Object.values(series).flatMap((one) => Object.values(one.waves)));
  const counted = answers.filter((answer) =>
    campaign === undefined ? !waves.has(answer.campaign) : answer.campaign === campaign,
  );
  const booked = campaign === undefined ? Object.values(series) : [];
  return [...counted, ...booked].reduce((sum, { units }) => sum + BigInt(units), 0n);
}
