// Runs before the page is painted: the chosen theme, so that nothing flashes.
"use strict";
{
  let chosen = null;
  try {
    chosen = localStorage.getItem("sparring-theme");
  } catch {
    // storage is refused: follow the system
  }
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = chosen ?? (dark ? "dark" : "light");
}
