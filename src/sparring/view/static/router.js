/** The state of the page: the query of its address says what the page shows. */

const listeners = new Set();

/** Return the state: an object of strings. */
export function state() {
  return Object.fromEntries(new URLSearchParams(location.search));
}

/** Return the address of a state; empty values are left out. */
export function address(values) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) {
    if (value !== null && value !== undefined && value !== "") query.set(key, String(value));
  }
  return `?${query}`;
}

function tell() {
  for (const listener of listeners) listener(state());
}

/**
 * Go to a state.
 * @param {Object} values all values of the new state
 * @param {boolean} replace whether to replace the current entry of the browser's history
 */
export function go(values, replace = false) {
  const to = address(values);
  if (to === location.search) return;
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  tell();
}

/** Change some values of the state and keep the others. */
export function change(values, replace = false) {
  go({ ...state(), ...values }, replace);
}

/** Call a function at each change of the state, also after Back and Forward. */
export function follow(listener) {
  listeners.add(listener);
}

addEventListener("popstate", tell);
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href^='?']");
  if (!link || event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const values = Object.fromEntries(new URLSearchParams(link.getAttribute("href")));
  go(values);
});
