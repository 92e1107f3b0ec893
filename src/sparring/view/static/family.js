/** The family tree of a league: a lane per policy, its members by step, lines from parents. */

import { paint } from "./charts.js";
import { el, grid, missing, plain, svg, word } from "./dom.js";
import { count, number } from "./format.js";
import { address } from "./router.js";

const WIDTH = 900;
const LEFT = 110;
const RIGHT = 40;
const BESIDE = 16; // shift of the mark of the current weights, so that it hides no snapshot
const LANE = 56;
const TOP = 18;
const STATES = {
  start: "the start: the weights before the first step",
  kept: "in the league",
  left: "left the league",
  new: "taken after the newest checkpoint",
  now: "as it is trained now",
};
const TABLE = 400; // largest number of rows of the table

/** Return round numbers between two values. */
function ticks(low, high, about = 4) {
  const rawStep = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rawStep));
  const step = [1, 2, 5, 10].map((k) => k * power).find((size) => size >= rawStep);
  const values = [];
  for (let k = Math.ceil(low / step); k * step <= high + step * 1e-9; k += 1) values.push(k * step);
  return values.map((value) => Number(value.toPrecision(12)));
}

/** Return a member in a sentence. */
export function sentence({ name, step, state, tag, parent, recorded }) {
  const from = parent ? `; came from ${parent}${recorded ? "" : ", by the order of steps"}` : "";
  const tagged = tag ? `; tag ${tag}` : "";
  return plain(`${name}, step ${step}: ${STATES[state]}${from}${tagged}`, 400);
}

function playsOf(run, member) {
  return address({ view: "replay", run, "f.player": member.name });
}

function shape({ state }, x, y, colour) {
  const fill = state === "kept" ? colour : null;
  const look = { class: `member ${state}`, stroke: colour, fill };
  if (state === "start") return svg("rect", { ...look, x: x - 5, y: y - 5, width: 10, height: 10 });
  if (state === "now")
    return svg("path", { ...look, d: `M${x - 6} ${y - 6}L${x + 6} ${y}L${x - 6} ${y + 6}Z` });
  return svg("circle", { ...look, cx: x, cy: y, r: state === "kept" ? 6 : 4 });
}

/** Return the line from a parent to a member: straight if they are neighbours, else an arc. */
function edge([x, y], [toX, toY], next) {
  if (y !== toY) {
    const half = (x + toX) / 2;
    return `M${x} ${y}C${half} ${y} ${half} ${toY} ${toX} ${toY}`;
  }
  return next ? `M${x} ${y}H${toX}` : `M${x} ${y}Q${(x + toX) / 2} ${y - 40} ${toX} ${toY}`;
}

function colours(members) {
  const tags = [...new Set(members.map((member) => member.tag).filter(Boolean))].sort();
  const of = new Map(tags.map((tag, index) => [tag, paint(index + 1).colour]));
  return { tags, of: (tag) => of.get(tag) ?? paint(0).colour };
}

function axis(last, atX, bottom) {
  return ticks(0, last, 6).map((step) => [
    svg("path", { d: `M${atX(step)} ${TOP - 8}V${bottom}`, class: "grid" }),
    svg("text", { x: atX(step), y: bottom + 14, "text-anchor": "middle" }, number(step)),
  ]);
}

function legend(members, painted) {
  const states = Object.keys(STATES).filter((state) => members.some((m) => m.state === state));
  const items = states.map((state) => {
    const box = { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" };
    const mark = shape({ state }, 8, 8, painted.of(null));
    const total = members.filter((member) => member.state === state).length;
    return el("span", {}, svg("svg", box, mark), ` ${STATES[state]} (${number(total)})`);
  });
  const tags = painted.tags.map((tag) =>
    el("span", {}, el("span", { class: "swatch", vars: { "--c": painted.of(tag) } }), word(tag)),
  );
  return el("p", { class: "tree-legend dim" }, items, tags);
}

function tableOf(run, members) {
  const titles = ["Member", "Policy", "Step", "Parent", "Tag", "State"];
  const rows = members.slice(-TABLE).map((member) => {
    const isGuess = member.parent && !member.recorded;
    const note = isGuess ? el("span", { class: "dim" }, " (by step)") : null;
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, el("a", { href: playsOf(run, member) }, word(member.name))),
      el("td", {}, word(member.policy)),
      el("td", { class: "number" }, number(member.step)),
      el("td", {}, member.parent ? word(member.parent) : "–", note),
      el("td", {}, word(member.tag ?? "–")),
      el("td", {}, STATES[member.state]),
    );
  });
  const title = `The ${rows.length < members.length ? "newest" : "same"} as a table`;
  return el("details", {}, el("summary", {}, title), grid(titles, rows));
}

