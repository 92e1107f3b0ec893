/** The screen of one episode: loads the episode and steps through its turns. */

import { blob } from "./api.js";
import { button, el, withKey } from "./dom.js";
import { lastResults } from "./finder.js";
import { DIGITS } from "./keys.js";
import { addressOf, Pictures, runOf } from "./pictures.js";
import { board, legalMoves } from "./position.js";
import { change, go, state } from "./router.js";
import { pair, siblings } from "./siblings.js";
import { stage } from "./stage.js";
import { COLOURINGS } from "./tokens.js";

// on such pages the seats scroll separately: see replay.css
const wide = matchMedia("(min-width: 901px) and (min-height: 560px)");

function save(file, name) {
  const at = URL.createObjectURL(file);
  el("a", { href: at, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(at), 10_000);
}

/** Return the turn that the address names (from 1), else the last. */
function turnOf(now, answer) {
  const last = answer.turns.length - 1;
  const requested = now.turn ? Number.parseInt(now.turn, 10) - 1 : last;
  return Math.max(0, Math.min(last, Number.isNaN(requested) ? last : requested));
}

function toFinder() {
  const { episode, step, people, turn, seat, beside, siblings: unused, ...rest } = state();
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
    this.numRequests = 0;
    this.pictures = new Pictures();
    this.turnPictures = null; // pictures of the turn that is shown
    this.place = el("div", {});
    this.more = el("div", { class: "more-plays" });
    root.replaceChildren(this.place, this.more);
    setKeys(keysOf(this));
  }

  async show(now) {
    const key = [now.run, now.people, now.step, now.episode, now.seat].join("/");
    const first = key !== this.key;
    this.numRequests += 1;
    const request = this.numRequests;
    if (first) {
      const path = addressOf({ ...now, run: now.run ?? 0 });
      const answer = await this.get(path, { seat: now.seat });
      if (request !== this.numRequests) return;
      this.answer = answer;
      this.key = key;
    }
    const turn = this.answer.turns[turnOf(now, this.answer)];
    document.title = `${this.answer.game} episode ${this.answer.episode} · Sparring`;
    const coming = turn ? this.pictures.around(this.answer, turn.index) : [];
    if (first) {
      this.turnPictures = null; // a separate process draws pictures; until then text is shown
      this.paint(now);
    }
    this.turnPictures = await coming;
    if (request !== this.numRequests) return;
    const box = first && this.place.querySelector(".board-box");
    if (first) box?.replaceChildren(board(turn, this.turnPictures));
    else this.paint(now);
    if (turn) this.policy(turn);
    await this.showSiblings(now, key);
  }

  /** Load the policy's probability of each move; it is shown later, because a model is loaded. */
  async policy(turn) {
    if (!this.answer.policy || turn.hidden || turn.policy !== undefined) return;
    const paint = () => this.place.querySelector(".legal-moves")?.replaceWith(legalMoves(turn));
    turn.policy = null; // null: the request is running
    paint();
    const path = `${addressOf(this.answer)}/policy/${turn.index}`;
    turn.policy = await this.get(path, { seat: this.answer.seat }).catch(() => undefined);
    if (this.answer.turns[turnOf(state(), this.answer)] === turn) paint();
  }

  paint(now) {
    const hasFocus = document.activeElement?.closest?.(".timeline, .steps");
    const view = {
      turn: turnOf(now, this.answer),
      colouring: COLOURINGS.includes(now.colour) ? now.colour : COLOURINGS[0],
      compared: this.compared,
      pictures: this.turnPictures,
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
    if (hasFocus) cell?.focus({ preventScroll: true });
    cell?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  tools() {
    const { siblings: size } = this.answer;
    const family = { title: "episodes with the same initial state" };
    return el(
      "div",
      { class: "tools" },
      button(withKey("Find", "/"), toFinder, { title: "find an episode" }),
      button(withKey("Previous episode", "K"), () => this.walk(-1)),
      button(withKey("Next episode", "J"), () => this.walk(1)),
      size > 1 ? button(withKey(`Same deal (${size})`, "S"), toggleSiblings, family) : null,
      button(withKey("Save", "E"), () => this.export(), { title: "as one HTML file" }),
    );
  }

  /** Show the siblings, and one of them beside this episode, if the address names them. */
  async showSiblings(now, key) {
    const shownKey = [now.siblings, now.beside, key].join();
    if (shownKey === this.shownKey) return;
    this.shownKey = shownKey;
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
    const target = Math.max(0, Math.min(this.answer.turns.length - 1, index));
    change({ turn: target + 1 }, true);
  }

  move(by) {
    this.choose(turnOf(state(), this.answer) + by);
  }

  /** Show what a seat sees; if the page shows this already, show all seats. */
  seat(number) {
    if (!this.answer.seats.some((other) => other.seat === number)) return;
    change({ seat: this.answer.seat === number ? "" : number });
  }

  /** Go to the previous or next episode of the finder's last list, or else of the step. */
  walk(by) {
    const same = ["run", "people", "step", "episode"];
    const { next, previous } = this.answer;
    const isThis = (row) => same.every((name) => row[name] === this.answer[name]);
    const at = lastResults.rows.findIndex(isThis);
    const to = at < 0 ? null : lastResults.rows[at + by];
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

/** Open the screen of an episode. */
export function openEpisode(root, context) {
  return new Episode(root, context);
}
