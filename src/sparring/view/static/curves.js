/** Curves of figures of several runs, with smoothing, bands over seeds, and marks of warnings. */

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
    this.sections = [];
    this.loadedRuns = "";
    this.cards = new Map();
    this.pointsOfRuns = new Map();
    this.points = store(get);
    this.references = new Map(); // by run, then by figure: the values of random and best play
    const attributes = { placeholder: "find a figure …", "aria-label": "find a figure" };
    this.search = el("input", { type: "search", ...attributes });
    this.search.addEventListener("input", () => this.paintFigures(this.settings()));
    this.details = []; // answers of /api/runs/RUN for the runs shown
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

  paintFigures(choice) {
    this.figures.replaceChildren(...figures(this.sections, choice, this.search.value));
    listFigures(this.list, this.sections, choice);
  }

  async loadRuns() {
    const answer = await this.get("/api/runs");
    this.runs = answer.runs;
  }

  async loadNames(choice) {
    const key = choice.runs.join(",");
    if (key === this.loadedRuns) return;
    this.loadedRuns = key;
    this.details = await Promise.all(choice.runs.map((run) => this.get(`/api/runs/${run}`)));
    this.details.forEach(learn);
    this.sections = sections(this.details);
  }

  /** Begin the page of one run with its summary. */
  paintSummary(choice) {
    const run = choice.runs.length === 1 && this.runs.find((item) => item.run === choice.runs[0]);
    const [details] = this.details;
    if (run && details?.run !== run.run) return;
    const references = this.references.get(run?.run) ?? {};
    this.summary.replaceChildren(run ? summary(run, details, references) : "");
  }

  /** Request the values of random and best play once per run; then draw the charts again. */
  async loadReferences(choice) {
    const newRuns = choice.runs.filter((run) => !this.references.has(run));
    for (const run of newRuns) this.references.set(run, {});
    await Promise.all(
      newRuns.map(async (run) => {
        const answer = await this.get(`/api/runs/${run}/references`).catch(() => null);
        if (answer) this.references.set(run, answer.figures);
      }),
    );
    if (!newRuns.length || !this.charts.isConnected) return;
    this.draw(this.settings());
    this.paintSummary(this.settings());
  }

  /** Return the reference values of a figure in the runs shown, without duplicates. */
  referencesOf(name, choice) {
    const references = choice.runs.flatMap((run) => this.references.get(run)?.[name] ?? []);
    const byText = new Map(references.map((item) => [`${item.label} ${number(item.value)}`, item]));
    return [...byText.values()];
  }

  /** Draw the charts; existing charts get their new points. */
  draw(choice) {
    const all = groups(this.runs, choice);
    for (const [name, { card, handle }] of this.cards) {
      if (choice.names.includes(name)) continue;
      handle.close();
      card.remove();
      this.cards.delete(name);
    }
    for (const name of choice.names) {
      const chart = chartOf(name, all, this.pointsOfRuns, choice, this.referencesOf(name, choice));
      if (this.cards.has(name)) this.cards.get(name).handle.update(chart);
      else {
        const box = el("div", { class: "chart" });
        const note = better(name) && el("span", { class: "dim" }, ` ${better(name)} is better`);
        const title = el("h2", {}, word(name), note);
        const card = el("section", { class: "card", "data-metric": name }, title, box);
        this.charts.append(card);
        this.cards.set(name, { card, handle: draw(box, chart) });
      }
      this.cards.get(name).card.firstChild.title = plain(meaning(name), 300);
    }
  }

  async refresh(choice, only = null) {
    this.pointsOfRuns = await this.points.update(choice.runs, choice.names, choice.x, only);
    this.draw(choice);
    this.events.replaceChildren(events(this.runs, this.pointsOfRuns));
  }

  async show() {
    if (!this.runs?.length) await this.loadRuns();
    this.summary.replaceChildren(this.runs.length ? "" : noRuns());
    if (!this.runs.length) return;
    const choice = this.settings();
    this.tools.replaceChildren(...toolsOf(this.search, choice));
    this.legend.replaceChildren(legend(this.runs, choice));
    const points = this.refresh(choice);
    await this.loadNames(choice);
    this.paintFigures(choice);
    this.paintSummary(choice);
    await points;
    this.loadReferences(choice);
    this.differences.replaceChildren(await differences(this.get, this.runs, choice.runs));
  }

  async changed({ runs }) {
    if (!this.runs.length) await this.show();
    if (!runs?.length || !this.runs.length) return;
    const numRuns = this.runs.length;
    await this.loadRuns();
    const choice = this.settings();
    if (this.runs.length !== numRuns) this.legend.replaceChildren(legend(this.runs, choice));
    await this.refresh(choice, runs);
    this.loadedRuns = "";
    await this.loadNames(choice);
    this.paintFigures(choice);
    this.paintSummary(choice);
  }

  async themed() {
    this.close();
    this.charts.replaceChildren();
    await this.show();
  }

  close() {
    for (const { handle } of this.cards.values()) handle.close();
    this.cards.clear();
  }
}

/** Open the view. */
export function open(root, context) {
  return new Curves(root, context);
}
