import { get, sendReports, token, Trouble } from "../api.js";
import { figure, intervalMarks } from "../charts.js";
import { h, nameNode, put, say, shortened, shown } from "../dom.js";
import { Found } from "../found.js";
import { count, percent } from "../format.js";
import {
  BrowserLedger,
  Device,
  makeReport,
  randomBytes,
  readDescription,
  readRecord,
  readReport,
  Refused,
  SENTENCES,
  toFrames,
  toHex,
} from "../keyveil.js";

const SYMBOLS = { 0: ["\u00b7", "nothing"], 1: ["+", "high"], 2: ["\u2212", "low"] };
const CROWD = 50;
const MOST_KEYS = 40;

/** The visitor is a device: truth, noise and what is sent, side by side; the chart moves. */
export async function draw({ content, params: { id }, signal }) {
  const campaign = id ?? (await openCampaign(signal));
  content.append(
    h("h1", { tabindex: -1 }, "Take part, under glass"),
    h(
      "p",
      { class: "lead" },
      "You are a device. What you enter stays in this browser; what leaves it is noise with a little truth " +
        "inside. See both.",
    ),
  );
  if (!campaign) {
    content.append(
      h(
        "section",
        { class: "empty" },
        h("h2", {}, "No campaign to take part in"),
        h(
          "p",
          {},
          token.get()
            ? "No campaign here is open to everybody. "
            : "Without a token this page cannot look for one. Ask for the address of a campaign that is open " +
                "to everybody, or enter a token. ",
          "Create one on the ",
          h("a", { href: "#/plan" }, "plan page"),
          " (who may send: everybody), or run ",
          h("code", {}, "keyveil demo"),
          ".",
        ),
      ),
    );
    return;
  }
  if (!globalThis.crypto?.subtle) {
    content.append(
      h(
        "section",
        { class: "trouble", role: "alert" },
        h("h2", {}, "This address is not safe enough"),
        h(
          "p",
          {},
          "Browsers noise only on https pages and on this machine itself (localhost). Open the page that way.",
        ),
      ),
    );
    return;
  }
  const [view, about] = await Promise.all([
    get(`/v1/campaigns/${campaign}`, { signal }),
    get(`/v1/campaigns/${campaign}/about`, { signal }),
  ]);
  if (view.state !== "open" || !view.round || view.uploads !== "open") {
    content.append(
      h(
        "section",
        { class: "empty" },
        h("h2", {}, "This campaign takes no reports from here"),
        h("p", {}, view.state === "open" ? "It takes reports from devices with a token only." : `It is ${view.state}.`),
      ),
    );
    return;
  }
  const said = JSON.parse(view.campaign);
  // What the visitor chooses to be; the device looks when it answers.
  const segments = {};
  let round;
  let device;
  try {
    const description = { ...view.round, campaign: view.campaign };
    round = await readDescription(description);
    const ledger = new BrowserLedger("keyveil-glass");
    device = await Device.open(description, { url: location.origin, ledger, segments });
    if (device.price > round.campaign.epsilon) throw new Refused("over-promise");
  } catch (error) {
    content.append(
      h(
        "section",
        { class: "trouble", role: "alert" },
        h("h2", {}, "Your device refuses this campaign"),
        h("p", {}, error instanceof Refused ? error.message : String(error)),
        h("p", {}, "That is how it should be: a device checks what it is asked before it looks at your data."),
      ),
    );
    return;
  }
  content.append(
    new Glass({ campaign, said, round, device, segments, signal, isDemo: about.is_demo && Boolean(token.get()) }).node,
  );
}

async function openCampaign(signal) {
  if (!token.get()) return null;
  const { campaigns } = await get("/v1/campaigns", { signal });
  for (const one of campaigns
    .filter(({ state }) => state === "open")
    .reverse()
    .slice(0, 20)) {
    if ((await get(`/v1/campaigns/${one.id}/about`, { signal })).uploads === "open") return one.id;
  }
  return null;
}

