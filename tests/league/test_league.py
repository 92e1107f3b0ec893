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
from sparring.league.payoffs import Payoffs, Results, RowKey
from sparring.league.seating import step_specs
from sparring.testing import match_request

ROOT = Stream.from_seed(0)


def request(group_number, seats=2, members=("past-000001", "past-000002"), teams=None):
    return match_request(seats, number=group_number, members=members, teams=teams)


def player_names(seating):
    return tuple(map(str, seating.seats))


@pytest.mark.parametrize("seats", [1, 2, 5])
def test_mirror_seats_the_learner_everywhere(seats):
    seating = mirror(request(0, seats))
    assert player_names(seating) == ("learner",) * seats and seating.trained == (True,) * seats


@pytest.mark.parametrize("seats", [2, 3])
def test_mixed_keeps_its_shares_and_changes_seats(seats):
    seatings = [mixed(request(number, seats), past=0.25, bots={"random": 0.5}) for number in range(4000)]
    kinds = [next((player.kind for player in seating.seats if player != LEARNER), "learner") for seating in seatings]
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
    snapshots = {name for seating in seatings for name in player_names(seating) if name.startswith("past")}
    assert snapshots == {"past-000001", "past-000002"}


def test_without_snapshots_mixed_plays_the_learner_against_itself():
    assert player_names(mixed(request(0, members=()), past=1.0)) == ("learner", "learner")


@pytest.mark.parametrize("is_one_team", [False, True])
def test_mixed_chooses_the_same_players_as_an_early_version(is_one_team):
    """The digest was computed at commit 4624d02. In one team each seat is drawn separately, as before."""
    seatings = []
    for number in range(600):
        seats, members = 1 + number % 5, [f"past-{step:06d}" for step in range(1, 1 + number % 5)]
        teams = (0,) * seats if is_one_team else None
        seating = mixed(
            match_request(seats, number=number, members=members, teams=teams), past=0.5, bots={"random": 0.3}
        )
        seatings.append([player_names(seating), seating.trained])
    assert (
        hashlib.sha256(json.dumps(seatings).encode()).hexdigest()
        == "b2ea9e570af8183d841314461ad069d9cc0fdcaf39d2070a36e0f6aa980a030a"
    )


def test_all_seats_of_a_team_have_one_player():
    teams, counts = (0, 1, 0, 2, 1, 2), set()
    for number in range(200):
        seating = mixed(request(number, 6, teams=teams), past=1.0)
        trained_teams = {team for team, player in zip(teams, seating.seats, strict=True) if player == LEARNER}
        assert trained_teams == {number % 3} and seating.trained == tuple(team in trained_teams for team in teams)
        by_team = {
            team: {player for other_team, player in zip(teams, seating.seats, strict=True) if other_team == team}
            for team in teams
        }
        assert all(len(players) == 1 for players in by_team.values())
        counts.add(len(set(seating.seats)))
    assert counts == {2, 3}  # each team draws separately, so two teams may get the same snapshot


def test_a_matchmaker_gets_the_environment_the_bots_and_the_results():
    requests, book = [], Payoffs({RowKey("urns", 0, LEARNER, snapshot(4)): Results(games=1, wins=1)})

    def record_request(request):
        requests.append(request)
        return self_play(request)

    matchmaker = with_options(
        Plugin(
            slot="league.matchmakers", name="curious", function=record_request, module=inspect.getmodule(record_request)
        )
    )
    config = resolve({"environments": [{"name": "kuhn_poker"}], "rollout": {"games_per_step": 2}})
    games = [(from_spec(EnvironmentSpec(name="tiny_hanabi", label="urns")), 1.0)]
    step_specs(
        7, games=games, rollout=config.rollout, matchmaker=matchmaker, members=(snapshot(4),), root=ROOT, progress=0.5, payoffs=book, bots=("weak",)
    )  # fmt: skip
    first_request, second_request = requests
    assert (first_request.number, second_request.number, first_request.step, first_request.bots) == (
        14,
        15,
        7,
        ("weak",),
    )
    assert (
        first_request.environment.name,
        first_request.environment.label,
        first_request.teams,
        len(first_request.roles),
    ) == (
        "tiny_hanabi",
        "urns",
        (0, 0),
        2,
    )
    assert first_request.results(snapshot(4)).wins == 1 and first_request.results(snapshot(5)).games == 0


@pytest.mark.parametrize("options", [{"past": -0.1}, {"past": 0.8, "bots": {"random": 0.3}}])
def test_invalid_shares_are_refused(options):
    with pytest.raises(ConfigError, match="sum to at most 1"):
        mixed(request(0), **options)


def test_initial_states_depend_on_the_step_and_are_shared_in_a_group():
    config = resolve({"environments": [{"name": "kuhn_poker"}], "rollout": {"games_per_step": 12, "group_size": 4}})
    games = [(make_game("kuhn_poker"), 1.0), (make_game("tic_tac_toe"), 3.0)]

    def specs_of(step):
        return step_specs(
            step,
            games=games,
            rollout=config.rollout,
            matchmaker=bind("league.matchmakers", "mirror"),
            members=(),
            root=ROOT,
            progress=0.0,
        )

    specs = specs_of(3)
    assert [spec.group_id for spec in specs] == [9] * 4 + [10] * 4 + [11] * 4
    assert len({spec.episode_id for step in range(4) for spec in specs_of(step)}) == 48
    for group in range(3):
        members = specs[4 * group : 4 * group + 4]
        assert len({(m.game.name, m.deal.key) for m in members}) == 1
        assert len({m.stream.key for m in members}) == 4
    assert (
        [spec.deal.key for spec in specs_of(3)]
        == [spec.deal.key for spec in specs]
        != [spec.deal.key for spec in specs_of(4)]
    )
    game_names = [spec.game.name for step in range(300) for spec in specs_of(step)]
    assert game_names.count("tic_tac_toe") / len(game_names) == pytest.approx(0.75, abs=0.05)
