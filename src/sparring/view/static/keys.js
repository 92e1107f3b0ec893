/** The table of keys: keys of the page, and keys of the view that is shown. */

import { button, el } from "./dom.js";

/** A key of the table that is any digit. */
export const DIGITS = "0, 1, 2, 3, 4, 5, 6, 7, 8, 9";
const PAGE = [
  ["?", "these keys", () => help()],
  ["t", "light or dark", () => document.querySelector("#theme").click()],
  ["g r", "runs", () => visit("runs")],
  ["g c", "curves", () => visit("curves")],
  ["g p", "replays", () => visit("replay")],
  ["g l", "league", () => visit("league")],
  ["g w", "workers", () => visit("workers")],
  ["g y", "play yourself", () => visit("play")],
];
// displayed names of keys
const CAPS = { ArrowLeft: "←", ArrowRight: "→", [DIGITS]: "0 to 9" };
const current = { keys: [], prefix: "" };

function visit(view) {
  document.querySelector(`nav a[data-view="${view}"]`)?.click();
}

/**
 * Set the keys of the view.
 * @param {Array} keys rows of [key, what it does, function]
 */
export function setKeys(keys) {
  current.keys = keys;
}

/** Show or hide the table of keys. */
export function help() {
  const dialog = document.querySelector("#keys");
  if (dialog.open) {
    dialog.close();
    return;
  }
  const row = ([key, what]) =>
    el("tr", {}, el("th", {}, el("kbd", {}, CAPS[key] ?? key)), el("td", {}, what));
  dialog.replaceChildren(
    el("h2", {}, "Keys"),
    el("table", {}, el("tbody", {}, [...current.keys, ...PAGE].map(row))),
    button("Close", () => dialog.close()),
  );
  dialog.showModal();
}

function isTextField(target) {
  if (target.isContentEditable || target.matches?.("textarea, select")) return true;
  return Boolean(target.matches?.("input:not([type=checkbox]):not([type=radio])"));
}

function onKeydown(event) {
  if (document.querySelector("dialog:modal")) {
    if (event.key === "?") help(); // all other keys are for the dialog; Escape closes it
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || isTextField(event.target)) {
    if (event.key === "Escape" && isTextField(event.target)) event.target.blur();
    return;
  }
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const keys = current.prefix ? `${current.prefix} ${name}` : name;
  current.prefix = "";
  const match = [...current.keys, ...PAGE].find(([key]) => key.split(", ").includes(keys));
  if (match) {
    event.preventDefault();
    match[2](name);
  } else if (name === "g") current.prefix = "g";
}

/** Listen to the keyboard. */
export function listen() {
  document.addEventListener("keydown", onKeydown);
}
