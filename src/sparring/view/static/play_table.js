/** An episode as the person's seat sees it: position, prompt, legal actions. */

import { button, el, passage, plain, withKey, word } from "./dom.js";
import { number } from "./format.js";

const MAX_BUTTONS = 60; // largest number of legal actions that get a button

/** The picture of the position, shown from memory. */
export class Board {
  #address = null;
  #svg = null;

  /** Return the picture of a state, or null if there is none. */
  of({ picture }) {
    if (!picture) return null;
    const svg = picture[document.documentElement.dataset.theme] ?? picture.light;
    if (svg !== this.#svg) {
      this.close();
      this.#svg = svg;
      this.#address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
    }
    return el("img", { class: "board", src: this.#address, alt: plain(picture.said, 600) });
  }

  /** Release the picture. */
  close() {
    if (this.#address) URL.revokeObjectURL(this.#address);
    this.#address = this.#svg = null;
  }
}

function heading(state, { hint, anew, toggle }) {
  const sitters = (state.players ?? []).map((player, seat) =>
    el(
      "span",
      { class: `sitter ${seat === state.seat ? "you" : ""}` },
      word(state.roles[seat]),
      ": ",
      seat === state.seat ? el("b", {}, "you") : word(player),
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
    sitters,
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

/** Return the oracle's value and loss of each action, by action. */
function opinions(hint) {
  const byAction = new Map();
  if (!hint?.actions) return byAction;
  const top = Math.max(...hint.values);
  hint.actions.forEach((action, place) =>
    byAction.set(action, {
      value: hint.values[place],
      best: hint.best.includes(action),
      loss: top - hint.values[place],
    }),
  );
  return byAction;
}

function actionButton(action, place, opinion, say, isDisabled) {
  const digit = place < 9 ? el("kbd", { "aria-hidden": "true" }, String(place + 1)) : null;
  const label = opinion
    ? `${plain(action)}, worth ${number(opinion.value, 3)}${opinion.best ? ", best" : ""}`
    : plain(action);
  const value = opinion
    ? el("span", { class: `worth ${opinion.best ? "best" : "lost"}` }, number(opinion.value, 3))
    : null;
  return button(
    [digit, " ", word(action), opinion?.best ? " ★" : "", " ", value],
    () => say(action),
    { class: `act ${opinion?.best ? "good" : ""}`, disabled: isDisabled, "aria-label": label },
  );
}

function hintNote(hint) {
  if (!hint) return null;
  if (hint.why) return el("p", { class: "note" }, word(hint.why));
  const certaintyText = hint.certainty < 1 ? `, certainty ${number(hint.certainty, 3)}` : "";
  const boundText = hint.bound ? `, values within ${number(hint.bound, 2)}` : "";
  const text = `oracle ${plain(hint.oracle)}: what each action is worth to you; ★ is best`;
  return el("p", { class: "note" }, `${text}${certaintyText}${boundText}`);
}

function textBox(state, { say, typed }) {
  const isDisabled = state.phase !== "yours";
  const box = el("textarea", {
    class: "say",
    rows: state.legal ? 1 : 4,
    maxlength: 8000,
    disabled: isDisabled,
    "aria-label": state.legal ? "type an action" : "your reply",
    placeholder: state.legal ? "or type an action" : "your reply, in any words",
  });
  box.value = typed;
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    say(box.value);
  });
  const send = button("Send (Enter)", () => say(box.value), { disabled: isDisabled });
  return el("div", { class: "typing" }, box, send);
}

function doing(state, options) {
  const isDisabled = state.phase !== "yours";
  const opinionOf = opinions(state.hint);
  const legal = state.legal ?? [];
  const buttons = legal
    .slice(0, MAX_BUTTONS)
    .map((action, place) =>
      actionButton(action, place, opinionOf.get(action), options.say, isDisabled),
    );
  const numMore = legal.length - MAX_BUTTONS;
  const more = numMore > 0 ? `and ${numMore} more; type one` : null;
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
 *   toggle: function, anew: function}} options what is shown, and functions for keys and buttons
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
