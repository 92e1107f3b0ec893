import itertools
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparring.config.plugins import registry
from sparring.core.records import Episode, Turn
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.methods.rewards.potential import potential


def test_potential_by_hand_over_one_seats_turns(make_judged_episode):
    turns = [
        (0, "ok", (1.0, 0.0), 1),
        (1, "ok", (0.5, -1.0), 0),
        (0, "illegal", (0.25, 0.0), 0),
        (1, "ok", (-1.0,), 0),
        (0, "ok", (0.25,), 0),
    ]
    assert potential(make_judged_episode(turns)) == (-0.75, -1.5, 0.0, 1.0, -0.25)
    assert potential(make_judged_episode(turns), gamma=0.5) == (-0.875, -1.0, -0.125, 1.0, -0.25)


def test_shaping_is_none_if_a_potential_is_unknown(make_judged_episode):
    turns = [(0, "ok", (1.0,), 0), (0, "ok", None, 0), (0, "ok", (2.0,), 0), (0, "ok", (3.0,), 0)]
    assert potential(make_judged_episode(turns)) == (None, None, 1.0, -3.0)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(st.lists(st.floats(-100, 100), min_size=1, max_size=4), min_size=1, max_size=9),
    gamma=st.floats(0, 1),
)
def test_discounted_sums_telescope_for_any_actions(make_judged_episode, values, gamma):
    rewards = potential(make_judged_episode([(0, "ok", tuple(actions), 0) for actions in values]), gamma=gamma)
    assert sum(gamma**t * r for t, r in enumerate(rewards)) == pytest.approx(-max(values[0]), abs=1e-9)


def histories(game, judge, seat):
    """Yield (information states and choices of ``seat``, probability of all else, finished game) for every play.

    The other seat acts at random, with different probabilities per action.
    """

    def walk(spiel, turns, choices, chance):
        if spiel.is_terminal():
            yield choices, chance, episode(game, turns, spiel.returns())
        elif spiel.is_chance_node():
            for action, probability in spiel.chance_outcomes():
                yield from walk(spiel.child(action), turns, choices, chance * probability)
        else:
            state = game.state_of(spiel)
            (verdict,) = judge(state)
            weights = [number + 1 for number in range(len(state.legal_actions()))]
            for number, (action, word) in enumerate(zip(spiel.legal_actions(), state.legal_actions(), strict=True)):
                index, key = sum(turn.seat == state.seat for turn in turns), game.key(state, state.seat)
                turn = Turn(state.seat, index, "any", key, state.legal_actions(), word, word, "ok", {}, verdict=verdict)
                next_choices, factor = (
                    ({**choices, key: word}, 1.0) if state.seat == seat else (choices, weights[number] / sum(weights))
                )
                yield from walk(spiel.child(action), [*turns, turn], next_choices, chance * factor)

    yield from walk(game.spiel.new_initial_state(), [], {}, 1.0)


def episode(game, turns, returns):
    fields = {
        "episode_id": 0,
        "group_id": 0,
        "game": game.name,
        "seed": 0,
        "roles": ("a", "b"),
        "agents": ("any",) * 2,
        "trained": (True,) * 2,
    }
    return Episode(**fields, turns=tuple(turns), returns=tuple(returns))


def policies(plays, limit=5000):
    """Return every deterministic policy over the information states that these plays have."""
    options = {}
    for choices, _, _ in plays:
        for key, word in choices.items():
            options.setdefault(key, {})[word] = None
    names = list(options)
    assert 8 <= math.prod(map(len, options.values())) <= limit
    return [dict(zip(names, words, strict=True)) for words in itertools.product(*options.values())]


def expected_returns(plays, policies, seat, gamma, reward):
    """Return the expected discounted return of each policy: the payoff at the seat's last turn, and ``reward`` at each of its turns."""
    totals = []
    for choices, chance, finished_episode in plays:
        numbers = [number for number, turn in enumerate(finished_episode.turns) if turn.seat == seat]
        rewards = reward(finished_episode)
        total = gamma ** (len(numbers) - 1) * finished_episode.returns[seat] + sum(
            gamma**t * rewards[number] for t, number in enumerate(numbers)
        )
        totals.append((choices, chance, total))
    return [sum(p * total for choices, p, total in totals if choices.items() <= policy.items()) for policy in policies]


def arbitrary_verdict(state):
    """Return an arbitrary verdict that depends only on the state."""
    from sparring.methods.oracles.base import make_verdict

    stream = Stream.from_seed(3).child(str(state.spiel))
    return [
        make_verdict(
            state.legal_actions(), [4 * stream.uniform(index) - 2 for index in range(len(state.legal_actions()))]
        )
    ]


GAMES = {
    "kuhn, cfr": ("kuhn_poker", {}, "cfr"),
    "kuhn, an arbitrary oracle": ("kuhn_poker", {}, None),
    "nim, minimax": ("nim", {"pile_sizes": "1;1;2"}, "minimax"),
    "nim, an arbitrary oracle": ("nim", {"pile_sizes": "1;1;2"}, None),
}


@pytest.mark.parametrize("gamma", [1.0, 0.7])
@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("case", GAMES)
def test_shaping_shifts_every_policy_by_one_constant(case, seat, gamma):
    name, options, oracle = GAMES[case]
    game = make_game(name, options=options)
    judge = registry.bind("oracles", oracle, {"iterations": 20} if oracle == "cfr" else {})() if oracle else None
    plays = list(histories(game, (lambda state: judge.judge([state])) if judge else arbitrary_verdict, seat))
    assert sum(p for choices, p, _ in plays if choices.items() <= policies(plays)[0].items()) == pytest.approx(1)
    all_policies = policies(plays)
    plain_returns = expected_returns(plays, all_policies, seat, gamma, lambda played: [0.0] * len(played.turns))
    shaped_returns = expected_returns(plays, all_policies, seat, gamma, lambda played: potential(played, gamma=gamma))
    shift = shaped_returns[0] - plain_returns[0]
    assert shaped_returns == pytest.approx([plain_return + shift for plain_return in plain_returns], abs=1e-9)
    assert abs(shift) > 1e-3
    is_best = [plain_return > max(plain_returns) - 1e-9 for plain_return in plain_returns]
    assert [plain_return > max(shaped_returns) - 1e-9 for plain_return in shaped_returns] == is_best
    assert 0 < sum(is_best) < len(is_best)