class Glass {
  constructor({ campaign, said, round, device, segments, signal, isDemo }) {
    this.campaign = campaign;
    this.said = said;
    this.round = round;
    this.device = device;
    this.segments = segments;
    this.signal = signal;
    this.names = round.campaign.names;
    const [low, high] = said.value_range;
    const names = this.names.slice(0, MOST_KEYS);
    this.inputs = names.map((name, at) =>
      h("input", {
        type: "number",
        id: `held-${at}`,
        min: low,
        max: high,
        step: "any",
        placeholder: "\u2013",
        "aria-label": `Your value for ${shown(name)}`,
      }),
    );
    this.agree = h("input", { type: "checkbox", id: "agree", disabled: true });
    this.send = h("button", { type: "submit", class: "primary", disabled: true }, "Noise it and send");
    this.crowd = h("button", { type: "button" }, `Let ${CROWD} made-up people answer too`);
    this.out = h("div", { "aria-live": "polite" });
    this.budget = h("p", { class: "muted" });
    this.chart = h("div", { class: "glass-chart" });
    this.stop = h("button", { type: "button" }, "Stop taking part");
    this.stopped = h("p", { role: "status" });
    this.agree.addEventListener("change", () => this.decide(this.agree.checked));
    this.stop.addEventListener("click", () => this.decide(false));
    this.crowd.addEventListener("click", () => this.sendCrowd());
    this.node = h(
      "div",
      {},
      h(
        "p",
        {},
        "The question: ",
        h("strong", {}, nameNode(said.name)),
        ". ",
        said.purpose && ["Asked by ", nameNode(said.owner), " to ", nameNode(said.purpose), ". "],
        `Epsilon ${said.epsilon}.`,
      ),
      h(
        "div",
        { class: "glass-grid" },
        h(
          "form",
          {
            class: "card",
            onsubmit: (event) => {
              event.preventDefault();
              this.report();
            },
          },
          h("h2", {}, "1. What you hold"),
          h(
            "p",
            { class: "muted" },
            `Fill in what is true, from ${low} to ${high}; leave the rest empty. Up to ${said.pairs_per_user} count.`,
          ),
          h(
            "div",
            { class: "held" },
            names.map((name, at) => h("p", {}, h("label", { for: `held-${at}` }, nameNode(name)), this.inputs[at])),
          ),
          this.names.length > MOST_KEYS &&
            h(
              "p",
              { class: "muted" },
              `${count(this.names.length - MOST_KEYS)} more keys are asked about; yours are empty there.`,
            ),
          this.labels(),
          h(
            "p",
            { class: "agree" },
            this.agree,
            h(
              "label",
              { for: "agree" },
              "I agree that one noised report is sent, once",
              this.round.labels.length > 0 && ", with what is chosen above, which is not noised",
            ),
          ),
          h("p", { class: "buttons" }, this.send),
          this.budget,
        ),
        h("section", { class: "card" }, h("h2", {}, "2. What is sent"), this.out),
      ),
      h(
        "section",
        { class: "card" },
        h("h2", {}, "3. What everybody's reports say together"),
        this.chart,
        isDemo && h("p", { class: "buttons" }, this.crowd),
      ),
      this.leaving(),
    );
    put(
      this.out,
      h(
        "p",
        { class: "muted" },
        "Nothing yet. Once you have agreed and sent, the truth and all that left this browser stand here, " +
          "side by side.",
      ),
    );
    this.start();
  }

  async start() {
    const status = await this.device.status();
    this.agree.disabled = false;
    this.show(status.consent === "given");
    await this.showBudget();
    await this.showChart();
  }

  /** The person says yes or no; a no wipes what waits and what is kept. */
  async decide(yes) {
    const done = await (yes ? this.device.enable() : this.device.disable());
    this.show(yes && done.ok);
    const words = yes
      ? ""
      : "You have stopped. Nothing waits to be sent, no answer is kept here, and nothing more is made until you " +
        "agree again.";
    put(this.stopped, done.ok ? words : done.reason);
    await this.showBudget();
  }

  show(hasAgreed) {
    this.agree.checked = hasAgreed;
    this.send.disabled = this.stop.disabled = !hasAgreed;
  }

  /** How to stop, what that does, and what it cannot do. */
  leaving() {
    const { owner, expires } = this.said;
    return h(
      "section",
      { class: "card" },
      h("h2", {}, "If you change your mind"),
      h(
        "ul",
        {},
        h(
          "li",
          {},
          "Stopping works at once and needs no network: what waits is not sent, the answer that is kept here is " +
            "wiped, and this browser answers no campaign until you agree again.",
        ),
        h(
          "li",
          {},
          "A report that was sent cannot be recalled: it has no name on it, and no sum is undone. " +
            "A collector that writes down addresses can know that it came from here, unless a relay carried it. " +
            `Even then it stays as unsure as it was (epsilon ${this.said.epsilon}), whatever is done with it.`,
        ),
        h("li", {}, "What was spent of this browser's budget stays spent: stopping and starting tells no more."),
        h(
          "li",
          {},
          owner ? ["Questions go to ", nameNode(owner), ", who asks. "] : "The campaign names nobody to ask. ",
          expires && `It ends by itself: ${expires}.`,
        ),
      ),
      h("p", { class: "buttons" }, this.stop),
      this.stopped,
    );
  }

