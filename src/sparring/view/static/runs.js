/** The table of runs: state, rate, chosen figures with their curves, health. */

import { button, el, passage, plain, svg, word } from "./dom.js";
import { count, date, number, seconds } from "./format.js";
import { better, meaning } from "./metric_names.js";
import { address, change, state } from "./router.js";
import { noRuns } from "./run_choice.js";

const COLUMNS = 3; // number of figures shown if none are chosen
// values by which a column sorts; any other column is a figure and sorts by its newest value
const SORTS = {
  run: (run) => run.name,
  state: (run) => run.state,
  step: (run) => run.step,
  rate: (run) => run.plays_per_second,
  started: (run) => run.started && Date.parse(run.started),
  duration: (run) => run.seconds,
  plays: (run) => run.episodes?.rows,
  health: (run) => run.events,
};

// explanations of columns, shown over their titles
const TITLES = {
  rate: "episodes per second, median of the newest 20 steps",
  duration: "time of the steps and their evaluations, without pauses between starts",
  plays: "stored episodes: store.every says of which steps",
  health: "warnings of health rules; 0 is best",
};

/** Return the numbers of a comma-separated list in the query. */
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

function columnsOf(runs, names) {
  if (names) return names.split(",");
  return [...new Set(runs.flatMap((run) => run.key ?? []))].slice(0, COLUMNS);
}

/** Return runs in the order of a column; runs without a value come last. */
function sorted(runs, { sort, order }) {
  if (!sort) return runs;
  const key = Object.hasOwn(SORTS, sort) ? SORTS[sort] : (run) => run.newest?.[sort]?.value;
  const isMissing = (value) => value === null || value === undefined || Number.isNaN(value);
  const sign = order === "asc" ? 1 : -1;
  return runs.toSorted((left, right) => {
    const [first, second] = [key(left), key(right)];
    if (isMissing(first) || isMissing(second)) return isMissing(first) - isMissing(second);
    if (first === second) return 0;
    return first < second ? -sign : sign;
  });
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
  const rate = run.plays_per_second ? number(run.plays_per_second, 3) : "–";
  const remaining =
    run.state === "training" && run.seconds_left ? `${seconds(run.seconds_left)} left` : null;
  const timeLeft = remaining ? el("div", { class: "dim" }, remaining) : null;
  return el("td", { class: "number rate" }, rate, timeLeft);
}

/** Return a badge with the number of warnings; a click shows the newest one below the row. */
function healthCell(run, { opened, toggle }) {
  const { events = 0, event, notes = [] } = run;
  if (!events && !notes.length) return el("td", {}, el("span", { class: "dim" }, "no events"));
  const parts = [
    events ? count(events, "warning") : null,
    notes.length ? count(notes.length, "note") : null,
  ];
  const text = (event?.stops ? "stopped: " : "") + parts.filter(Boolean).join(", ");
  const badge = button(text, () => toggle(run.run), {
    class: `tag ${event?.stops ? "bad" : "warn"}`,
    title: plain([event?.message, ...notes].filter(Boolean).join(" · "), 400),
    "aria-expanded": String(opened.has(run.run)),
    "data-focus": `health-${run.run}`,
  });
  return el("td", {}, badge);
}

/** Return the row with a run's newest warning and its notes. */
function healthRow(run, width) {
  const { event, events, notes = [] } = run;
  const curves = address({ view: "curves", runs: run.run, run: run.run });
  const healthText = event && [
    passage(`step ${event.step}: ${event.message}`, event.stops ? "bad" : "warn"),
    events > 1 ? el("a", { href: curves }, `all ${events} stand below the curves`) : null,
  ];
  const lines = notes.map((note) => el("p", { class: "warn" }, word(note)));
  const cell = el("td", { colspan: width }, healthText, lines);
  return el("tr", { class: "health-said" }, cell);
}

/** Return the link to a run's episodes, with the number of those that are indexed so far. */
function playsCell(run) {
  const { rows = 0, indexing } = run.episodes ?? {};
  const plays = count(rows, "episode");
  const text = {
    now: rows ? `${plays}, indexing…` : "indexing…",
    later: rows ? `${plays} so far` : "not indexed yet",
  };
  const title = indexing === "later" ? "newer episodes are indexed while Replays is open" : null;
  const href = address({ view: "replay", run: run.run });
  return el("td", { class: "plays" }, el("a", { href, title }, text[indexing] ?? plays));
}

