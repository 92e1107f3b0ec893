/** What a chart of several runs holds: its settings, its groups of seeds, its lines and bands. */

import { paint } from "./charts.js";
import { picked } from "./runs.js";
import { interval, smooth } from "./statistics.js";

const SHOWN = 6; // figures shown where none are chosen

/** Kinds of x. */
export const AXES = ["step", "plays", "tokens", "seconds"];

/** Return the settings that the query holds. */
export function settings(now, runs) {
  const asked = picked(now.runs ?? now.run).filter((run) => runs.some((one) => one.run === run));
  const chosen = asked.length ? asked : runs.slice(0, 6).map((run) => run.run);
  const keys = [
    ...new Set(runs.filter((run) => chosen.includes(run.run)).flatMap((run) => run.key ?? [])),
  ];
  return {
    runs: chosen,
    names: now.metrics ? now.metrics.split(",") : keys.slice(0, SHOWN),
    x: AXES.includes(now.x) ? now.x : "step",
    smooth: Math.min(0.99, Math.max(0, Number(now.smooth ?? 0.6) || 0)),
    grouped: now.group === "1",
    log: now.log === "1",
  };
}

/** Return the runs in groups: by configuration without the seed, or each by itself. */
export function groups(runs, set) {
  const chosen = runs.filter((run) => set.runs.includes(run.run));
  if (!set.grouped) return chosen.map((run) => ({ name: run.name, members: [run] }));
  const found = new Map();
  for (const run of chosen) {
    const key = run.family ?? `run ${run.run}`;
    if (!found.has(key)) found.set(key, { name: run.recipe ?? run.name, members: [] });
    found.get(key).members.push(run);
  }
  return [...found.values()];
}

/** Return the chart of one figure. Three seeds and more are a mean and a band, fewer are lines. */
export function chartOf(name, all, points, set) {
  const chart = {
    title: name,
    xLabel: set.x,
    log: set.log,
    series: [],
    bands: [],
    events: [],
    note: "",
  };
  const notes = [];
  all.forEach((group, index) => {
    const { colour, dash } = paint(index);
    const members = group.members.filter((run) => points.get(run.run)?.series[name]?.x.length);
    const curves = members.map((run) => ({ run, ...points.get(run.run).series[name] }));
    if (curves.length >= 3) {
      const band = interval(curves.map(({ x, y }) => ({ x, y: smooth(y, set.smooth) })));
      const line = {
        name: `${group.name}, mean of ${curves.length} seeds`,
        x: band.x,
        colour,
        dash,
      };
      chart.series.push({ ...line, y: band.mean });
      chart.bands.push({ x: band.x, low: band.low, high: band.high, colour });
      notes.push(
        `mean and 95 % t-interval${set.smooth ? " of the smoothed curves" : ""}, ` +
          `n = ${curves.length} seeds`,
      );
    } else {
      for (const { run, x, y } of curves) {
        if (set.smooth) chart.series.push({ name: run.name, x, y, colour, faint: true });
        chart.series.push({ name: run.name, x, y: smooth(y, set.smooth), colour, dash });
      }
    }
    for (const run of group.members) {
      for (const { x, metric, message, stops } of points.get(run.run)?.events ?? []) {
        if (metric === name) chart.events.push({ x, text: message, level: stops ? "bad" : "warn" });
      }
    }
  });
  chart.note = [...new Set(notes)].join("; ");
  return chart;
}
