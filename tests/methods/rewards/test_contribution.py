"""What each worker of a team is paid for: scored again here, from the cells that it noted."""

from dataclasses import replace

import numpy as np
import pytest

from sparring.config.plugins import registry
from sparring.core.errors import RewardError
from sparring.core.rng import Stream
from sparring.environments.base import HasCounterfactual
from sparring.environments.catalogue import make_game
from sparring.environments.wide_search.scoring import score
from sparring.methods.rewards.contribution import contribution
from sparring.ops.shapley import shapley_values
from sparring.play.replay import replay
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec

TEAM = make_game("wide_search", options={"items": 5, "columns": 2, "workers": 3, "turns": 4, "waves": 2, "worlds": 3})


def played(game=TEAM, number=12, player="random"):
    agent = registry.bind("players", player)()
    specs = [
        EpisodeSpec(
            game=game,
            episode_id=one,
            group_id=one,
            deal=Stream.from_seed(one).child("deal"),
            stream=Stream.from_seed(one).child("play"),
            seats=("it",) * game.num_seats,
            trained=(True,) * game.num_seats,
        )
        for one in range(number)
    ]
    return play(specs, {"it": agent})


def noted(episode):
    """The cells that each seat noted, and the end of the play, from the record alone."""
    found, state = {}, None
    for turn, state in zip(episode.turns, replay(TEAM, episode), strict=True):
        if turn.action.startswith("note"):
            _, column, value = turn.action.split()
            found[state.start.names[state.calls[turn.seat].open], column] = turn.seat, value
    return found, state.start


def alone(found, start, seats):
    """Item F1 of the table of these seats' cells."""
    table = {}
    for (name, column), (seat, value) in found.items():
        if seat in seats:
            table.setdefault(name, {})[column] = value
    return score(start.rows(), table, len(start.columns)).item_f1


def by_seat(episode, paid):
    """What each seat is paid in sum; only its last turn may be."""
    last = {turn.seat: number for number, turn in enumerate(episode.turns)}
    assert all(value == 0.0 for number, value in enumerate(paid) if number not in last.values())
    return {seat: paid[number] for seat, number in last.items()}


@pytest.fixture(scope="module")
def episodes():
    found = played()
    assert any(len({turn.seat for turn in episode.turns}) == 4 for episode in found) and any(episode.returns[0] for episode in found)
    return found


def test_difference_is_what_is_missing_without_a_seat(episodes):
    for episode in episodes:
        paid = by_seat(episode, contribution(episode, TEAM, by="difference"))
        found, start = noted(episode)
        workers = {seat for seat in paid if seat}
        whole = alone(found, start, workers)
        assert paid[0] == episode.returns[0] == pytest.approx(whole)  # the lead has no part of its own
        for seat in workers:
            assert paid[seat] == pytest.approx(whole - alone(found, start, workers - {seat}))


def test_shapley_shares_the_result_out(episodes):
    for episode in episodes:
        paid = by_seat(episode, contribution(episode, TEAM, by="shapley"))
        found, start = noted(episode)
        workers = sorted(seat for seat in paid if seat)
        worths = [alone(found, start, [seat for place, seat in enumerate(workers) if mask >> place & 1]) for mask in range(1 << len(workers))]
        assert [paid[seat] for seat in workers] == pytest.approx(shapley_values(np.array(worths)).tolist())
        if workers:
            assert sum(paid[seat] for seat in workers) == pytest.approx(episode.returns[0])


def test_own_is_the_right_cells_over_those_asked_for(episodes):
    asked_in_all = 0
    for episode in episodes:
        paid = by_seat(episode, contribution(episode, TEAM, by="own"))
        found, start = noted(episode)
        asked = dict.fromkeys(paid, 0)
        fresh, done = {}, set()
        for state in replay(TEAM, episode):
            for seat, call in state.calls.items():
                if not call.told and (len(state.waves), seat) not in done:
                    done.add((len(state.waves), seat))
                    fresh[len(state.waves), seat] = sum((item, column) not in state.notes for item in call.items for column in range(2))
        for (_, seat), cells in fresh.items():
            asked[seat] += cells
            asked_in_all += cells
        truth = start.rows()
        for seat in paid:
            right = sum(truth[name][column] == value for (name, column), (by, value) in found.items() if by == seat)
            assert paid[seat] == pytest.approx(right / asked[seat] if seat else episode.returns[0])
    assert asked_in_all > 20


def test_a_seat_alone_is_paid_for_all_of_it():
    game = make_game("wide_search", options={"items": 3, "columns": 1, "workers": 0, "turns": 9, "worlds": 3})
    for episode in played(game, 6):
        (paid,) = by_seat(episode, contribution(episode, game, by="difference")).values()
        assert paid == pytest.approx(episode.returns[0])


def test_all_are_paid_the_return_where_the_lead_writes_the_answer():
    game = make_game("wide_search", options={"items": 3, "columns": 1, "workers": 2, "turns": 4, "waves": 1, "worlds": 3, "answer": "written"})
    found = played(game, 6, "searcher") + played(game, 6)
    assert any(episode.returns[0] for episode in found)
    for episode in found:
        for by in ("difference", "shapley", "own"):
            assert set(by_seat(episode, contribution(episode, game, by=by)).values()) == {episode.returns[0]}


def test_plays_that_did_not_end_by_their_rules_are_not_judged(episodes):
    for changed in (replace(episodes[0], cut=True), replace(episodes[0], forfeited_by=1)):
        assert contribution(changed, TEAM) == (None,) * len(changed.turns)


def test_what_has_no_parts_is_not_judged():
    kuhn = make_game("kuhn_poker")
    assert not isinstance(kuhn.reset(Stream.from_seed(0)), HasCounterfactual)
    episode = played(kuhn, 1)[0]
    assert contribution(episode, kuhn) == (None,) * len(episode.turns)


@pytest.mark.parametrize("options", [{"name": "trial", "attempts": 2}, {"name": "repeated", "rounds": 2}, {"name": "talk"}])
def test_around_a_team_it_is_refused_and_not_left_out_in_silence(options):
    """A combinator's play has no parts, though those inside it have: paid nothing, and 0 for the outcome, nobody would learn."""
    name = options.pop("name")
    inner = {"name": "wide_search", "options": {"items": 2, "columns": 1, "workers": 2, "turns": 2, "waves": 1, "worlds": 3}}
    game = make_game(name, options={"environment": inner, **options})
    (episode,) = played(game, 1)
    with pytest.raises(RewardError, match=f"'contribution': {name} is made of plays of wide_search.*without {name}"):
        contribution(episode, game)
    kuhn = make_game("repeated", options={"environment": {"name": "kuhn_poker"}})
    (episode,) = played(kuhn, 1)
    assert contribution(episode, kuhn) == (None,) * len(episode.turns)  # no parts inside either


def test_too_many_parts_to_share_are_refused():
    game = make_game("wide_search", options={"items": 9, "columns": 1, "workers": 9, "turns": 2, "waves": 1, "worlds": 1})
    episode = next(one for one in played(game, 40) if one.turns[0].action == "call 9")
    with pytest.raises(RewardError, match="9 seats have a part, and by: shapley is for at most 8"):
        contribution(episode, game, by="shapley")
    assert len(contribution(episode, game)) == len(episode.turns)