/** Return a small curve for a cell, described by its first and last value. */
function sparkline(values, label) {
  const [width, height] = [84, 20];
  const numbers = values.filter((value) => value !== null && value !== undefined);
  const last = numbers.at(-1);
  const range = numbers.length ? `from ${number(numbers[0])} to ${number(last)}` : "no values";
  const attributes = { role: "img", "aria-label": `${label} ${range}` };
  const size = { viewBox: `0 0 ${width} ${height}`, width, height };
  const root = svg("svg", { ...size, ...attributes, class: "spark" });
  if (numbers.length < 2) return root;
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const share = (value) => (high > low ? (value - low) / (high - low) : 0.5);
  const atX = (index) => 2 + (index / (numbers.length - 1)) * (width - 6);
  const atY = (value) => height - 3 - share(value) * (height - 6);
  const points = numbers.map((value, index) => `${atX(index).toFixed(1)} ${atY(value).toFixed(1)}`);
  root.append(
    svg("path", { d: `M${points.join("L")}`, class: "spark-line" }),
    svg("circle", { cx: atX(numbers.length - 1), cy: atY(last), r: 2, class: "spark-end" }),
  );
  return root;
}

function metricCell(run, name, sparks) {
  const cell = el("td", { class: "metric" });
  const newest = run.newest?.[name];
  const values = sparks[run.run]?.[name];
  if (values) cell.append(sparkline(values, name));
  cell.append(el("span", { class: "value" }, newest ? number(newest.value, 3) : "–"));
  return cell;
}

function nameCell(run, to) {
  const seed = run.seed === null || run.seed === undefined ? "" : `seed ${run.seed}`;
  const details = [run.recipe, seed].filter(Boolean).join(", ");
  const link = el("a", { href: to("curves", { runs: run.run, run: run.run }) }, word(run.name));
  return el("th", { scope: "row" }, link, el("div", { class: "dim" }, word(details)));
}

function row(run, options) {
  const { columns, sparks, ticked } = options;
  const to = (view, more) => address({ view, ...more });
  const check = el("input", {
    type: "checkbox",
    "aria-label": `compare ${plain(run.name)}`,
    "data-focus": `run-${run.run}`,
    on: { change: () => tick(run.run) },
  });
  check.checked = ticked.includes(run.run);
  return el(
    "tr",
    { "data-run": run.run },
    el("td", {}, check),
    nameCell(run, to),
    el("td", {}, el("span", { class: `state ${run.state}` }, run.state)),
    stepCell(run),
    rateCell(run),
    columns.map((name) => metricCell(run, name, sparks)),
    el("td", { class: "started", title: plain(run.started ?? "") || null }, date(run.started)),
    el("td", { class: "number rate" }, seconds(run.seconds)),
    playsCell(run),
    healthCell(run, options),
  );
}

function headOf(columns, choose) {
  const { sort, order } = state();
  const remove = (name) =>
    button("×", () => choose(columns.filter((other) => other !== name)), {
      title: `hide ${plain(name)}`,
      class: "small",
    });
  const sorter = (label, name) => {
    const on = sort === name;
    const up = order === "asc";
    const turn = () => change({ sort: name, order: on && !up ? "asc" : "" }, true);
    return button([label, on ? (up ? " ▲" : " ▼") : ""], turn, { class: "plain" });
  };
  const aria = (name) => (sort === name ? (order === "asc" ? "ascending" : "descending") : null);
  const title = (text, name = text.toLowerCase()) =>
    el("th", { scope: "col", "aria-sort": aria(name), title: TITLES[name] }, sorter(text, name));
  const figures = columns.map((name) =>
    el(
      "th",
      { scope: "col", "aria-sort": aria(name), title: plain(meaning(name) ?? "", 200) || null },
      sorter(word(name), name),
      el(
        "div",
        { class: "dim" },
        better(name) && `${better(name)} is better `,
        columns.length > 1 ? remove(name) : null,
      ),
    ),
  );
  return el(
    "tr",
    {},
    el("th", { scope: "col" }, el("span", { class: "unseen" }, "compare")),
    ["Run", "State", "Step"].map((text) => title(text)),
    title("Episodes/s", "rate"),
    figures,
    ["Started", "Duration"].map((text) => title(text)),
    title("Replays", "plays"),
    title("Health"),
  );
}