  /** What is said in the clear: a choice an attribute. */
  labels() {
    if (this.round.labels.length === 0) return null;
    const choices = this.round.campaign.segments.attributes.map(({ name, values }, at) => {
      const options = ["other", ...values].map((value) => h("option", { value }, nameNode(value)));
      const select = h("select", { id: `segment-${at}` }, options);
      select.addEventListener("change", () => (this.segments[name] = select.value));
      return h("p", {}, h("label", { for: `segment-${at}` }, nameNode(name)), select);
    });
    return h(
      "fieldset",
      { class: "held" },
      h("legend", {}, "Told in the clear"),
      h(
        "p",
        { class: "muted" },
        "Your report says this beside the answer, without noise. It is not private: whoever reads the report knows it.",
      ),
      choices,
    );
  }

  held() {
    return Object.fromEntries(
      this.inputs
        .map((input, at) => [this.names[at], input.value])
        .filter(([, value]) => value !== "")
        .map(([name, value]) => [name, Number(value)]),
    );
  }

  async report() {
    const held = this.held();
    const before = await this.device.status();
    const made = await this.device.submit(held);
    if (!made.ok) {
      put(this.out, refusal(made));
      await this.showBudget();
      return;
    }
    const sent = await this.device.upload();
    // The answer is kept: asked again, the device hands out the same bytes.
    const { bytes } = await this.device.report(held);
    const explained = await this.device.explain(held);
    put(
      this.out,
      this.sideBySide(held, bytes),
      explained.text
        .split("\n")
        .filter((line, at, all) => at >= all.length - 2 || line.includes("in the clear"))
        .map((line) => h("p", {}, line)),
      h(
        "p",
        { class: "muted" },
        before.answers
          ? "You answered this round before, so these are the bytes that you sent then, whatever you hold " +
              "now: nothing was read, and it cost nothing."
          : `It cost epsilon ${this.device.price.toPrecision(4)}. Asked again, your device repeats these bytes.`,
      ),
      sent.ok && !sent.refused.length
        ? h("p", { role: "status" }, "The collector has it.")
        : refusal(sent.ok ? sent.refused.at(-1) : sent),
    );
    say("Your report was made; truth and what is sent are shown side by side");
    await this.showBudget();
    await this.showChart();
  }

