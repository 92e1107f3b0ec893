"""The page of tabular self-play, studies/self_play/page.md, from its results file."""

from __future__ import annotations

from sparring.report.svg import Series, line_chart
from studies.common.result_figures import (
    SIGNIFICANCE_LEVEL,
    Maker,
    Results,
    curve,
    markdown,
    mean,
    values,
)
from studies.self_play.algorithms import ALGORITHMS, FAMILIES, STEPS
from studies.self_play.claims import (
    AFTER,
    END,
    GAMES,
    OWN,
    answers,
    claims,
    games,
    shown_at,
    verdicts,
)
from studies.self_play.references import ALPHA, REFERENCES, STEP
from studies.self_play.words import columns

CHARTS = {
    "last": (
        "vanilla",
        "uniform past",
        "delta-uniform 0.5",
        "PFSP squared",
        "PFSP variance",
        "AlphaGo Zero's gate",
        "OpenAI Five's, unverified",
        "live mirror",
    ),
    "average": (
        "fictitious play",
        "fictitious self-play",
        "NFSP",
        "live mirror, average",
        "PSRO uniform",
        "CFR",
        "CFR+",
        "MMD",
    ),
    "mixture": (
        "double oracle",
        "PSRO Nash",
        "PSRO replicator",
        "PSRO rectified",
        "anytime PSRO",
        "XDO",
        "diverse PSRO",
        "pipeline PSRO",
    ),
}
CAPTIONS = {
    "last": "Answers that are one policy",
    "average": "Answers that are averages, and the references",
    "mixture": "Answers that are mixtures by a solver",
}
DRAWN = ("matrix_rps", "kuhn_poker", "leduc_poker")
INTRO = """\
Every algorithm of self-play is a choice of four parts: the existing policies (population), \
the opponents of a new policy (its row, computed by a solver), the training of a new policy \
(oracle), and the final policy (answer). This page runs all algorithms in one loop, \
`studies/self_play/frame.py`. An algorithm is a recipe of a few lines in \
`studies/self_play/algorithms.py`; an algorithm with an additional step has a class for it.

The frame and the claims are those of "A survey on self-play methods in reinforcement learning" \
(arXiv 2408.01072). We know the survey from notes, not from its own table. Policies are tables, \
payoffs \
and exploitability are exact, and a mixture is drawn once per episode.
"""
READING = """\
- **NashConv** is the sum, over seats, of how much a best response gains; it is 0 at an \
equilibrium. The unit is that of the game. The largest payoff is 1 in rock-paper-scissors (RPS), \
50 in biased RPS, \
2 in Kuhn poker and 13 in Leduc poker.
- An **answer** of each side is the unit of training: one exact best response, or {steps} steps of \
improvement. A step is one step of the natural policy gradient with exact values. It stands for \
reinforcement learning with a budget. An algorithm that trains several policies at once needs \
one answer per round for each of them, so it has fewer rounds. The cost of the payoff table is \
not included; \
the column **payoffs** counts the cells of this table.
- Figures are means over seeds with Student's 95 % interval. A seed determines the first \
policies, and \
the random draws of an algorithm. Figures without an interval have one seed.
- In Kuhn and Leduc each seat has its own population. In RPS both seats share one population, \
except \
in the independent learners. In Kuhn and Leduc each seat has a table, so the live mirror equals \
the \
independent learners.
"""
TRAPS = """\
- Averages and mixtures combine probabilities, not logits. The weight of a policy in a state is \
its probability of reaching this state.
- A mixture is drawn once per episode. Its behavioural equivalent is exact; a property test \
compares \
payoffs.
- `pfsp` uses the newest policy's exact win rates; rates from training episodes would be \
biased.
- Indices of delta-uniform count stored policies, not steps.
- Comparisons use equal numbers of answers, not of rounds.
- Anytime PSRO and XDO solve a linear program in the whole game every round; the columns do not \
count it.
- The gate, PFSP and the league use the win rate (a draw is half a win), while oracles maximise \
the \
payoff. In poker a policy with more chips may win less often: in Kuhn and Leduc the gate \
accepted {promoted} of {tried} new policies.
- JPSRO's answer uses the marginals of its joint distribution, which is enough if two payoffs sum \
to 0.
- The references have other units of training. A pass of CFR, CFR+ or MMD visits the whole tree \
once; {each} sampled passes of external sampling count as one answer. MMD has alpha {alpha} and \
steps of \
{step}, in units of the largest payoff, so it converges to an equilibrium with entropy, not to \
NashConv 0. \
MMD's step was not tuned, and it would need more passes.
"""
MISSING = {
    "AlphaGo": "the recipe of uniform past; its other parts are outside the frame",
    "Nash + uniform, history mix, QRE, RRD": "one meta-solver each",
    "SP-PSRO": "a second new policy per round in anytime PSRO",
    "online double oracle": "a meta-solver with a state between rounds (Hedge)",
    "NXDO": "a deep oracle; with tables it is XDO",
    "behaviour and response diversity, unified, policy-space diversity": "other goals of `Diverse`",
    "EPSRO": "a payoff table without some cells",
    "Team-PSRO, FXP": "a game of teams; the games of this page have two single seats",
    "NAC, self-adaptive PSRO": "solvers that are learned",
    "FTW": "training of options and internal rewards by population",
    "Simplex-NeuPL": "policies that get the mixture to answer as input",
    "NeuPL itself": "one network for all rows; tables share nothing, hence NeuPL-like",
    "MAGE's pool": "scripted bots as members",
    "DCFR, Linear CFR": "not run as references",
    "Deep CFR, DREAM, ESCHER": "networks",
    "NeuRD, R-NaD": "the changing rewards of R-NaD; NeuRD's step is close to the live mirror's",
}


