/** The table of runs: state, rate, chosen figures with their curves, health. */

import { sparkline } from "./chart_svg.js";
import { button, el, plain, word } from "./dom.js";
import { count, number, seconds } from "./format.js";
import { address, change, state } from "./router.js";

const COLUMNS = 3; // figures shown where none are chosen

/** Return numbers of a comma list in the query. */
export function picked(text) {
  return (text ?? "")
    .split(",")
    .filter((part) => part !== "")
    .map(Number);
}

function matches(run, words) {
  const parts = [run.name, run.recipe, run.state, `seed ${run.seed}`, ...(run.environments ?? [])];
  const all = parts.join(" ").toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((part) => all.includes(part));
}

function columnsOf(runs, chosen) {
  if (chosen) return chosen.split(",");
  return [...new Set(runs.flatMap((run) => run.key ?? []))].slice(0, COLUMNS);
}

function stepCell(run) {
  const text = run.steps ? `${number(run.step)} / ${number(run.steps)}` : number(run.step);
  const cell = el("td", { class: "number" }, text);
  if (run.steps && run.step !== null) {
    cell.append(el("progress", { max: run.steps, value: run.step, "aria-label": "steps done" }));
  }
  return cell;
}

function rateCell(run) {
  const rate = run.plays_per_second ? `${number(run.plays_per_second, 3)} plays/s` : "–";
  const left =
    run.state === "training" && run.seconds_left ? `${seconds(run.seconds_left)} left` : null;
  return el("td", { class: "number rate" }, rate, left ? el("div", { class: "dim" }, left) : null);
}

function healthCell(run) {
  const cell = el("td", { class: "health" });
  for (const note of run.notes ?? []) cell.append(el("div", { class: "warn" }, word(note)));
  if (run.event) {
    const { step, message, stops } = run.event;
    const more = run.events > 1 ? ` (and ${run.events - 1} more)` : "";
    cell.append(
      el("div", { class: stops ? "bad" : "warn" }, `step ${step}: `, word(message), more),
    );
  } else if (!run.notes?.length) cell.append(el("span", { class: "dim" }, "no events"));
  return cell;
}

function metricCell(run, name, sparks) {
  const cell = el("td", { class: "metric" });
  const newest = run.newest?.[name];
  const values = sparks[run.run]?.[name];
  if (values) cell.append(sparkline(values, { label: name }));
  cell.append(el("span", { class: "value" }, newest ? number(newest.value, 3) : "–"));
  return cell;
}

function nameCell(run, to) {
  const seed = run.seed === null || run.seed === undefined ? "" : `seed ${run.seed}`;
  const under = [run.recipe, seed].filter(Boolean).join(", ");
  const link = el("a", { href: to("curves", { runs: run.run, run: run.run }) }, word(run.name));
  return el("th", { scope: "row" }, link, el("div", { class: "dim" }, word(under)));
}

function row(run, { columns, sparks, ticked }) {
  const to = (view, more) => address({ view, ...more });
  const check = el("input", {
    type: "checkbox",
    "aria-label": `compare ${plain(run.name)}`,
    "data-focus": `run-${run.run}`,
    on: { change: () => tick(run.run) },
  });
  check.checked = ticked.includes(run.run);
  const replays = el(
    "a",
    { href: to("replay", { run: run.run }) },
    count(run.episodes?.rows ?? 0, "play"),
  );
  return el(
    "tr",
    { "data-run": run.run },
    el("td", {}, check),
    nameCell(run, to),
    el("td", {}, el("span", { class: `state ${run.state}` }, run.state)),
    stepCell(run),
    rateCell(run),
    columns.map((name) => metricCell(run, name, sparks)),
    el("td", { class: "plays" }, replays),
    healthCell(run),
  );
}

function headOf(columns, choose) {
  const remove = (name) =>
    button("×", () => choose(columns.filter((one) => one !== name)), {
      title: `hide ${plain(name)}`,
      class: "small",
    });
  const titles = columns.map((name) =>
    el("th", { scope: "col" }, word(name), columns.length > 1 ? remove(name) : null),
  );
  const title = (text) => el("th", { scope: "col" }, text);
  return el(
    "tr",
    {},
    el("th", { scope: "col" }, el("span", { class: "unseen" }, "compare")),
    ["Run", "State", "Step", "Rate"].map(title),
    titles,
    ["Replays", "Health"].map(title),
  );
}

