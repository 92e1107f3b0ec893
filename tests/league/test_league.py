import hashlib
import inspect
import json

import pytest

from sparring.config import resolve
from sparring.config.plugins.registry import Plugin, bind, with_options
from sparring.core.errors import ConfigError
from sparring.core.records import LEARNER, EnvironmentSpec, snapshot
from sparring.core.rng import Stream
from sparring.environments.catalogue import from_spec, make_game
from sparring.league.matchmakers.base import self_play
from sparring.league.matchmakers.mirror import mirror
from sparring.league.matchmakers.mixed import mixed
from sparring.league.payoffs import Payoffs, Results, Row
from sparring.league.seating import step_specs
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
    assert shares == {
        "snapshot": pytest.approx(0.25, abs=0.03),
        "bot": pytest.approx(0.5, abs=0.03),
        "learner": pytest.approx(0.25, abs=0.03),
    }
    learner_seats = [
        seating.trained.index(True) for seating, kind in zip(seatings, kinds, strict=True) if kind != "learner"
    ]
    assert all(
        learner_seats.count(seat) / len(learner_seats) == pytest.approx(1 / seats, abs=0.03) for seat in range(seats)
    )
    for seating in seatings:
        assert all((name == LEARNER) == trained for name, trained in zip(seating.seats, seating.trained, strict=True))
    snapshots = {name for seating in seatings for name in names(seating) if name.startswith("past")}
    assert snapshots == {"past-000001", "past-000002"}


def test_without_a_past_its_share_goes_to_the_mirror():
    assert names(mixed(request(0, members=()), past=1.0)) == ("learner", "learner")


@pytest.mark.parametrize("together", [False, True])
def test_mixed_seats_whom_it_seated_when_players_were_names(together):
    """The digest was taken at 4624d02; where all are one team each seat is a draw of its own, as it was."""
    seatings = []
    for number in range(600):
        seats, members = 1 + number % 5, [f"past-{step:06d}" for step in range(1, 1 + number % 5)]
        teams = (0,) * seats if together else None
        seating = mixed(
            match_request(seats, number=number, members=members, teams=teams), past=0.5, bots={"random": 0.3}
        )
        seatings.append([names(seating), seating.trained])
    assert (
        hashlib.sha256(json.dumps(seatings).encode()).hexdigest()
        == "b2ea9e570af8183d841314461ad069d9cc0fdcaf39d2070a36e0f6aa980a030a"
    )


def test_a_team_is_one_player():
    teams, counts = (0, 1, 0, 2, 1, 2), set()
    for number in range(200):
        seating = mixed(request(number, 6, teams=teams), past=1.0)
        trained_teams = {team for team, player in zip(teams, seating.seats, strict=True) if player == LEARNER}
        assert trained_teams == {number % 3} and seating.trained == tuple(team in trained_teams for team in teams)
        by_team = {
            team: {player for other, player in zip(teams, seating.seats, strict=True) if other == team}
            for team in teams
        }
        assert all(len(players) == 1 for players in by_team.values())
        counts.add(len(set(seating.seats)))
    assert counts == {2, 3}  # teams draw on their own: two may be of one snapshot or of two


def test_a_matchmaker_is_told_what_is_played_by_whom_and_with_what_results():
    requests, book = [], Payoffs({Row("urns", 0, LEARNER, snapshot(4)): Results(games=1, wins=1)})

    def curious(request):
        requests.append(request)
        return self_play(request)

    matchmaker = with_options(
        Plugin(slot="league.matchmakers", name="curious", function=curious, module=inspect.getmodule(curious))
    )
    config = resolve({"environments": [{"name": "kuhn_poker"}], "rollout": {"games_per_step": 2}})
    games = [(from_spec(EnvironmentSpec(name="tiny_hanabi", label="urns")), 1.0)]
    step_specs(
        7, games=games, rollout=config.rollout, matchmaker=matchmaker, members=(snapshot(4),), root=ROOT, progress=0.5, payoffs=book, bots=("weak",)
    )  # fmt: skip
    first, second = requests
    assert (first.number, second.number, first.step, first.bots) == (14, 15, 7, ("weak",))
    assert (first.environment.name, first.environment.label, first.teams, len(first.roles)) == (
        "tiny_hanabi",
        "urns",
        (0, 0),
        2,
    )
    assert first.results(snapshot(4)).wins == 1 and first.results(snapshot(5)).games == 0


@pytest.mark.parametrize("options", [{"past": -0.1}, {"past": 0.8, "bots": {"random": 0.3}}])
def test_shares_must_be_shares(options):
    with pytest.raises(ConfigError, match="sum to at most 1"):
        mixed(request(0), **options)


def test_starts_are_a_function_of_the_step_and_groups_share_their_start():
    config = resolve({"environments": [{"name": "kuhn_poker"}], "rollout": {"games_per_step": 12, "group_size": 4}})
    games = [(make_game("kuhn_poker"), 1.0), (make_game("tic_tac_toe"), 3.0)]

    def at(step):
        return step_specs(
            step,
            games=games,
            rollout=config.rollout,
            matchmaker=bind("league.matchmakers", "mirror"),
            members=(),
            root=ROOT,
            progress=0.0,
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
