"""Who plays whom: starts, matchmakers, members."""

import pytest

from sparring.config import resolve
from sparring.environments.catalogue import make_game
from sparring.errors import ConfigError
from sparring.league.matchmakers.mirror import mirror
from sparring.league.matchmakers.mixed import mixed
from sparring.league.starts import starts
from sparring.refs import LEARNER
from sparring.registry import bind
from sparring.rng import Stream
from sparring.testing import match_request

ROOT = Stream.from_seed(0)


def request(number, seats=2, members=("past-000001", "past-000002"), teams=None):
    return match_request(seats, number=number, members=members, teams=teams)


def names(seating):
    return tuple(map(str, seating.seats))


@pytest.mark.parametrize("seats", [1, 2, 5])
def test_mirror_seats_the_learner_everywhere(seats):
    seating = mirror(request(0, seats))
    assert names(seating) == ("learner",) * seats and seating.trained == (True,) * seats


@pytest.mark.parametrize("seats", [2, 3])
def test_mixed_keeps_its_shares_and_balances_seats(seats):
    seatings = [mixed(request(i, seats), past=0.25, bots={"random": 0.5}) for i in range(4000)]
    kinds = [next((s.kind for s in seating.seats if s != LEARNER), "learner") for seating in seatings]
    shares = {kind: kinds.count(kind) / len(kinds) for kind in set(kinds)}
    assert shares == {"snapshot": pytest.approx(0.25, abs=0.03), "bot": pytest.approx(0.5, abs=0.03), "learner": pytest.approx(0.25, abs=0.03)}
    own = [seating.trained.index(True) for seating, kind in zip(seatings, kinds, strict=True) if kind != "learner"]
    assert all(own.count(seat) / len(own) == pytest.approx(1 / seats, abs=0.03) for seat in range(seats))
    for seating in seatings:
        assert all((name == LEARNER) == trained for name, trained in zip(seating.seats, seating.trained, strict=True))
    met = {name for seating in seatings for name in names(seating) if name.startswith("past")}
    assert met == {"past-000001", "past-000002"}


def test_without_a_past_its_share_goes_to_the_mirror():
    assert names(mixed(request(0, members=()), past=1.0)) == ("learner", "learner")


@pytest.mark.parametrize("options", [{"past": -0.1}, {"past": 0.8, "bots": {"random": 0.3}}])
def test_shares_must_be_shares(options):
    with pytest.raises(ConfigError, match="sum to at most 1"):
        mixed(request(0), **options)


def test_starts_are_a_function_of_the_step_and_groups_share_their_start():
    config = resolve({"environments": [{"name": "kuhn_poker"}], "rollout": {"games_per_step": 12, "group_size": 4}})
    games = [(make_game("kuhn_poker"), 1.0), (make_game("tic_tac_toe"), 3.0)]

    def at(step):
        return starts(
            step, games=games, rollout=config.rollout, matchmaker=bind("league.matchmakers", "mirror"), members=(), root=ROOT, progress=0.0
        )

    specs = at(3)
    assert [spec.group_id for spec in specs] == [9] * 4 + [10] * 4 + [11] * 4
    assert len({spec.episode_id for step in range(4) for spec in at(step)}) == 48
    for group in range(3):
        members = specs[4 * group : 4 * group + 4]
        assert len({(m.game.name, m.deal.key) for m in members}) == 1
        assert len({m.stream.key for m in members}) == 4
    assert [s.deal.key for s in at(3)] == [s.deal.key for s in specs] != [s.deal.key for s in at(4)]
    played = [spec.game.name for step in range(300) for spec in at(step)]
    assert played.count("tic_tac_toe") / len(played) == pytest.approx(0.75, abs=0.05)
