/** An episode as the person's seat sees it: position, prompt, legal actions. */

import { button, el, passage, plain, withKey, word } from "./dom.js";
import { number } from "./format.js";

const SHOWN = 60; // legal actions that get a button

/** The picture of the position, shown from memory. */
export class Board {
  #at = null;
  #drawn = null;

  /** Return the picture of a state, or null where nothing draws it. */
  of({ picture }) {
    if (!picture) return null;
    const svg = picture[document.documentElement.dataset.theme] ?? picture.light;
    if (svg !== this.#drawn) {
      this.close();
      this.#drawn = svg;
      this.#at = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
    }
    return el("img", { class: "board", src: this.#at, alt: plain(picture.said, 600) });
  }

  /** Forget it. */
  close() {
    if (this.#at) URL.revokeObjectURL(this.#at);
    this.#at = this.#drawn = null;
  }
}

function heading(state, { hint, anew, toggle }) {
  const who = (state.players ?? []).map((said, seat) =>
    el(
      "span",
      { class: `sitter ${seat === state.seat ? "you" : ""}` },
      word(state.roles[seat]),
      ": ",
      seat === state.seat ? el("b", {}, "you") : word(said),
    ),
  );
  return el(
    "header",
    { class: "play-head" },
    el(
      "h1",
      {},
      word(state.environment ?? "Play"),
      state.play ? el("span", { class: "dim" }, ` episode ${state.play}`) : null,
      state.run ? el("span", { class: "dim" }, " · ", word(state.run)) : null,
    ),
    who,
    el("span", { class: "grow" }),
    button(withKey("Rules", "R"), toggle),
    button(withKey("Hint", "H"), hint, { disabled: state.phase !== "yours" }),
    button("Choose anew", anew, { class: "anew" }),
  );
}

function rulesOf(state, open) {
  if (!state.rules) return null;
  return el(
    "details",
    { class: "rules", open },
    el("summary", {}, "Rules"),
    passage(state.rules),
  );
}

/** Return what the oracle says of each action, by action. */
function opinions(hint) {
  const found = new Map();
  if (!hint?.actions) return found;
  const top = Math.max(...hint.values);
  hint.actions.forEach((action, place) =>
    found.set(action, {
      value: hint.values[place],
      best: hint.best.includes(action),
      loss: top - hint.values[place],
    }),
  );
  return found;
}

function actionButton(action, place, said, say, off) {
  const digit = place < 9 ? el("kbd", { "aria-hidden": "true" }, String(place + 1)) : null;
  const label = said
    ? `${plain(action)}, worth ${number(said.value, 3)}${said.best ? ", best" : ""}`
    : plain(action);
  const value = said
    ? el("span", { class: `worth ${said.best ? "best" : "lost"}` }, number(said.value, 3))
    : null;
  return button(
    [digit, " ", word(action), said?.best ? " ★" : "", " ", value],
    () => say(action),
    { class: `act ${said?.best ? "good" : ""}`, disabled: off, "aria-label": label },
  );
}

function hintNote(hint) {
  if (!hint) return null;
  if (hint.why) return el("p", { class: "note" }, word(hint.why));
  const exact = hint.certainty < 1 ? `, certainty ${number(hint.certainty, 3)}` : "";
  const near = hint.bound ? `, values within ${number(hint.bound, 2)}` : "";
  const text = `oracle ${plain(hint.oracle)}: what each action is worth to you; ★ is best`;
  return el("p", { class: "note" }, `${text}${exact}${near}`);
}

function textBox(state, { say, typed }) {
  const off = state.phase !== "yours";
  const box = el("textarea", {
    class: "say",
    rows: state.legal ? 1 : 4,
    maxlength: 8000,
    disabled: off,
    "aria-label": state.legal ? "type an action" : "your reply",
    placeholder: state.legal ? "or type an action" : "your reply, in any words",
  });
  box.value = typed;
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    say(box.value);
  });
  const send = button("Send (Enter)", () => say(box.value), { disabled: off });
  return el("div", { class: "typing" }, box, send);
}

function doing(state, options) {
  const off = state.phase !== "yours";
  const said = opinions(state.hint);
  const legal = state.legal ?? [];
  const buttons = legal
    .slice(0, SHOWN)
    .map((action, place) => actionButton(action, place, said.get(action), options.say, off));
  const more = legal.length > SHOWN ? `and ${legal.length - SHOWN} more; type one` : null;
  const typing = !state.legal || legal.length > 9;
  return el(
    "section",
    { class: "doing", "aria-label": "your reply" },
    state.trouble && state.phase !== "failed"
      ? el("p", { class: "note bad", role: "alert" }, word(state.trouble))
      : null,
    buttons.length ? el("div", { class: "acts-row" }, buttons) : null,
    more,
    typing ? textBox(state, options) : null,
    hintNote(state.hint),
  );
}

function transcript(state) {
  const past = state.past ?? [];
  if (!past.length) return null;
  const rows = past.map(({ told, reply }) =>
    el(
      "li",
      {},
      el("span", { class: "said" }, word(reply)),
      el("details", { class: "was-told" }, el("summary", {}, "prompt"), passage(told, "mono")),
    ),
  );
  const section = el("section", { class: "so-far", "aria-label": "your prompts and replies" });
  section.append(el("h2", {}, "So far"), el("ol", {}, rows));
  return section;
}

/**
 * Return the parts of the page.
 * @param {Object} state as the server gives it
 * @param {{board: Board, rules: boolean, typed: string, say: function, hint: function,
 *   toggle: function, anew: function}} options what is shown, and what a choice does
 */
export function table(state, options) {
  const parts = [heading(state, options)];
  if (state.phase === "failed") {
    parts.push(el("p", { class: "failure", role: "alert" }, word(state.trouble)));
    return parts;
  }
  parts.push(rulesOf(state, options.rules));
  if (state.end || !state.roles) return parts.filter(Boolean);
  const picture = options.board.of(state);
  const now = el(
    "div",
    { class: "play-now" },
    picture ? el("div", { class: "board-box" }, picture) : null,
    el(
      "div",
      { class: "told-now", tabindex: -1, role: "group", "aria-label": "your turn" },
      state.told ? passage(state.told, "mono") : null,
      doing(state, options),
    ),
  );
  parts.push(now, transcript(state));
  return parts.filter(Boolean);
}
