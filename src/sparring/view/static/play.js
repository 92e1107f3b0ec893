/** A person plays: choices, the episode as the seat sees it, hints, the end, the next episode. */

import { cameWithToken, post } from "./api.js";
import { el, plain } from "./dom.js";
import { showDown } from "./play_end.js";
import { choices } from "./play_setup.js";
import { Board, table } from "./play_table.js";
import { go } from "./router.js";

const ASK_EVERY = 400; // milliseconds between two requests while others think
const CHOICE_NAMES = ["run", "environment", "seat", "against", "seed"];

/** Return a text that no other session has. */
function newKey() {
  return [...crypto.getRandomValues(new Uint32Array(4))].join("-");
}

/** Return a sentence that describes the state of the episode, for the status line. */
function standing(state) {
  if (state.phase === "thinking") {
    const { for: what, seconds } = state.waits ?? { for: "the episode", seconds: 0 };
    return `Waiting for ${what}${seconds >= 2 ? ` (${Math.round(seconds)} s)` : ""} …`;
  }
  if (state.phase === "failed") return state.trouble;
  if (state.phase === "over") return `The end. ${state.end?.verdict ?? ""}`;
  return `Your turn, ${plain(state.roles[state.seat])}.`;
}

class Play {
  constructor(root, { get, setKeys, status }) {
    Object.assign(this, { root, get, setKeys, tell: status });
    this.board = new Board();
    this.live = el("p", { class: "play-status", role: "status", "aria-live": "polite" });
    this.body = el("div", { class: "play-body" });
    this.root.append(this.live, this.body);
  }

  async show(now) {
    this.now = now;
    if (now.id && this.state?.id === now.id) return;
    if (now.id) {
      try {
        await this.take(await this.get(`/play/${encodeURIComponent(now.id)}`));
        return;
      } catch (error) {
        if (error.status !== 404) throw error;
        this.note = "This session has ended: the server restarted, or newer sessions replaced it.";
      }
    } else if (now.begin && cameWithToken()) {
      // a link on another page only fills in the choices
      await this.begin(Object.fromEntries(CHOICE_NAMES.map((name) => [name, now[name]])));
      return;
    }
    await this.choose();
  }

  /** Show the choices. */
  async choose() {
    clearTimeout(this.timer);
    this.state = this.options = null;
    this.live.textContent = "Loading the choices …";
    this.setKeys([["Enter", "begin", () => this.body.querySelector(".begin")?.click()]]);
    const begin = (selection) => this.attempt(() => this.begin(selection));
    await choices(this.body, this.now, this.get, begin);
    this.live.textContent = this.note ?? "";
    this.note = null;
  }

  async begin(selection) {
    const number = (text) => (text === undefined || text === "" ? null : Number(text));
    const request = {
      key: newKey(),
      run: number(selection.run),
      environment: selection.environment || null,
      seat: number(selection.seat) ?? 0,
      against: selection.against || null,
      seed: number(selection.seed),
    };
    let state;
    try {
      state = await post("/play", request);
    } catch (error) {
      this.note = error.message;
      this.now = { ...this.now, ...selection };
      await this.choose();
      return;
    }
    if (this.closed) return;
    this.selection = selection;
    this.options = null;
    await this.take(state);
    go({ view: "play", ...this.addressValues(selection), id: state.id }, true);
  }

  addressValues(selection) {
    return Object.fromEntries(CHOICE_NAMES.slice(0, 4).map((name) => [name, selection[name]]));
  }

  /** Call a function; show its error, and change nothing else. */
  async attempt(act) {
    if (this.busy) return;
    this.busy = true;
    try {
      await act();
    } catch (error) {
      this.live.textContent = error.message;
    } finally {
      this.busy = false;
    }
  }

  send(what, values = {}) {
    return this.attempt(async () => {
      const { id, play } = this.state;
      const answer = await post(`/play/${encodeURIComponent(id)}/${what}`, { play, ...values });
      if (this.state?.id === id) await this.take(answer);
    });
  }

  /** Show the choices; first leave an episode that still waits for other players. */
  async anew() {
    const { id, waits } = this.state;
    try {
      if (waits) await post(`/play/${encodeURIComponent(id)}/leave`, {});
    } catch (error) {
      this.note = error.message;
    }
    const values = this.addressValues(this.selection ?? this.now);
    if (this.state?.id === id) go({ view: "play", ...values });
  }

  say(reply) {
    if (this.state?.phase === "yours") this.send("move", { turn: this.state.turn, reply });
  }

  hint() {
    if (this.state?.phase === "yours") this.send("hint", { turn: this.state.turn });
  }

  next(seat, against) {
    const state = this.state;
    if (state?.end) this.send("next", { seat, against });
  }

  rules() {
    const rules = this.body.querySelector("details.rules");
    if (!rules) return;
    rules.open = !rules.open;
    if (rules.open) rules.scrollIntoView({ block: "nearest" });
  }

