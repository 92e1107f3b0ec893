"""A league in which each role has a population of its own: two policies for two roles, and sides that are weighed apart."""

import json

import numpy as np
import pytest

import sparring
from sparring.config import resolve
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.experiments.room import Opposite
from sparring.experiments.sitting import Sitting
from sparring.league.matchmakers import meta_strategy
from sparring.league.meta_payoffs import side_payoffs
from sparring.league.payoffs import Payoffs
from sparring.recipe import to_yaml
from sparring.refs import ref, snapshot
from sparring.rollout.store import EpisodeStore
from sparring.rollout.team import Team
from sparring.run import checkpoint
from sparring.run.folder import RunFolder
from sparring.run.loop import train

CONFIG = {
    "steps": 3,
    "threads": 1,
    "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}],
    "rollout": {"games_per_step": 16},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "policies": {"one": {}, "two": {}},
    "roles": {"first": "one", "second": "two"},
    "matchmaker": {"name": "meta_strategy", "solver": "nash", "sides": "apart"},
    "league": {"every": 1, "keep": 4, "start": True, "plays": 18},
    "credit": {"name": "rae"},
    "evaluation": {"every": 9, "exact": False},
    "store": {"every": 1},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path, config = tmp_path_factory.mktemp("roles") / "run", resolve(CONFIG)
    with RunFolder.create(path, to_yaml(config)) as folder:
        train(config, LocalEngine(config), folder)
    return path


def book_of(path, step):
    return Payoffs.from_json(checkpoint.load_step(path, step).state["payoffs"])


def test_who_is_met_in_a_role_is_of_that_role_s_population(trained):
    """Half of the plays train each role; the other seat has a snapshot of the other role's policy."""
    seats = [(episode.trained.index(True), episode.players) for _, episode in EpisodeStore(trained / "episodes").episodes()]
    assert {own for own, _ in seats} == {0, 1}
    for own, players in seats:
        names = ("one", "two")
        assert players[own] == ref(f"learner-{names[own]}")
        assert players[1 - own].kind == "snapshot" and players[1 - own].name == names[1 - own]


def test_members_meet_in_all_pairs_of_the_sides(trained):
    """Also a member's first role and its own second role, which are two policies."""
    members = [snapshot(step) for step in (0, 1, 2)]
    game = side_payoffs(book_of(trained, 3), members, "kuhn_poker", (0, 1), opposed=True)
    assert (game.counts > 0).all() and game.counts.diagonal().min() >= 1
    assert not np.allclose(game.payoffs[0], -game.payoffs[0].T)  # the roles are not alike


def test_a_role_meets_the_meta_strategy_of_the_other_side(trained, monkeypatch):
    """With a solver that gives the first side's oldest member and the second side's newest one."""
    from sparring.league.meta_solvers.base import MetaStrategy

    def odd(_, game):
        return MetaStrategy(sides=tuple(np.eye(size)[place] for size, place in zip(game.shape, (0, -1), strict=True)))

    monkeypatch.setattr(meta_strategy, "solved", odd)
    meta_strategy._solved_apart.cache_clear()
    path, config = trained.parent / "odd", resolve({**CONFIG, "steps": 2})
    with RunFolder.create(path, to_yaml(config)) as folder:
        train(config, LocalEngine(config), folder)
    met = {}
    for step, episode in EpisodeStore(path / "episodes").episodes():
        other = 1 - episode.trained.index(True)
        met.setdefault((step, other), set()).add(episode.players[other].step)
    assert met == {(1, 0): {0}, (1, 1): {0}, (2, 0): {0}, (2, 1): {1}}


def test_without_it_nothing_of_a_run_changes(tmp_path):
    """sides: together is the default, and members do not meet themselves."""
    config = resolve({**CONFIG, "steps": 1, "matchmaker": {"name": "meta_strategy"}})
    with RunFolder.create(tmp_path / "run", to_yaml(config)) as folder:
        train(config, LocalEngine(config), folder)
    rows = book_of(tmp_path / "run", 1).rows
    assert json.dumps(sorted({str(row.player) for row in rows if row.player == row.opponent})) == "[]"


def test_a_mixture_of_members_of_two_policies_plays_each_in_its_role(trained):
    """A member is a policy for each role: who is drawn sits there by the policy of the role."""
    run = sparring.load_run(trained)
    mixture, asked = run.answer("uniform"), []
    inner = mixture._agent_of
    mixture._agent_of = lambda who: spied(inner(who), asked)
    game = make_game("kuhn_poker", options={"style": "brief"})
    episodes = sparring.play(game, [mixture, mixture], plays=40)
    assert all(episode.agents == ("MemberMixture", "MemberMixture") for episode in episodes)
    assert {(seat, agent.name) for seat, agent in asked} == {(seat, f"past-{name}-{step:06d}") for seat, name in enumerate(("one", "two")) for step in range(4)}
    person = Sitting(game, 0, Opposite("mixture-answer", "the answer", mixture), 3)
    while person.asked is not None:
        person.say(person.legal[0])
    assert person.episode.agents == ("person-you", "mixture-answer") and ref(person.drawn["second"]) in mixture.members
    assert person.record(person.episode).agents == ("person-you", person.drawn["second"])


def spied(team, asked):
    """Return a team that says whom it seats where."""

    def at(game, seat):
        asked.append((seat, team.at(game, seat)))
        return asked[-1][1]

    return Team(team.name, at)
