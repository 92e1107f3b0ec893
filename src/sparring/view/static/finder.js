/** The finder, which lists episodes by what happened in them. */

import { button, el, empty, plain, word } from "./dom.js";
import { count, number, signed } from "./format.js";
import { cells, columnsOf, header, MEANINGS } from "./finder_table.js";
import { address, go, state } from "./router.js";
import { noRuns } from "./run_choice.js";

const PAGE = 50;

/** The rows of the last list; J and K on the screen of an episode go through this list. */
export const lastResults = { rows: [] };

// rows: parameter, label, kind ("facet", a list of choices, or a placeholder), title
const FIELDS = [
  ["step", "step", "10-50", "a step of training, or a range"],
  ["seat", "seat", "facet", "the role of a seat"],
  ["player", "player", "facet", "who sits in the seat: a policy, a snapshot, a bot or a person"],
  ["outcome", "outcome", ["win", "draw", "loss"], "return of the seat: above 0, 0 or below 0"],
];
const MORE_FIELDS = [
  ["of", "played by", "facet", "episodes of training, or those of people against a run"],
  ["game", "environment", "facet"],
  [
    "illegal",
    "illegal reply",
    [
      ["1", "yes"],
      ["0", "none"],
    ],
  ],
  ["turns", "turns", "5-9", "number of turns of all seats"],
  ["advantage", "largest |advantage|", "0.5-", MEANINGS.advantage],
  ["regret", "largest loss", "0.1-", MEANINGS.regret],
  ["wrong", "advantage against the oracle", [["1", "yes"]], MEANINGS.wrong],
  ["forfeited", "forfeited", [["1", "yes"]], "ended by an illegal reply"],
  ["group", "group", "number", "episodes of one initial state have one number"],
];
const PRESETS = [
  ["newest", {}],
  ["illegal replies", { illegal: "1" }],
  ["largest advantage", { sort: "advantage" }],
  ["largest loss by the oracle", { sort: "regret" }],
  ["advantage against the oracle", { wrong: "1", sort: "regret" }],
  ["least likely replies", { sort: "logprob", order: "asc" }],
  ["most turns", { sort: "turns" }],
];

/** Return the finder's parameters in the query: their names begin with "f.". */
function filters(now) {
  const entries = Object.entries(now).filter(([key]) => key.startsWith("f."));
  return Object.fromEntries(entries.map(([key, value]) => [key.slice(2), value]));
}

function withFilters(now, values) {
  const otherEntries = Object.entries(now).filter(([key]) => !key.startsWith("f."));
  const newEntries = Object.entries(values).map(([key, value]) => [`f.${key}`, value]);
  return { ...Object.fromEntries([...otherEntries, ...newEntries]), view: "replay" };
}

function choices(kind, facets, name) {
  const pairOf = (option) => (Array.isArray(option) ? option : [option, option]);
  if (Array.isArray(kind)) return kind.map(pairOf);
  return (facets?.[name] ?? []).map(([value, times]) => [
    String(value),
    `${value} (${number(times)})`,
  ]);
}

function field([name, label, kind, title], values, facets, set) {
  const value = values[name] ?? "";
  if (kind === "facet" || Array.isArray(kind)) {
    const all = choices(kind, facets, name);
    if (value && !all.some(([option]) => option === value)) all.push([value, value]);
    const options = [["", "any"], ...all].map(([option, text]) =>
      el("option", { value: option, selected: option === value }, plain(text, 40)),
    );
    return el(
      "label",
      { title },
      `${label} `,
      el(
        "select",
        { "data-field": name, on: { change: (e) => set({ [name]: e.target.value }) } },
        options,
      ),
    );
  }
  const input = el("input", {
    value,
    placeholder: kind,
    size: 7,
    "data-field": name,
    on: { change: (e) => set({ [name]: e.target.value.trim() }) },
  });
  return el("label", { title }, `${label} `, input);
}

function pages(answer, set) {
  const { offset, total } = answer;
  const upTo = offset + answer.rows.length;
  const back = button("← before", () => set({ offset: Math.max(0, offset - PAGE) || "" }, true), {
    disabled: offset === 0,
  });
  const next = button("next →", () => set({ offset: upTo }, true), { disabled: upTo >= total });
  const text = total
    ? `${number(offset + 1)}–${number(upTo)} of ${count(total, "episode")}`
    : "no episode";
  return el(
    "div",
    { class: "tools" },
    back,
    el("span", { role: "status", class: "found-count" }, text),
    next,
  );
}

function remarks(answer) {
  const { indexed, searched, left_out: skipped } = answer;
  const lines = [];
  if (indexed && indexed.parts < indexed.of)
    lines.push(`indexed ${indexed.parts} of ${indexed.of} files so far; more episodes follow`);
  if (searched && searched.parts < searched.of)
    lines.push(
      `the search ran out of time after ${searched.parts} of ${searched.of} files, newest first`,
    );
  for (const { part, why } of (skipped ?? []).slice(0, 5)) lines.push(`left out: ${part}: ${why}`);
  if (skipped?.length > 5) lines.push(`and ${skipped.length - 5} more files were left out`);
  return lines.map((line) => el("p", { class: "note warn" }, word(line)));
}

