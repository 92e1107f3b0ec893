/** Numbers as people read them. */

/** Return a number as text with about four digits; "–" if there is no number. */
export function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  const sign = value < 0 ? "−" : "";
  if (Number.isInteger(value) && size < 1e7) return sign + size.toLocaleString("en");
  if (size >= 1e5 || (size > 0 && size < 1e-3)) return sign + size.toExponential(2);
  return sign + String(Number(size.toPrecision(digits)));
}

/** Return a number with its sign, as for advantages. */
export function signed(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  const text = number(Math.abs(value), digits);
  if (value === 0) return "0";
  return value < 0 ? `−${text}` : `+${text}`;
}

/** Return a probability: "0.93", "<0.001". */
export function probability(value) {
  if (value === null || value === undefined) return "–";
  if (value > 0 && value < 0.001) return "<0.001";
  return value.toFixed(3).replace(/0$/, "");
}

/** Return a time for people: "3 min 20 s". */
export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1) return `${(value * 1000).toFixed(0)} ms`;
  if (value < 90) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  if (value < 5400) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  return `${Math.floor(value / 3600)} h ${Math.round((value % 3600) / 60)} min`;
}

/** Return a date for people, in the time of this machine: "30 Nov 2026, 03:10". */
export function date(text) {
  const when = new Date(text ?? "");
  if (Number.isNaN(when.getTime())) return "–";
  const day = { day: "numeric", month: "short", year: "numeric" };
  return when.toLocaleString("en-GB", { ...day, hour: "2-digit", minute: "2-digit" });
}

/** Return a count with its noun: "1 turn", "3 turns". */
export function count(value, noun) {
  return `${value.toLocaleString("en")} ${noun}${value === 1 ? "" : "s"}`;
}
