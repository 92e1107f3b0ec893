/** Elements and text. Text becomes text nodes only; invisible characters are shown as chips. */

const SVG = "http://www.w3.org/2000/svg";
const REFUSED = /^(on|style$|srcdoc$)/i;
const LONG = 20_000; // largest number of characters of a text that are shown at first
const CHIPS = 2_000; // largest number of chips in one text; further ones are plain text
const HIDDEN = new RegExp(
  [
    "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad]", // control, soft hyphen
    "[\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f]", // zero width, bidi
    "[\\ufe00-\\ufe0d\\ufeff\\ufff9-\\ufffb]|[\\u{e0000}-\\u{e0fff}]", // variants, tags
  ].join("|"),
  "gu",
);

/**
 * Fill a node with attributes and children.
 * @param {Element} node
 * @param {Object} attributes `on` holds listeners, `data` the dataset, `vars` CSS variables
 * @param {Array} children nodes, strings, or null
 */
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    } else if (name === "data") Object.assign(node.dataset, value);
    else if (name === "vars") {
      for (const [key, entry] of Object.entries(value)) node.style.setProperty(key, entry);
    } else if (REFUSED.test(name)) throw new TypeError(`attribute ${name} is not set here`);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

/** Make an HTML element: el("p", {class: "note"}, "text"). */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Make an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Make a button that does something. */
export function button(label, act, attributes = {}) {
  return el("button", { type: "button", ...attributes, on: { click: act } }, label);
}

/** Return a table that scrolls if it is too wide; a title is a text or a cell. */
export function grid(titles, rows, attributes = {}) {
  const cell = (title) => (title instanceof Node ? title : el("th", { scope: "col" }, title));
  const head = el("thead", {}, el("tr", {}, titles.map(cell)));
  const table = el("table", attributes, head, el("tbody", {}, rows));
  return el("div", { class: "scroll" }, table);
}

/** Return the label of a button: what it does, and its key. */
export function withKey(label, key) {
  return [label, " ", el("kbd", {}, key)];
}

/** Return a note that says why there is nothing to see, and a command that changes this. */
export function empty(sentence, line) {
  const code = line && el("p", {}, el("code", {}, line));
  return el("div", { class: "note empty" }, el("p", {}, pieces(sentence)), code || null);
}

function codePoint(character) {
  return `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Return the nodes of a text, with a chip for each invisible character. */
export function pieces(string) {
  const nodes = [];
  let from = 0;
  let chips = 0;
  for (const match of string.matchAll(HIDDEN)) {
    if (match.index > from) nodes.push(document.createTextNode(string.slice(from, match.index)));
    const name = codePoint(match[0]);
    if (chips < CHIPS) nodes.push(el("span", { class: "chip", title: "not visible" }, name));
    else nodes.push(document.createTextNode(`[${name}]`));
    chips += 1;
    from = match.index + match[0].length;
  }
  if (from < string.length) nodes.push(document.createTextNode(string.slice(from)));
  return nodes;
}

/** Return a text as one line for a title or label, with [U+202E] for an invisible character. */
export function plain(value, length = 80) {
  const string = String(value ?? "").slice(0, length + 1);
  const short = string.length > length ? `${string.slice(0, length)}…` : string;
  return short.replace(HIDDEN, (character) => `[${codePoint(character)}]`).replace(/\s+/g, " ");
}

/** Return a short text of a run, such as a name or a move, as an isolated span. */
export function word(value, attributes = {}) {
  const string = String(value ?? "");
  const short = string.length > 200 ? `${string.slice(0, 200)}…` : string;
  return el("span", { ...attributes, class: `text ${attributes.class ?? ""}` }, pieces(short));
}

/** Return a number of characters for people: "9.5 M". */
export function size(characters) {
  if (characters < 1000) return `${characters}`;
  if (characters < 1e6) return `${(characters / 1000).toFixed(0)} k`;
  return `${(characters / 1e6).toFixed(1)} M`;
}

/**
 * Return a long text as an isolated block. Past 20,000 characters it is cut, with a button.
 * @param {string} string
 * @param {string} kind class of the block
 */
export function passage(string, kind = "") {
  const body = el("span", {}, pieces(string.slice(0, LONG)));
  const block = el("div", { class: `text passage ${kind}`, dir: "auto" }, body);
  if (string.length > LONG) {
    const more = button(`show all ${size(string.length)} characters`, () => {
      body.replaceChildren(...pieces(string));
      more.remove();
    });
    more.className = "more";
    block.append(el("span", { class: "cut" }, "…"), more);
  }
  return block;
}

/** Say that a run lacks something: "not recorded". */
export function missing(what, why = "not recorded") {
  return el("p", { class: "missing" }, `${what}: ${why}`);
}