/** The tree of one run; arrow keys go through its members. */
export class Tree {
  constructor() {
    this.node = el("section", { class: "tree" });
    this.description = el("p", { role: "status", class: "dim tree-said" });
    this.links = new Map();
    this.members = [];
    this.at = null;
  }

  /** Return the keys of the tree, for the table of keys. */
  keys() {
    return [
      ["ArrowLeft", "tree: member before", () => this.walk(-1)],
      ["ArrowRight", "tree: next member", () => this.walk(1)],
      ["p", "tree: its parent", () => this.parent()],
    ];
  }

  /** Draw the answer of /family. */
  show({ run, members, notes }) {
    const hasFocus = this.node.contains(document.activeElement);
    this.members = members;
    const painted = colours(members);
    const snapshots = members.filter(({ state }) => !["start", "now"].includes(state));
    const noSnapshots = missing("snapshots", "none are taken; league.every says how often");
    this.node.replaceChildren(
      el("h2", {}, "Family tree"),
      ...notes.map((note) => el("p", { class: "note" }, word(note))),
      snapshots.length ? "" : noSnapshots,
      el("div", { class: "scroll" }, this.draw(run, members, painted)),
      this.description,
      legend(members, painted),
      tableOf(run, members),
    );
    const current = members.find(({ name }) => name === this.at);
    const newest = members.findLast(({ state }) => state === "now") ?? members[0];
    this.choose(current ?? newest, hasFocus);
  }

  draw(run, members, painted) {
    const policies = [...new Set(members.map((member) => member.policy))];
    const bottom = TOP + policies.length * LANE;
    const last = Math.max(1, ...members.map((member) => member.step));
    const atX = (step) => LEFT + (step / last) * (WIDTH - LEFT - RIGHT);
    const atY = (policy) => TOP + (policies.indexOf(policy) + 0.5) * LANE;
    const shift = ({ state }) => (state === "now" ? BESIDE : 0);
    const at = (member) => [atX(member.step) + shift(member), atY(member.policy)];
    const place = new Map(members.map((member) => [member.name, at(member)]));
    const root = svg("svg", {
      viewBox: `0 0 ${WIDTH} ${bottom + 34}`,
      width: WIDTH,
      height: bottom + 34,
      role: "group",
      "aria-label": `family tree: ${count(members.length, "member")} by step; arrow keys, P`,
    });
    root.append(...axis(last, atX, bottom).flat());
    root.append(svg("text", { x: WIDTH - RIGHT, y: bottom + 30, "text-anchor": "end" }, "step"));
    for (const name of policies)
      root.append(svg("text", { x: 4, y: atY(name) + 4 }, plain(name, 14)));
    members.forEach((member, index) => {
      if (!place.has(member.parent)) return;
      const next = members[index - 1]?.name === member.parent;
      const d = edge(place.get(member.parent), place.get(member.name), next);
      const kind = member.recorded ? "recorded" : "by-step";
      root.append(svg("path", { d, class: `edge ${kind} ${member.state}` }));
    });
    const link = (member) => [member.name, this.link(run, member, place, painted)];
    this.links = new Map(members.map(link));
    root.append(...this.links.values());
    return root;
  }

  link(run, member, place, painted) {
    const [x, y] = place.get(member.name);
    const description = sentence(member);
    const link = svg(
      "a",
      { href: playsOf(run, member), "aria-label": description, tabindex: -1 },
      svg("title", {}, description),
      shape(member, x, y, painted.of(member.tag)),
    );
    const tell = () => this.tell(member);
    link.addEventListener("focus", () => this.choose(member));
    link.addEventListener("pointerenter", tell);
    return link;
  }

  tell(member) {
    this.description.replaceChildren(word(sentence(member)));
  }

  choose(member, focus = false) {
    if (!member) return;
    this.links.get(this.at)?.setAttribute("tabindex", "-1");
    this.at = member.name;
    const link = this.links.get(member.name);
    link.setAttribute("tabindex", "0");
    this.tell(member);
    if (focus) link.focus({ preventScroll: true });
  }

  walk(by) {
    const at = this.members.findIndex(({ name }) => name === this.at);
    this.choose(this.members[at + by], true);
  }

  parent() {
    const { parent } = this.members.find(({ name }) => name === this.at) ?? {};
    this.choose(
      this.members.find(({ name }) => name === parent),
      true,
    );
  }
}
