/** One play on the screen: asks the server for it, and steps through it. */

import { blob } from "./api.js";
import { button, el, withKey } from "./dom.js";
import { found } from "./finder.js";
import { DIGITS } from "./keys.js";
import { addressOf, Pictures, runOf } from "./pictures.js";
import { board, legalMoves } from "./position.js";
import { change, go, state } from "./router.js";
import { pair, siblings } from "./siblings.js";
import { stage } from "./stage.js";
import { COLOURINGS } from "./tokens.js";

// where the seats scroll by themselves: see replay.css
const wide = matchMedia("(min-width: 901px) and (min-height: 560px)");

function save(file, name) {
  const at = URL.createObjectURL(file);
  el("a", { href: at, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(at), 10_000);
}

/** Return the turn that the address names (from 1), else the last. */
function turnOf(now, answer) {
  const last = answer.turns.length - 1;
  const asked = now.turn ? Number.parseInt(now.turn, 10) - 1 : last;
  return Math.max(0, Math.min(last, Number.isNaN(asked) ? last : asked));
}

function toFinder() {
  const { episode, step, people, turn, seat, beside, siblings: shown, ...rest } = state();
  go(rest);
}

function colour(name) {
  change({ colour: name }, true);
}

function nextColour() {
  const at = COLOURINGS.indexOf(state().colour ?? COLOURINGS[0]);
  colour(COLOURINGS[(at + 1) % COLOURINGS.length]);
}

function toggleSiblings() {
  change({ siblings: state().siblings ? "" : "1" }, true);
}

function placeOf({ run, people, step, episode }) {
  return { run, people: people ? 1 : "", step, episode };
}

function visit(values) {
  change({ turn: "", beside: "", ...values });
}

function keysOf(screen) {
  return [
    ["ArrowLeft", "previous turn", () => screen.move(-1)],
    ["ArrowRight", "next turn", () => screen.move(1)],
    ["Home", "first turn", () => screen.choose(0)],
    ["End", "last turn", () => screen.choose(Infinity)],
    ["j", "next episode", () => screen.walk(1)],
    ["k", "previous episode", () => screen.walk(-1)],
    ["c", "next colouring of tokens", nextColour],
    ["s", "episodes with the same initial state", toggleSiblings],
    ["o", "all seats", () => change({ seat: "" })],
    [DIGITS, "what this seat sees", (key) => screen.seat(Number(key))],
    ["e", "save as one HTML file", () => screen.export()],
    ["/, Escape", "find an episode", toFinder],
  ];
}

class Episode {
  constructor(root, { get, setKeys, status }) {
    this.get = get;
    this.status = status;
    this.key = "";
    this.answer = null;
    this.compared = null;
    this.drawn = 0;
    this.pictures = new Pictures();
    this.beheld = null; // those of the turn that is shown
    this.place = el("div", {});
    this.more = el("div", { class: "more-plays" });
    root.replaceChildren(this.place, this.more);
    setKeys(keysOf(this));
  }

  async show(now) {
    const key = [now.run, now.people, now.step, now.episode, now.seat].join("/");
    const first = key !== this.key;
    this.drawn += 1;
    const asked = this.drawn;
    if (first) {
      const path = addressOf({ ...now, run: now.run ?? 0 });
      const answer = await this.get(path, { seat: now.seat });
      if (asked !== this.drawn) return;
      this.answer = answer;
      this.key = key;
    }
    const turn = this.answer.turns[turnOf(now, this.answer)];
    document.title = `${this.answer.game} episode ${this.answer.episode} · Sparring`;
    const coming = turn ? this.pictures.around(this.answer, turn.index) : [];
    if (first) {
      this.beheld = null; // a process of its own makes pictures: text is shown before
      this.paint(now);
    }
    this.beheld = await coming;
    if (asked !== this.drawn) return;
    if (first) this.place.querySelector(".board-box")?.replaceChildren(board(turn, this.beheld));
    else this.paint(now);
    if (turn) this.policy(turn);
    await this.beneath(now, key);
  }

  /** Ask how likely the policy says each move; it is shown when it comes, as a model is loaded. */
  async policy(turn) {
    if (!this.answer.policy || turn.hidden || turn.policy !== undefined) return;
    const paint = () => this.place.querySelector(".legal-moves")?.replaceWith(legalMoves(turn));
    turn.policy = null; // asked for
    paint();
    const path = `${addressOf(this.answer)}/policy/${turn.index}`;
    turn.policy = await this.get(path, { seat: this.answer.seat }).catch(() => undefined);
    if (this.answer.turns[turnOf(state(), this.answer)] === turn) paint();
  }

  paint(now) {
    const within = document.activeElement?.closest?.(".timeline, .steps");
    const view = {
      turn: turnOf(now, this.answer),
      colouring: COLOURINGS.includes(now.colour) ? now.colour : COLOURINGS[0],
      compared: this.compared,
      pictures: this.beheld,
      tools: this.tools(),
      colour,
      choose: (index) => this.choose(index),
      seat: (number) => change({ seat: number ?? "" }),
      compare: (number) => {
        this.compared = number;
        this.paint(state());
      },
    };
    this.place.replaceChildren(stage(this.answer, view));
    if (now.turn || wide.matches) {
      this.place.querySelector(".turn.current")?.scrollIntoView({ block: "nearest" });
    }
    const cell = this.place.querySelector(".timeline [aria-current]");
    if (within) cell?.focus({ preventScroll: true });
    cell?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  tools() {
    const { siblings: many } = this.answer;
    const family = { title: "episodes with the same initial state" };
    return el(
      "div",
      { class: "tools" },
      button(withKey("Find", "/"), toFinder, { title: "find an episode" }),
      button(withKey("Previous episode", "K"), () => this.walk(-1)),
      button(withKey("Next episode", "J"), () => this.walk(1)),
      many > 1 ? button(withKey(`Same deal (${many})`, "S"), toggleSiblings, family) : null,
      button(withKey("Save", "E"), () => this.export(), { title: "as one HTML file" }),
    );
  }

  /** Show the siblings, and the one beside this play, if they are asked for. */
  async beneath(now, key) {
    const asked = [now.siblings, now.beside, key].join();
    if (asked === this.shown) return;
    this.shown = asked;
    this.more.replaceChildren();
    if (!now.siblings) return;
    const { run, people, step, group, seat, episode } = this.answer;
    const path = `/api/runs/${runOf(this.answer)}/groups/${step}/${group}`;
    const family = await this.get(path, { seat });
    const open = (number) => visit({ episode: number });
    const beside = (number) => change({ beside: number }, true);
    this.more.replaceChildren(siblings(family, { episode, open, beside }));
    if (!now.beside) return;
    const other = await this.get(addressOf({ run, people, step, episode: now.beside }), { seat });
    this.more.append(pair(this.answer, other));
  }

  choose(index) {
    const to = Math.max(0, Math.min(this.answer.turns.length - 1, index));
    change({ turn: to + 1 }, true);
  }

  move(by) {
    this.choose(turnOf(state(), this.answer) + by);
  }

  /** Show what a seat sees; asked again, all seats. */
  seat(number) {
    if (!this.answer.seats.some((one) => one.seat === number)) return;
    change({ seat: this.answer.seat === number ? "" : number });
  }

  /** Go to the play before or after: in the list that was found, else in the step. */
  walk(by) {
    const same = ["run", "people", "step", "episode"];
    const { next, previous } = this.answer;
    const here = (row) => same.every((name) => row[name] === this.answer[name]);
    const at = found.rows.findIndex(here);
    const to = at < 0 ? null : found.rows[at + by];
    const number = by > 0 ? next : previous;
    if (to) visit(placeOf(to));
    else if (number !== null && number !== undefined) visit({ episode: number });
    else this.status(`this is the ${by > 0 ? "last" : "first"} episode of the step`);
  }

  async export() {
    const { step, episode, seat } = this.answer;
    this.status("writing the page …");
    try {
      save(
        await blob(`/export/${runOf(this.answer)}/${step}/${episode}.html`, { seat }),
        `replay-${episode}.html`,
      );
      this.status("saved as one HTML file");
    } catch (error) {
      this.status(error.message);
    }
  }

  themed() {
    return this.show(state());
  }

  close() {
    this.pictures.close();
  }
}

/** Open the screen of a play. */
export function openEpisode(root, context) {
  return new Episode(root, context);
}
