// Runs before the page is painted: the chosen theme, so that nothing flashes.
"use strict";
{
  let stored = null;
  try {
    stored = localStorage.getItem("sparring-theme");
  } catch {
    // storage is refused: follow the system
  }
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = stored ?? (dark ? "dark" : "light");
}