function chooser(names, columns, choose) {
  const list = el(
    "datalist",
    { id: "figures" },
    names.map((name) => el("option", { value: name })),
  );
  const box = el("input", {
    list: "figures",
    placeholder: "add a figure …",
    "aria-label": "add a figure to the table",
  });
  box.addEventListener("change", () => {
    if (names.includes(box.value)) choose([...new Set([...columns, box.value])]);
  });
  return [box, list];
}

function tableOf(visible, options, choose) {
  const width = 9 + options.columns.length;
  const rows = visible.map((run) => [
    row(run, options),
    options.opened.has(run.run) ? healthRow(run, width) : null,
  ]);
  const head = el("thead", {}, headOf(options.columns, choose));
  return el("table", { class: "runs" }, head, el("tbody", {}, rows.flat()));
}

const HELP =
  "A name opens the page of a run, its number of episodes the replays. A title sorts the table. " +
  "Tick runs to compare them.";

function emptyOf(runs) {
  if (runs) return el("p", { class: "missing" }, "No run matches the filter: empty it to see all.");
  return noRuns();
}

function tick(run) {
  const now = picked(state().runs);
  const next = now.includes(run) ? now.filter((other) => other !== run) : [...now, run];
  change({ runs: next.join(",") }, true);
}

const choose = (names) => change({ cols: names.join(",") }, true);

class Runs {
  constructor(root, { get, setKeys }) {
    this.get = get;
    this.runs = [];
    this.sparks = {};
    this.sparkNames = null;
    this.opened = new Set(); // runs whose warnings are shown
    this.tools = el("div", { class: "tools" });
    this.total = el("span", { role: "status", class: "dim" });
    this.compare = el("a", { class: "action" }, "");
    this.body = el("div", { class: "scroll" });
    this.help = el("p", { class: "dim" });
    const attributes = { placeholder: "filter runs …", "aria-label": "filter runs" };
    this.filter = el("input", { type: "search", ...attributes });
    this.filter.addEventListener("input", () => change({ q: this.filter.value }, true));
    root.replaceChildren(el("h1", {}, "Runs"), this.tools, this.body, this.help);
    setKeys([
      ["/", "filter", () => this.filter.focus()],
      ["c", "compare ticked runs", () => this.compare.click()],
    ]);
  }

  async show(now) {
    if (this.sparkNames === null) {
      await this.load();
      return;
    }
    this.paint(now);
    if (columnsOf(this.runs, now.cols).join(",") !== this.sparkNames) await this.loadSparks(now);
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
    this.sparkNames = columnsOf(this.runs, now.cols).join(",");
    if (!this.sparkNames) return;
    const answer = await this.get("/api/sparks", { names: this.sparkNames, runs: only?.join(",") });
    Object.assign(this.sparks, answer.runs);
    this.paint(state());
  }

  paint(now) {
    const focused = document.activeElement?.dataset?.focus;
    const ticked = picked(now.runs);
    const visible = sorted(
      this.runs.filter((run) => matches(run, now.q ?? "")),
      now,
    );
    const columns = columnsOf(this.runs, now.cols);
    const { sparks, opened } = this;
    const toggle = (run) => {
      if (!opened.delete(run)) opened.add(run);
      this.paint(state());
    };
    const table = tableOf(visible, { columns, sparks, ticked, opened, toggle }, choose);
    this.body.replaceChildren(visible.length ? table : emptyOf(this.runs.length));
    this.help.textContent = visible.length ? HELP : "";
    this.paintTools(now, { shown: visible, ticked, columns });
    if (focused) this.body.querySelector(`[data-focus="${focused}"]`)?.focus();
  }

  paintTools(now, { shown: visible, ticked, columns }) {
    const of = visible.length < this.runs.length ? ` of ${this.runs.length}` : "";
    this.total.textContent = count(visible.length, "run") + of;
    const compared = ticked.length ? ticked : visible.slice(0, 6).map((run) => run.run);
    this.compare.textContent = ticked.length > 1 ? `Compare ${ticked.length} runs` : "Curves";
    this.compare.href = address({ view: "curves", runs: compared.join(",") });
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