function chooser(known, columns, choose) {
  const list = el(
    "datalist",
    { id: "figures" },
    known.map((name) => el("option", { value: name })),
  );
  const box = el("input", {
    list: "figures",
    placeholder: "add a figure …",
    "aria-label": "add a figure to the table",
  });
  box.addEventListener("change", () => {
    if (known.includes(box.value)) choose([...new Set([...columns, box.value])]);
  });
  return [box, list];
}

function tableOf(shown, options, choose) {
  const rows = shown.map((run) => row(run, options));
  const head = el("thead", {}, headOf(options.columns, choose));
  return el("table", { class: "runs" }, head, el("tbody", {}, rows));
}

function emptyOf(runs) {
  const text = runs
    ? "No run matches the filter."
    : "No runs here. Start one: sparring train kuhn-tiny";
  return el("p", { class: "missing" }, text);
}

function tick(run) {
  const now = picked(state().runs);
  const next = now.includes(run) ? now.filter((one) => one !== run) : [...now, run];
  change({ runs: next.join(",") }, true);
}

const choose = (names) => change({ cols: names.join(",") }, true);

class Runs {
  constructor(root, { get, setKeys }) {
    this.get = get;
    this.runs = [];
    this.sparks = {};
    this.asked = null;
    this.tools = el("div", { class: "tools" });
    this.total = el("span", { role: "status", class: "dim" });
    this.compare = el("a", { class: "action" }, "");
    this.body = el("div", { class: "scroll" });
    const named = { placeholder: "filter runs …", "aria-label": "filter runs" };
    this.filter = el("input", { type: "search", ...named });
    this.filter.addEventListener("input", () => change({ q: this.filter.value }, true));
    root.replaceChildren(el("h1", {}, "Runs"), this.tools, this.body);
    setKeys([
      ["/", "filter", () => this.filter.focus()],
      ["c", "compare ticked runs", () => this.compare.click()],
    ]);
  }

  async show(now) {
    if (this.asked === null) {
      await this.load();
      return;
    }
    this.paint(now);
    if (columnsOf(this.runs, now.cols).join(",") !== this.asked) await this.loadSparks(now);
  }

  changed({ runs }) {
    return this.load(runs?.length ? runs : null);
  }

  async load(only = null) {
    this.runs = (await this.get("/api/runs")).runs;
    this.paint(state());
    await this.loadSparks(state(), only);
  }

  async loadSparks(now, only = null) {
    this.asked = columnsOf(this.runs, now.cols).join(",");
    if (!this.asked) return;
    const answer = await this.get("/api/sparks", { names: this.asked, runs: only?.join(",") });
    Object.assign(this.sparks, answer.runs);
    this.paint(state());
  }

  paint(now) {
    const focused = document.activeElement?.dataset?.focus;
    const ticked = picked(now.runs);
    const shown = this.runs.filter((run) => matches(run, now.q ?? ""));
    const columns = columnsOf(this.runs, now.cols);
    const table = tableOf(shown, { columns, sparks: this.sparks, ticked }, choose);
    this.body.replaceChildren(shown.length ? table : emptyOf(this.runs.length));
    this.paintTools(now, { shown, ticked, columns });
    if (focused) this.body.querySelector(`[data-focus="${focused}"]`)?.focus();
  }

  paintTools(now, { shown, ticked, columns }) {
    const of = shown.length < this.runs.length ? ` of ${this.runs.length}` : "";
    this.total.textContent = count(shown.length, "run") + of;
    const which = ticked.length ? ticked : shown.slice(0, 6).map((run) => run.run);
    this.compare.textContent = ticked.length > 1 ? `Compare ${ticked.length} runs` : "Curves";
    this.compare.href = address({ view: "curves", runs: which.join(",") });
    if (!this.tools.contains(document.activeElement)) {
      const known = [...new Set(this.runs.flatMap((run) => Object.keys(run.newest ?? {})))].sort();
      const add = chooser(known, columns, choose);
      this.tools.replaceChildren(this.filter, ...add, this.compare, this.total);
    }
    if (document.activeElement !== this.filter) this.filter.value = now.q ?? "";
  }
}

/** Open the view. */
export function open(root, context) {
  return new Runs(root, context);
}
