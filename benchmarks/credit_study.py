"""What docs/credit-lab.md and docs/credit-race.md show.

    python benchmarks/credit_study.py lab     every estimator against the exact gradient, nine games
    python benchmarks/credit_study.py race    every estimator trains kuhn-tiny; set beside the lab

They write charts and results; `make docs` then draws the pages from the results. With `--small`
few estimators run for a moment.

Starts are "all": the games are enumerated, and NashConv is computed over every deal.
"""

import argparse
import json
import shlex
from pathlib import Path

from cells import sparring
from published import RESULTS, ROOT, record, settings

from sparring.report import credit_page, credit_race_page, race_claims

GAMES = (  # of tic-tac-toe a quiet middle game, one to be won at once, and one to be blocked
    *("kuhn_poker", "leduc_poker", "tic_tac_toe start='a1 b2 c3 a3'"),
    *("tic_tac_toe start='a1 b1 a2 b2'", "tic_tac_toe start='b2 a1 a3 c1'"),
    *("signalling", "tiny_hanabi", "repeated_dilemma", "needle_chain"),
)
LAB = (*(word for game in GAMES for word in ("--game", game)), "--policy", "random")
RACE = (
    *("steps=200", "warmup.updates=20", "rollout.games_per_step=128", "rollout.group_size=8"),
    *("evaluation.every=20", "learner.average=0.99", "learner.minibatches=2", "store.every=0"),
    "checkpoint.every=1000",
)
FEW = "rloo,grpo"


def lab_rows(result):
    """Return the rows of a comparison, each with its game."""
    return [lab_row(report["game"], one) for report in result["games"] for one in report["rows"]]


def lab_row(game, one):
    """Return the row of one estimator in one game: what it measured with its seed, or why not."""
    labels = {"game": game, "estimator": one["estimator"], "starts": "all"}
    if "refused" in one:
        return {**labels, "refused": one["refused"]}
    row = {**labels, "values": {}, "intervals": {}}
    for key in credit_page.KEYS:
        found = one[key] if isinstance(one[key], dict) else {"mean": one[key]}
        if found["mean"] is not None:
            row["values"][key] = {"0": found["mean"]}
        if found.get("low") is not None:
            row["intervals"][key] = [found["low"], found["high"]]
    return row


def race_rows(result, lab):
    """Return the rows of a race, each with its values per seed and what the lab says of it."""
    found = []
    for one in result["rows"]:
        labels = {"estimator": one["estimator"], "starts": "all"}
        if "refused" in one:
            found.append({**labels, "refused": one["refused"]})
            continue
        pairs = {"final": one["ends"], "mean": one["means"]}
        values = {
            key: {str(seed): value for seed, value in enumerate(of)} for key, of in pairs.items()
        }
        own = lab.get(one["estimator"])
        figures = {
            key: None if own is None else own[key]["mean"] for key in race_claims.LAB_KEYS
        }
        found.append({**labels, "values": values, "lab": figures})
    return found


def lab(given):
    """Run the lab."""
    words = ["credit", "compare", *LAB, "--estimators", FEW if given.small else "all", "--json"]
    result = json.loads(sparring(*words, *(["--episodes", "640"] if given.small else [])))
    reports = [
        {key: value for key, value in one.items() if key != "rows"} for one in result["games"]
    ]
    record(
        "credit-lab",
        lab_rows(result),
        given,
        command=command(words),
        setting=result["settings"],
        games=reports,
    )
    if given.out == RESULTS:
        credit_page.write_page(result, ROOT / "docs" / "credit-lab.md", command(words))
    (ROOT / "runs").mkdir(exist_ok=True)
    (ROOT / "runs" / "credit-lab.json").write_text(json.dumps(result), encoding="utf-8")


def race(given):
    """Run the race beside what the lab last said."""
    path = ROOT / "runs" / "credit-lab.json"
    if not path.exists():
        raise SystemExit(f"{path} is missing; run `python benchmarks/credit_study.py lab` first.")
    figures = race_claims.lab_rows(json.loads(path.read_text(encoding="utf-8")))
    few = (
        ["--estimators", FEW, "steps=3", "evaluation.every=1"]
        if given.small
        else ["--estimators", "all"]
    )
    words = ["credit", "race", "--recipe", "kuhn-tiny", "--seeds", "3", "--json", *RACE, *few]
    result = json.loads(sparring(*words, "--folder", str(given.folder)))
    record(
        "credit-race",
        race_rows(result, figures),
        given,
        command=command(words),
        setting=result["settings"],
    )
    if given.out == RESULTS:
        credit_race_page.write_page(
            result, ROOT / "docs" / "credit-race.md", command(words), figures
        )


def command(words):
    """Return the command line as it is typed."""
    return shlex.join(["sparring", *words])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", choices=("lab", "race"))
    parser.add_argument("--small", action="store_true", help="two estimators, for a moment")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "runs" / "race", help="of the race's runs"
    )
    given = settings(parser, "page")
    {"lab": lab, "race": race}[given.page](given)