  /** Take a state of the episode from the server, and draw it. */
  async take(state) {
    clearTimeout(this.timer);
    const previous = this.state;
    this.state = state;
    const prompt = state.phase === "yours" ? plain(state.told, 400) : ""; // read aloud only
    const sentence = `${standing(state)} ${prompt}`;
    if (this.live.textContent !== sentence)
      this.live.replaceChildren(`${standing(state)} `, el("span", { class: "unseen" }, prompt));
    this.draw(previous);
    if (state.waits) this.timer = setTimeout(() => this.poll(), ASK_EVERY);
    else if (state.end) this.judge();
    if (state.end && !this.options) this.offer();
  }

  /** Request the judgement of a finished episode, once. */
  async judge() {
    const { id, play, end } = this.state;
    const which = `${id} ${play}`;
    if (end.judgement || end.why || this.judgedPlay === which) return;
    this.judgedPlay = which;
    try {
      const answer = await post(`/play/${encodeURIComponent(id)}/judge`, { play });
      if (this.state?.id === id && this.state.play === play) await this.take(answer);
    } catch (error) {
      this.live.textContent = error.message;
    }
  }

  /** Request the seats and opponents for the next episode. */
  async offer() {
    const { run } = this.selection ?? this.now;
    const { id, environment } = this.state;
    try {
      const answer = await this.get("/play", { run, environment });
      if (this.state?.id !== id) return;
      this.options = answer;
      if (this.state.end) this.draw(this.state);
    } catch {
      // without the lists, the next episode has the same seat and opponent
    }
  }

  async poll() {
    const { id } = this.state;
    try {
      const answer = await this.get(`/play/${encodeURIComponent(id)}`);
      if (this.state?.id === id) await this.take(answer);
    } catch (error) {
      if (this.state?.id !== id) return;
      this.live.textContent = error.message;
      if (error.status !== 404) this.timer = setTimeout(() => this.poll(), 5 * ASK_EVERY);
    }
  }

  draw(previous) {
    const { state } = this;
    const text = this.body.querySelector(".say")?.value ?? "";
    const open = this.body.querySelector("details.rules")?.open;
    const first = state.play === 1 && state.turn === 0 && !state.end;
    const isSamePlay = previous?.id === state.id && previous.play === state.play;
    const hasMoved = !isSamePlay || previous.turn !== state.turn;
    const isSecondTurn = hasMoved && state.play === 1 && state.turn === 1; // the rules make room
    const parts = table(state, {
      board: this.board,
      rules: isSecondTurn ? false : (open ?? first),
      typed: hasMoved ? "" : text,
      say: (reply) => this.say(reply),
      hint: () => this.hint(),
      toggle: () => this.rules(),
      anew: () => this.anew(),
    });
    if (state.end) {
      const valueOf = (name) => this.body.querySelector(`.ending select[name=${name}]`)?.value;
      const against = valueOf("against") ?? state.against;
      const selection = { seat: valueOf("seat") ?? state.seat, against };
      const next = (seat, against) => this.next(seat, against);
      const { board, options } = this;
      parts.push(showDown(state, { board, options, chosen: selection, next }));
    }
    this.body.replaceChildren(...parts);
    this.body.dataset.phase = state.phase;
    this.body.dataset.turn = `${state.play ?? 0}.${state.turn ?? 0}`;
    this.keys();
    this.focus(hasMoved || !previous?.end === Boolean(state.end));
  }

  focus(hasMoved) {
    const first = this.body.querySelector(this.state.end ? ".next" : ".say:enabled");
    const target = first ?? this.body.querySelector(".told-now");
    target?.focus({ preventScroll: !hasMoved });
  }

  keys() {
    const { state } = this;
    const press = (selector) => this.body.querySelector(selector)?.click();
    const after = state.end ? ".next" : ".anew";
    const rows = [["r", "the rules", () => this.rules()]];
    if (state.phase === "yours") {
      if (state.legal) {
        const digits = state.legal.slice(0, 9).map((_, place) => String(place + 1));
        rows.push([digits.join(", "), "choose an action", (key) => this.say(this.at(key))]);
      }
      rows.push(["h", "a hint of the oracle", () => this.hint()]);
    }
    if (state.phase === "over" || state.phase === "failed")
      rows.push(["n", "next episode", () => press(after)]);
    this.setKeys(rows);
  }

  at(key) {
    return this.state.legal[Number(key) - 1];
  }

  /** Draw the picture again, because the theme has changed. */
  themed() {
    if (this.state) this.draw(this.state);
  }

  close() {
    clearTimeout(this.timer);
    this.closed = true;
    this.state = null;
    this.board.close();
  }
}

/** Open the view. */
export function open(root, page) {
  return new Play(root, page);
}
