// Sets the chosen theme before the page is painted, so that the page does not flash.
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
