/** Tokens coloured by advantage, probability or entropy, and the legend of the colours. */

import { el, pieces, plain } from "./dom.js";
import { number, probability, signed } from "./format.js";

export const COLOURINGS = ["advantage", "probability", "entropy", "none"];
const STEPS = [0.05, 1 / 3, 2 / 3]; // shares of the scale where the steps of a colour begin
const UNLIKELY = [0.9, 0.5, 0.1]; // below each of these probabilities the colour is one step darker

/** Return the CSS class of a value with a sign: "", "pos-1" to "pos-3", "neg-1" to "neg-3". */
export function diverging(value, scale) {
  if (value === null || value === undefined || !scale) return "";
  const share = Math.abs(value) / scale;
  const step = STEPS.filter((bound) => share >= bound).length;
  if (!step) return "";
  return `${value < 0 ? "neg" : "pos"}-${step}`;
}

function shade(token, colouring, scale) {
  if (colouring === "advantage") return diverging(token.advantage, scale.advantage);
  if (colouring === "probability") {
    if (token.logprob === null || token.logprob === undefined) return "";
    const step = UNLIKELY.filter((bound) => Math.exp(token.logprob) < bound).length;
    return step ? `heat-${step}` : "";
  }
  if (colouring === "entropy" && token.entropy !== null && token.entropy !== undefined) {
    const share = token.entropy / (scale.entropy || 1);
    const step = STEPS.filter((bound) => share >= bound).length;
    return step ? `heat-${step}` : "";
  }
  return "";
}

/** Return the numbers of a token in words. */
export function numbers(token) {
  const parts = [];
  if (token.logprob !== null && token.logprob !== undefined) {
    const p = probability(Math.exp(token.logprob));
    parts.push(`p ${p} when sampled`, `log p ${number(token.logprob, 3)}`);
  }
  if (token.entropy !== null && token.entropy !== undefined)
    parts.push(`entropy ${number(token.entropy, 3)} nats`);
  if (token.advantage !== null && token.advantage !== undefined)
    parts.push(`advantage ${signed(token.advantage)}`);
  parts.push(`id ${token.id}`);
  if (token.whole === false) parts.push("part of a character");
  return parts.join(", ");
}

function tokenText(token, decoded) {
  if (!decoded) return [`${token.id} `];
  if (token.whole === false || token.text === "") return ["·"];
  return pieces(token.text);
}

/**
 * Return one token, whose numbers are shown on hover and on focus.
 * @param {Object} token of the answer
 * @param {{colouring: string, scale: Object, decoded: boolean, tell: function}} options
 */
function tokenSpan(token, { colouring, scale, decoded, tell }) {
  const text = numbers(token);
  const show = (event) => tell?.(token, event.currentTarget);
  return el(
    "span",
    {
      class: `token ${shade(token, colouring, scale)}`,
      tabindex: 0,
      title: text,
      "aria-label": `${plain(token.text || token.id)}: ${text}`,
      on: { focus: show, mouseenter: show },
    },
    tokenText(token, decoded),
  );
}

const PAGE = 2000; // largest number of tokens that are drawn at first

/** Return the tokens of a reply: the first 2,000, and a button that shows the others. */
export function tokenRow(tokens, options) {
  const row = el(
    "div",
    { class: "text tokens", dir: "auto" },
    tokens.slice(0, PAGE).map((token) => tokenSpan(token, options)),
  );
  if (tokens.length > PAGE) {
    const more = el(
      "button",
      { type: "button", class: "more" },
      `show all ${tokens.length} tokens`,
    );
    more.addEventListener("click", () =>
      more.replaceWith(...tokens.slice(PAGE).map((token) => tokenSpan(token, options))),
    );
    row.append(more);
  }
  return row;
}

/** Return the legend of the colours. */
export function legend(colouring, scale) {
  const box = (kind, text) =>
    el("span", { class: "key" }, el("span", { class: `token ${kind}` }, "abc"), ` ${text}`);
  if (colouring === "advantage") {
    if (!scale.advantage)
      return el("p", { class: "keys dim" }, "advantage: not recorded, no colour");
    const at = (share) => number(scale.advantage * share, 2);
    return el(
      "p",
      { class: "keys" },
      box("neg-3", `≤ −${at(2 / 3)}`),
      box("neg-2", `−${at(1 / 3)}`),
      box("neg-1", `−${at(0.05)}`),
      box("", "0"),
      box("pos-1", `+${at(0.05)}`),
      box("pos-2", `+${at(1 / 3)}`),
      box("pos-3", `≥ +${at(2 / 3)}`),
    );
  }
  if (colouring === "probability") {
    return el(
      "p",
      { class: "keys" },
      box("", "p ≥ 0.9"),
      box("heat-1", "< 0.9"),
      box("heat-2", "< 0.5"),
      box("heat-3", "< 0.1"),
    );
  }
  if (colouring === "entropy") {
    if (!scale.entropy) return el("p", { class: "keys dim" }, "entropy: not recorded, no colour");
    const at = (share) => number(scale.entropy * share, 2);
    return el(
      "p",
      { class: "keys" },
      box("", "low"),
      box("heat-1", `≥ ${at(0.05)}`),
      box("heat-2", `≥ ${at(1 / 3)}`),
      box("heat-3", `≥ ${at(2 / 3)} nats`),
    );
  }
  return el("p", { class: "keys dim" }, "no colour");
}