function runChoice(runs, now) {
  const options = [["", "all runs"], ...runs.map((run) => [String(run.run), run.name])];
  const pick = (event) => go({ ...state(), run: event.target.value, "f.offset": "" });
  const select = el("select", { on: { change: pick } });
  for (const [value, name] of options) {
    const selected = value === (now.run ?? "");
    select.append(el("option", { value, selected }, plain(name, 40)));
  }
  return el("label", {}, "run ", select);
}

function presets(now) {
  const current = address(withFilters(now, filters(now)));
  const links = PRESETS.map(([label, preset]) => {
    const href = address(withFilters(now, preset));
    const isCurrent = href === current ? "true" : null;
    return el("a", { href, class: "pick", "aria-current": isCurrent }, label);
  });
  return el("div", { class: "presets" }, links);
}

/** Change filters, and go to the first page unless `keepOffset` is true. */
function set(values, keepOffset = false) {
  const now = state();
  const newFilters = { ...filters(now), ...values };
  if (!keepOffset) delete newFilters.offset;
  go(withFilters(now, newFilters));
}

function linkOf(now, row) {
  const { turn, seat, ...rest } = now;
  const { run, step, episode } = row;
  return address({ ...rest, view: "replay", run, people: row.people ? 1 : "", step, episode });
}

class Finder {
  constructor(root, { get, setKeys }) {
    this.get = get;
    this.runs = null;
    const label = "words in prompts and replies";
    const words = { placeholder: `${label} …`, "aria-label": label, class: "wide" };
    this.text = el("input", { type: "search", ...words });
    this.text.addEventListener("change", () => set({ text: this.text.value.trim() }));
    this.first = el("div", { class: "tools" });
    this.form = el("div", { class: "tools fields" });
    this.rest = el("div", { class: "tools fields" });
    this.summary = el("summary", {}, "More filters");
    this.filters = el("details", { class: "filters" }, this.summary, this.rest);
    this.body = el("div", {});
    root.replaceChildren(el("h1", {}, "Replays"), this.first, this.form, this.body);
    setKeys([
      ["/", "search words", () => this.text.focus()],
      ["j", "first episode of the list", () => this.body.querySelector("tbody a")?.click()],
    ]);
  }

  async show(now) {
    this.runs ??= (await this.get("/api/runs")).runs;
    const params = { order: "desc", ...filters(now), run: now.run, limit: PAGE };
    let answer;
    try {
      answer = await this.get("/api/episodes", params);
    } catch (error) {
      if (error.status !== 400) throw error;
      this.paintForm(now, {});
      const message = el("p", { class: "note bad", role: "alert" }, word(error.message));
      this.body.replaceChildren(message);
      return;
    }
    lastResults.rows = answer.rows;
    this.paintForm(now, answer);
    this.paint(now, answer);
  }

  /** Show new episodes, only on the first page of the list. */
  async changed() {
    if (filters(state()).offset) return;
    this.runs = null;
    await this.show(state());
  }

  paintForm(now, answer) {
    const values = filters(now);
    const { activeElement: active } = document;
    if (this.form.contains(active) && active.tagName === "SELECT" && answer.facets) {
      if (this.formAddress === address(now)) return; // a new form would close an open list
    }
    this.formAddress = address(now);
    if (active !== this.text) {
      this.text.value = values.text ?? "";
      this.first.replaceChildren(runChoice(this.runs, now), this.text, presets(now));
    }
    const used = MORE_FIELDS.filter(([name]) => values[name]).map(([, label]) => label);
    this.summary.textContent = ["More filters", used.join(", ")].filter(Boolean).join(": ");
    const focused = active?.dataset?.field;
    const controlsOf = (fields) => fields.map((entry) => field(entry, values, answer.facets, set));
    this.rest.replaceChildren(...controlsOf(MORE_FIELDS));
    this.form.replaceChildren(...controlsOf(FIELDS), this.filters);
    if (focused) this.form.querySelector(`[data-field="${focused}"]`)?.focus();
  }

  paint(now, answer) {
    const columns = columnsOf(answer.rows);
    const rows = answer.rows.map((row) =>
      el("tr", {}, cells(row, columns, this.runs, linkOf(now, row))),
    );
    const head = header(filters(now), columns, this.runs, set);
    const table = el("table", { class: "plays" }, head, el("tbody", {}, rows));
    this.body.replaceChildren(
      ...remarks(answer),
      pages(answer, set),
      rows.length ? el("div", { class: "scroll" }, table) : this.none(now),
    );
  }

  /** Say why the list is empty, and what to do. */
  none(now) {
    if (!this.runs.length) return noRuns();
    const selected = this.runs.filter((run) => !now.run || String(run.run) === now.run);
    if (!selected.some((run) => run.episodes?.parts)) {
      const all = "No stored episodes: store.every says after how many steps a run stores them.";
      return empty(all, "sparring train RECIPE store.every=10");
    }
    const href = address(withFilters(now, {}));
    const link = el("a", { href }, "Remove all filters");
    return el("p", { class: "missing" }, "No stored episode fits these filters. ", link);
  }
}

/** Open the finder. */
export function openFinder(root, context) {
  return new Finder(root, context);
}
