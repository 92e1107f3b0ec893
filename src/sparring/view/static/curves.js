/** Curves of any figures: several runs, smoothed over raw, seeds as a band, health as marks. */

import { draw } from "./charts.js";
import { AXES, chartOf, groups, settings } from "./curves_chart.js";
import { figures, legend, listFigures, toolsOf } from "./curves_controls.js";
import { differences, events } from "./curves_tables.js";
import { el, plain, word } from "./dom.js";
import { number } from "./format.js";
import { better, learn, meaning, sections } from "./metric_names.js";
import { change, state } from "./router.js";
import { noRuns } from "./run_choice.js";
import { store } from "./series.js";
import { summary } from "./summary.js";

class Curves {
  constructor(root, { get, setKeys }) {
    this.get = get;
    this.runs = null;
    this.known = [];
    this.asked = "";
    this.shown = new Map();
    this.held = new Map();
    this.points = store(get);
    this.references = new Map(); // of each run, by figure: what random and best play have
    const named = { placeholder: "find a figure …", "aria-label": "find a figure" };
    this.search = el("input", { type: "search", ...named });
    this.search.addEventListener("input", () => this.paintFigures(this.settings()));
    this.details = []; // of the runs shown
    this.summary = el("div", {});
    this.tools = el("div", { class: "tools" });
    this.legend = el("div", {});
    this.figures = el("div", { class: "found", role: "group", "aria-label": "figures" });
    this.list = el("details", { class: "all-figures" });
    this.charts = el("div", { class: "charts" });
    this.events = el("div", { class: "under" });
    this.differences = el("div", { class: "under" });
    const parts = [this.summary, this.tools, this.legend, this.figures, this.list, this.charts];
    root.replaceChildren(el("h1", {}, "Curves"), ...parts, this.events, this.differences);
    setKeys([
      ["/", "find a figure", () => this.search.focus()],
      ["x", "next x axis", () => this.nextAxis()],
    ]);
  }

  settings() {
    return settings(state(), this.runs ?? []);
  }

  nextAxis() {
    const at = AXES.indexOf(this.settings().x);
    change({ x: AXES[(at + 1) % AXES.length] }, true);
  }

  paintFigures(set) {
    this.figures.replaceChildren(...figures(this.known, set, this.search.value));
    listFigures(this.list, this.known, set);
  }

  async loadRuns() {
    const answer = await this.get("/api/runs");
    this.runs = answer.runs;
  }

  async loadNames(set) {
    const key = set.runs.join(",");
    if (key === this.asked) return;
    this.asked = key;
    this.details = await Promise.all(set.runs.map((run) => this.get(`/api/runs/${run}`)));
    this.details.forEach(learn);
    this.known = sections(this.details);
  }

  /** Begin the page of one run with its summary. */
  paintSummary(set) {
    const run = set.runs.length === 1 && this.runs.find((one) => one.run === set.runs[0]);
    const [details] = this.details;
    if (run && details?.run !== run.run) return;
    const known = this.references.get(run?.run) ?? {};
    this.summary.replaceChildren(run ? summary(run, details, known) : "");
  }

  /** Ask once for each run what random and best play have; charts are drawn anew when it comes. */
  async loadReferences(set) {
    const unknown = set.runs.filter((run) => !this.references.has(run));
    for (const run of unknown) this.references.set(run, {});
    await Promise.all(
      unknown.map(async (run) => {
        const answer = await this.get(`/api/runs/${run}/references`).catch(() => null);
        if (answer) this.references.set(run, answer.figures);
      }),
    );
    if (!unknown.length || !this.charts.isConnected) return;
    this.draw(this.settings());
    this.paintSummary(this.settings());
  }

  /** Return what is known of a figure in the runs shown, each value of a label once. */
  referencesOf(name, set) {
    const known = set.runs.flatMap((run) => this.references.get(run)?.[name] ?? []);
    const byText = new Map(known.map((one) => [`${one.label} ${number(one.value)}`, one]));
    return [...byText.values()];
  }

  /** Draw the charts; those that are there already get their new points. */
  draw(set) {
    const all = groups(this.runs, set);
    for (const [name, { card, handle }] of this.shown) {
      if (set.names.includes(name)) continue;
      handle.close();
      card.remove();
      this.shown.delete(name);
    }
    for (const name of set.names) {
      const chart = chartOf(name, all, this.held, set, this.referencesOf(name, set));
      if (this.shown.has(name)) this.shown.get(name).handle.update(chart);
      else {
        const box = el("div", { class: "chart" });
        const good = better(name) && el("span", { class: "dim" }, ` ${better(name)} is better`);
        const title = el("h2", {}, word(name), good);
        const card = el("section", { class: "card", "data-metric": name }, title, box);
        this.charts.append(card);
        this.shown.set(name, { card, handle: draw(box, chart) });
      }
      this.shown.get(name).card.firstChild.title = plain(meaning(name), 300);
    }
  }

  async refresh(set, only = null) {
    this.held = await this.points.update(set.runs, set.names, set.x, only);
    this.draw(set);
    this.events.replaceChildren(events(this.runs, this.held));
  }

  async show() {
    if (!this.runs?.length) await this.loadRuns();
    this.summary.replaceChildren(this.runs.length ? "" : noRuns());
    if (!this.runs.length) return;
    const set = this.settings();
    this.tools.replaceChildren(...toolsOf(this.search, set));
    this.legend.replaceChildren(legend(this.runs, set));
    const points = this.refresh(set);
    await this.loadNames(set);
    this.paintFigures(set);
    this.paintSummary(set);
    await points;
    this.loadReferences(set);
    this.differences.replaceChildren(await differences(this.get, this.runs, set.runs));
  }

  async changed({ runs }) {
    if (!this.runs.length) await this.show();
    if (!runs?.length || !this.runs.length) return;
    const before = this.runs.length;
    await this.loadRuns();
    const set = this.settings();
    if (this.runs.length !== before) this.legend.replaceChildren(legend(this.runs, set));
    await this.refresh(set, runs);
    this.asked = "";
    await this.loadNames(set);
    this.paintFigures(set);
    this.paintSummary(set);
  }

  async themed() {
    this.close();
    this.charts.replaceChildren();
    await this.show();
  }

  close() {
    for (const { handle } of this.shown.values()) handle.close();
    this.shown.clear();
  }
}

/** Open the view. */
export function open(root, context) {
  return new Curves(root, context);
}