def page(results: Results) -> str:
    """Return the page, with links to the charts in the folder ``images`` beside it."""
    parts = ["# Self-play: one frame for all algorithms", INTRO.strip(), results.source()]
    parts += ["## How to read it", READING.format(steps=STEPS).strip()]
    for family, recipes in FAMILIES.items():
        names_with_results = [name for name in recipes if results.rows(algorithm=name)]
        if names_with_results:
            parts += [
                f"## {family}",
                recipes_table(names_with_results),
                figures_table(results, names_with_results),
            ]
    names_with_results = [name for name in REFERENCES if results.rows(algorithm=name)]
    parts += ["## References, by OpenSpiel", references_table(results, names_with_results)]
    parts += ["## Curves", *(f"![{image}](../../docs/images/{image})" for image in charts(results))]
    if set(ALGORITHMS) <= {row["algorithm"] for row in results.rows()}:
        parts += ["## The survey's claims", claims_table(results)]
    passes_per_answer = REFERENCES["external-sampling MCCFR"].each
    promoted, tried = gate(results)
    words = {
        "each": passes_per_answer,
        "alpha": ALPHA,
        "step": STEP,
        "promoted": promoted,
        "tried": tried,
    }
    parts += ["## Pitfalls", TRAPS.format(**words).strip()]
    parts += ["## What is missing", markdown(("algorithm", "what is missing"), MISSING.items())]
    return "\n\n".join(parts) + "\n"


def gate(results: Results) -> tuple[int, int]:
    """Return how many policies the gate let through in poker, and how many were trained."""
    num_promoted = num_trained = 0
    for game in ("kuhn_poker", "leduc_poker"):
        for row in results.rows(algorithm="AlphaGo Zero's gate", game=game):
            num_promoted += sum(int(count) - 2 for count in values(row, "members"))
            num_trained += sum(2 * int(count) for count in values(row, "rounds"))
    return num_promoted, num_trained


def recipes_table(names: list[str]) -> str:
    """Return the recipes of algorithms in the columns of the frame."""
    head = ("algorithm", "population", "row", "solver", "oracle", "answer")
    return markdown(head, [(name, *columns(ALGORITHMS[name])) for name in names])


def figures_table(results: Results, names: list[str]) -> str:
    """Return NashConv at the end by game, and what it took."""
    games_with_results = games(results)
    head = ["algorithm", *(f"NashConv, {GAMES[game]}" for game in games_with_results)]
    head += [
        f"by Nash of members, {GAMES[games_with_results[-1]]}",
        "answers",
        "rounds",
        "payoffs",
        "members",
    ]
    lines = []
    for name in names:
        rows = [results.row(algorithm=name, game=game) for game in games_with_results]
        last = rows[-1]
        cost_texts = [f"{mean(last, figure):,.0f}" for figure in ("rounds", "payoffs", "members")]
        texts = [shown_at(row, END) for row in rows]
        lines.append((name, *texts, shown_at(last, OWN), str(answers(last)[-1]), *cost_texts))
    note = f"Answers, rounds, payoffs and members are for {GAMES[games_with_results[-1]]}."
    return f"{markdown(head, lines)}\n\n{note}"


def references_table(results: Results, names: list[str]) -> str:
    """Return NashConv of the references by game."""
    games_with_results = games(results)
    head = ["solver", *(f"NashConv, {GAMES[game]}" for game in games_with_results), "passes"]
    lines = []
    for name in names:
        rows = [results.row(algorithm=name, game=game) for game in games_with_results]
        passes = answers(rows[-1])[-1] * REFERENCES[name].each
        lines.append((name, *(shown_at(row, END) for row in rows), f"{passes:,}"))
    return markdown(head, lines)


def claims_table(results: Results) -> str:
    """Return the survey's claims with what the figures say of them."""
    lines = [(claim.claim, f"**{claim.verdict}**", claim.figures) for claim in claims(results)]
    table = markdown(("claim", "here", "figures"), lines)
    number = sum(map(len, verdicts(results).values()))
    corrected = (
        f"The verdicts on differences, paired by seed, are corrected for all {number} differences "
        f"by Holm's method, at p < {SIGNIFICANCE_LEVEL}; the intervals are not corrected."
    )
    return f"{table}\n\n{corrected}"


def charts(results: Results) -> dict[str, str]:
    """Return NashConv against answers, means over seeds, by game and kind of answer."""
    files = {}
    for game in [game for game in games(results) if game in DRAWN]:
        for kind, names in CHARTS.items():
            series = [
                Series(name=name, points=curve(results.row(algorithm=name, game=game), AFTER))
                for name in names
                if results.rows(algorithm=name, game=game)
            ]
            if series:
                files[f"self-play-{game.replace('_', '-')}-{kind}.svg"] = line_chart(
                    series,
                    title=f"{GAMES[game]}: {CAPTIONS[kind]}",
                    note="NashConv, mean over seeds",
                    x_label="answers of each side",
                    standalone=True,
                )
    return files


MARKERS: dict[str, Maker] = {}
SECTIONS: dict[str, str] = {}
