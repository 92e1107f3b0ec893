"""Every row of the table of algorithms in docs/league.md that has options, or a recipe, starts as a run."""

import re
import shlex
from pathlib import Path

import pytest

from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe, to_yaml
from sparring.engine.local import LocalEngine
from sparring.play.store import EpisodeStore
from sparring.run.folder import RunFolder
from sparring.run.loop import train
from studies.self_play.algorithms import ALGORITHMS

PAGE = Path(__file__).parents[2] / "docs" / "league.md"
SECTION = PAGE.read_text().split("## Every algorithm of self-play")[1].split("\n## ")[0]
TABLE = [[cell.strip() for cell in line.strip("|").split("|")] for line in SECTION.splitlines() if line.startswith("| ")][1:]
HOW = {name: how.strip("`") for name, how, _ in TABLE if how != "no"}
COMMON = re.search(r"on top of `([^`]+)`", SECTION)[1]
SMALL = (
    "threads=1 rollout.games_per_step=8 warmup.updates=1 warmup.games=4 evaluation.every=9 evaluation.exact=false store.every=1 "
    "model.hidden_size=8 model.layers=1 model.heads=1 learner.minibatches=1"
)


def config_of(how, steps=2):
    words = shlex.split(how)
    recipe, own = (words[0], words[1:]) if "=" not in words[0] else ("kuhn-tiny", [*shlex.split(COMMON), *words])
    data = apply_overrides(load_recipe(recipe), [*own, f"steps={steps}", *shlex.split(SMALL)])
    league = data.get("league", {})
    if league.get("every"):
        league["every"] = 1
        league["plays"] = min(league.get("plays", 0), 12)
    return resolve(data)


@pytest.mark.parametrize("name", HOW)
def test_a_row_with_options_starts_as_a_run(tmp_path, name):
    config = config_of(HOW[name])
    engine = LocalEngine(config)
    with RunFolder.create(tmp_path / "run", to_yaml(config)) as folder:
        assert train(config, engine, folder).finished
    episodes = [episode for _, episode in EpisodeStore(tmp_path / "run" / "episodes").episodes()]
    met = {player.kind for episode in episodes for player in episode.players}
    expected = {"learner", "snapshot"} if config.league.every else {"learner"}
    assert met == expected
    assert all(any(episode.trained) for episode in episodes)


@pytest.mark.parametrize(("earned", "newest"), [(9, [0, 0, 0]), (-9, [0, 1, 2])])
def test_the_gate_s_opponent_is_the_best_policy_so_far(tmp_path, earned, newest):
    """A candidate that earns too little takes nobody's place; one that earns enough is met from the next step on."""
    config = config_of(f"league/gate-tiny league.schedule.earned={earned} league.schedule.least=1", steps=3)
    with RunFolder.create(tmp_path / "run", to_yaml(config)) as folder:
        train(config, LocalEngine(config), folder)
    met = {step: set() for step in (1, 2, 3)}
    for step, episode in EpisodeStore(tmp_path / "run" / "episodes").episodes():
        assert sum(episode.trained) == 1
        met[step] |= {player.step for player, own in zip(episode.players, episode.trained, strict=True) if not own}
    assert [met[step] for step in (1, 2, 3)] == [{step} for step in newest]


def test_the_table_has_every_algorithm_once_and_says_what_is_missing():
    """At least as many rows as the study has algorithms that are not variants of one row here."""
    names = [name for name, *_ in TABLE]
    assert len(names) == len(set(names)) and len(TABLE) >= 30
    assert all(missing for _, how, missing in TABLE if how == "no")
    assert {"NFSP", "XDO", "AlphaStar's league", "AlphaGo Zero's gate", "uniform past", "double oracle"} <= {*names} & {*ALGORITHMS}
