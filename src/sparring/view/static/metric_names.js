/** Figures by name: their meaning, their good direction, and their section. */

const SECTIONS = ["Skill", "Replies", "Learning", "Time"];
// kinds of figures; the kind is the part of a name before its first "/"
const DISTANCES = [
  ...["nash_conv", "exploitability", "team_exploitability", "one_seat_exploitability"],
  ...["as_one_exploitability", "optimality_gap"],
];
const FAULTS = ["illegal_mass", "illegal_mass_reached", "forfeit_rate", "unparsable_rate"];
const SKILL = [
  ...DISTANCES,
  ...["regret", "optimal_rate", "match", "match_seen", "value", "return", "reward"],
  "seat_asymmetry",
];
const REPLIES = [
  ...FAULTS,
  ...["legal_rate", "truncated_rate", "overlong_rate", "reply_tokens", "turns_per_game"],
  ...["sampled_entropy", "distinct_share", "retried_games"],
];
const LOWER = [...DISTANCES, ...FAULTS, "regret", "truncated_rate", "overlong_rate"];
const HIGHER = ["legal_rate", "optimal_rate", "value", "return"];
const MATCHES = ["match", "match_seen"];
const LOWER_ENDS = ["regret"];
const HIGHER_ENDS = ["win_or_draw", "success", "optimal"];
const MEANINGS = [
  [/^nash_conv\//, "what best responses gain against the policy, summed over seats; best is 0"],
  [/^exploitability\//, "what a best response in this seat gains against the policy"],
  [/^legal_rate/, "share of replies that are legal actions, by the weights that learn"],
  [/^match\w*\/.*\/win_or_draw$/, "share of episodes against this opponent that are won or drawn"],
  [/^match\w*\/.*\/success$/, "share of episodes with the highest payoff"],
  [/^return\//, "mean payoff of an episode in this seat, in the environment's units"],
];

const glossary = {}; // meanings from the glossary of `sparring explain`, by name

const kindOf = (name) => name.split("/")[0];

/** Learn the meanings that the server gives with the names of a run's figures. */
export function learn({ meanings = {} }) {
  Object.assign(glossary, meanings);
}

/** Return whether "lower" or "higher" values of a figure are better; null if neither. */
export function better(name) {
  const kind = kindOf(name);
  const end = MATCHES.includes(kind) ? name.split("/").at(-1) : "";
  if (LOWER.includes(kind) || LOWER_ENDS.includes(end)) return "lower";
  if (HIGHER.includes(kind) || HIGHER_ENDS.includes(end)) return "higher";
  return kind.endsWith("_per_second") ? "higher" : null;
}

/** Return a figure's meaning and its better direction, for a title; null if neither is known. */
export function meaning(name) {
  const words = MEANINGS.find(([pattern]) => pattern.test(name))?.[1] ?? glossary[name];
  const direction = better(name);
  return [words, direction && `${direction} is better`].filter(Boolean).join("; ") || null;
}

/** Return whether a chart of a figure begins at 0: the value of best play. */
export function beginsAtZero(name) {
  return DISTANCES.includes(kindOf(name));
}

/** Return [section, names] of all figures of some runs. */
export function sections(answers) {
  const timing = new Set(answers.flatMap((answer) => answer.timing ?? []));
  const metrics = new Set(answers.flatMap((answer) => answer.metrics ?? []));
  const sectionOf = (name) => {
    if (timing.has(name)) return "Time";
    if (SKILL.includes(kindOf(name))) return "Skill";
    return REPLIES.includes(kindOf(name)) ? "Replies" : "Learning";
  };
  const names = [...new Set([...metrics, ...timing])].sort();
  return SECTIONS.map((section) => [section, names.filter((name) => sectionOf(name) === section)]);
}