  /** Truth beside the report, key by key where reports speak of every key. */
  sideBySide(held, report) {
    const { payload } = readReport(report);
    const { layout } = this.round.mechanism;
    const answer = layout.decode(payload.subarray(0, layout.nBytes));
    const bits = h(
      "p",
      { class: "bits" },
      h("span", { class: "muted" }, `All that leaves, ${report.length} bytes: `),
      h(
        "code",
        {},
        toHex(report)
          .replace(/(.{8})/g, "$1 ")
          .trim(),
      ),
    );
    const isTrits = this.round.mechanism.integers.shape === "signed-unary" && !this.round.asked;
    if (!isTrits) {
      return h(
        "div",
        {},
        h(
          "table",
          {},
          h(
            "thead",
            {},
            h("tr", {}, h("th", { scope: "col" }, "The truth"), h("th", { scope: "col" }, "What was drawn")),
          ),
          h(
            "tbody",
            {},
            h(
              "tr",
              {},
              h(
                "td",
                {},
                Object.entries(held).map(([name, value]) => h("span", { class: "block" }, nameNode(name), ` ${value}`)),
                !Object.keys(held).length && "nothing",
              ),
              h("td", {}, h("code", {}, JSON.stringify([answer].flat()).slice(0, 400))),
            ),
          ),
        ),
        bits,
      );
    }
    const rows = this.names.slice(0, MOST_KEYS).map((name, at) => {
      const [symbol, words] = SYMBOLS[answer[at]];
      const truth = held[name];
      const [low, high] = this.said.value_range;
      const shouldSay = truth === undefined ? 0 : truth >= (low + high) / 2 ? 1 : 2;
      return h(
        "tr",
        {},
        h("th", { scope: "row" }, nameNode(name)),
        h("td", { class: "number" }, truth ?? h("span", { class: "muted" }, "not held")),
        h(
          "td",
          { class: "trit" },
          h("span", { class: `symbol s${answer[at]}`, "aria-hidden": "true" }, symbol),
          h("span", {}, words),
        ),
        h(
          "td",
          { class: "muted" },
          answer[at] === shouldSay ? "true" : shouldSay === 0 ? "noise" : answer[at] === 0 ? "hidden" : "turned",
        ),
      );
    });
    return h(
      "div",
      {},
      h(
        "div",
        { class: "scroll short", role: "region", "aria-label": "Truth and report", tabindex: 0 },
        h(
          "table",
          {},
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["Key", "Truth", "The report says", "By chance"].map((title, at) =>
                h("th", { scope: "col", class: at === 1 ? "number" : null }, title),
              ),
            ),
          ),
          h("tbody", {}, rows),
        ),
      ),
      bits,
    );
  }

  async showBudget() {
    const status = await this.device.status();
    put(
      this.budget,
      status.ok
        ? `This browser has spent epsilon ${status.spent.toPrecision(3)} of the ${status.promised} that this ` +
            `campaign promised, ${status.spentInAll.toPrecision(3)} of at most ${status.lifetimeCap} in all. ` +
            "No collector can raise that."
        : status.reason,
    );
  }

  /** In a demo: reports of people who do not exist, made by the same code; so that one visitor sees a chart move. */
  async sendCrowd() {
    this.crowd.disabled = true;
    try {
      const [low, high] = this.said.value_range;
      const reports = [];
      for (let person = 0; person < CROWD; person++) {
        const held = {};
        this.names.forEach((name, at) => {
          if (Math.random() < 0.8 / (at + 1)) held[name] = low + (high - low) * Math.random() ** (1 + (at % 3));
        });
        reports.push(
          await makeReport(
            this.round,
            readRecord(this.round, held),
            randomBytes(8 * this.round.mechanism.nWords),
            randomBytes(16),
          ),
        );
      }
      const isTaken = await sendReports(this.campaign, toFrames(reports));
      say(isTaken ? `${CROWD} made-up people answered` : "The collector refused");
      await this.showChart();
    } catch {
      put(this.chart, h("p", { class: "wrong" }, "The collector does not answer. Try again in a moment."));
    } finally {
      this.crowd.disabled = false;
    }
  }

  async showChart() {
    if (!token.get()) {
      put(
        this.chart,
        h(
          "p",
          { class: "muted" },
          "The chart is for those with an analyst's token: enter one above to see it move. Your report counts without.",
        ),
      );
      return;
    }
    try {
      const found = await Found.fetch(this.campaign, "none", this.signal);
      if (!found.users) {
        put(this.chart, h("p", { class: "muted" }, "No report yet: yours could be the first."));
        return;
      }
      const before = this.before;
      this.before = found;
      const codes = [...found.order.slice(0, 12)];
      const rows = codes.map((code) => ({
        code,
        low: 100 * found.low[code],
        high: 100 * found.high[code],
        middle: 100 * found.raw[code],
        said: `${percent(found.raw[code])}, 95 %: ${percent(found.low[code])} to ${percent(found.high[code])}`,
        was: before ? 100 * before.raw[code] : null,
      }));
      const label = (code) => shortened(found.names[code], 18);
      const drawn = await figure((Plot) => ({
        width: Math.max(300, this.chart.clientWidth),
        height: 58 + 24 * rows.length,
        marginTop: 6,
        marginBottom: 44,
        marginLeft: 130,
        marginRight: 16,
        y: { type: "point", domain: codes },
        x: {
          label: "% of people",
          domain: [
            Math.min(0, ...rows.map(({ low }) => Math.max(low, -60))),
            Math.max(...rows.map(({ high }) => Math.min(high, 160))),
          ],
          clamp: true,
        },
        ariaLabel: `Estimates from ${found.users} reports with 95 % intervals`,
        marks: [
          Plot.gridX({ stroke: "var(--line)", strokeOpacity: 1 }),
          Plot.axisX({ color: "var(--muted)", labelOffset: 38 }),
          Plot.axisY({ tickFormat: label, tickSize: 0, label: null, color: "var(--ink)" }),
          Plot.ruleX([0], { stroke: "var(--muted)" }),
          ...intervalMarks(Plot, rows, { y: "code", colour: "var(--blue)", bar: "var(--blue-bar)" }),
          before ? Plot.dot(rows, { y: "code", x: "was", r: 4, stroke: "var(--orange)" }) : null,
        ],
      }));
      put(
        this.chart,
        h(
          "p",
          {},
          h("strong", { class: "glass-count" }, count(found.users)),
          ` ${found.users === 1 ? "report" : "reports"} so far. `,
          before ? "Rings: before; dots: now." : "",
          " One report hardly moves it; that is what hides you. ",
          h("a", { href: `#/c/${this.campaign}/results` }, "All results"),
        ),
        drawn,
      );
    } catch (error) {
      if (this.signal.aborted) return;
      if (!(error instanceof Trouble)) throw error;
      put(this.chart, h("p", { class: "muted" }, `${error.title ?? "No chart"}. ${error.remedy ?? ""}`));
    }
  }
}

function refusal({ code, reason }) {
  const words = {
    "do-not-track": "Your browser asks not to be tracked, so nothing is sent. That is respected here as everywhere.",
    answered: "This browser answered the round, and wiped its answer when you withdrew. It answers no round twice.",
    waiting: "The collector does not answer now. The report waits in this browser and is sent later.",
  };
  return h("p", { class: "wrong", role: "alert" }, words[code] ?? reason ?? SENTENCES[code] ?? code);
}
