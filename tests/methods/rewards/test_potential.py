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


def test_by_hand_over_the_seat_s_own_turns(judged):
    turns = [
        (0, "ok", (1.0, 0.0), 1),
        (1, "ok", (0.5, -1.0), 0),
        (0, "illegal", (0.25, 0.0), 0),
        (1, "ok", (-1.0,), 0),
        (0, "ok", (0.25,), 0),
    ]
    assert potential(judged(turns)) == (-0.75, -1.5, 0.0, 1.0, -0.25)
    assert potential(judged(turns), gamma=0.5) == (-0.875, -1.0, -0.125, 1.0, -0.25)


def test_none_where_either_end_is_unknown(judged):
    turns = [(0, "ok", (1.0,), 0), (0, "ok", None, 0), (0, "ok", (2.0,), 0), (0, "ok", (3.0,), 0)]
    assert potential(judged(turns)) == (None, None, 1.0, -3.0)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(st.lists(st.floats(-100, 100), min_size=1, max_size=4), min_size=1, max_size=9),
    gamma=st.floats(0, 1),
)
def test_discounted_sums_telescope_whatever_was_played(judged, values, gamma):
    given_rewards = potential(judged([(0, "ok", tuple(actions), 0) for actions in values]), gamma=gamma)
    assert sum(gamma**t * r for t, r in enumerate(given_rewards)) == pytest.approx(-max(values[0]), abs=1e-9)


def histories(game, judge, seat):
    """Yield (information states and choices of ``seat``, probability of all else, finished game) for every play.

    The other seat acts at random, by chances that differ between actions.
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
                chosen, share = (
                    ({**choices, key: word}, 1.0) if state.seat == seat else (choices, weights[number] / sum(weights))
                )
                yield from walk(spiel.child(action), [*turns, turn], chosen, chance * share)

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


def worths(plays, policies, seat, gamma, reward):
    """Return per policy its expected discounted return, the game's payoff at the last own turn and ``reward`` at every one."""
    totals = []
    for choices, chance, played in plays:
        numbers = [number for number, turn in enumerate(played.turns) if turn.seat == seat]
        rewards = reward(played)
        total = gamma ** (len(numbers) - 1) * played.returns[seat] + sum(
            gamma**t * rewards[number] for t, number in enumerate(numbers)
        )
        totals.append((choices, chance, total))
    return [sum(p * total for choices, p, total in totals if choices.items() <= policy.items()) for policy in policies]


def invented(state):
    """Return a verdict that is wrong, but always the same for a state."""
    from sparring.methods.oracles.base import verdict

    stream = Stream.from_seed(3).child(str(state.spiel))
    return [
        verdict(state.legal_actions(), [4 * stream.uniform(number) - 2 for number in range(len(state.legal_actions()))])
    ]


GAMES = {
    "kuhn, cfr": ("kuhn_poker", {}, "cfr"),
    "kuhn, an oracle that is wrong": ("kuhn_poker", {}, None),
    "nim, minimax": ("nim", {"pile_sizes": "1;1;2"}, "minimax"),
    "nim, an oracle that is wrong": ("nim", {"pile_sizes": "1;1;2"}, None),
}


@pytest.mark.parametrize("gamma", [1.0, 0.7])
@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("case", GAMES)
def test_every_policy_is_shifted_by_one_constant_so_that_best_responses_stay(case, seat, gamma):
    name, options, oracle = GAMES[case]
    game = make_game(name, options=options)
    bound = registry.bind("oracles", oracle, {"iterations": 20} if oracle == "cfr" else {})() if oracle else None
    plays = list(histories(game, (lambda state: bound.judge([state])) if bound else invented, seat))
    assert sum(p for choices, p, _ in plays if choices.items() <= policies(plays)[0].items()) == pytest.approx(1)
    every = policies(plays)
    plain = worths(plays, every, seat, gamma, lambda played: [0.0] * len(played.turns))
    shaped = worths(plays, every, seat, gamma, lambda played: potential(played, gamma=gamma))
    shift = shaped[0] - plain[0]
    assert shaped == pytest.approx([worth + shift for worth in plain], abs=1e-9)
    assert abs(shift) > 1e-3
    best = [worth > max(plain) - 1e-9 for worth in plain]
    assert [worth > max(shaped) - 1e-9 for worth in shaped] == best
    assert 0 < sum(best) < len(best)
