"""The noisy oracle: its rates, what a flip is, one verdict per position, the oracle within left alone."""

import pytest
from tests.methods.oracles.positions import after, played

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, OracleError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.methods.oracles.base import CachedOracle, hides, verdict
from sparring.methods.oracles.noisy import NoisyOracle


def made(**options):
    return registry.bind("oracles", "noisy", options)()


TIC = make_game("tic_tac_toe")
EXACT = registry.bind("oracles", "minimax")()
STATES = list({(state.seat, str(state.spiel)): state for state in played(TIC, 700)}.values())
TRUE = EXACT.judge(STATES)


def wrong(found):
    return [action for action in found.actions if action not in found.best]


def test_without_noise_it_is_the_oracle_within():
    assert made(flip=0.0).judge(STATES) == TRUE


def test_a_sure_flip_names_the_others_best_where_there_are_any():
    for found, exact in zip(made(flip=1.0).judge(STATES), TRUE, strict=True):
        assert found.best == (set(wrong(exact)) or exact.best)
        if wrong(exact):
            assert set(found.values) == {min(exact.values), max(exact.values)}
        else:
            assert found == exact
        assert {a for a, value in zip(found.actions, found.values, strict=True) if value == max(found.values)} == found.best
        assert (found.actions, found.certainty, found.bound) == (exact.actions, exact.certainty, exact.bound)


def test_a_sure_bias_calls_all_best():
    for found, exact in zip(made(flip=0.0, bias=1.0).judge(STATES), TRUE, strict=True):
        assert found.best == set(found.actions)
        assert set(found.values) == {max(exact.values)}


def test_a_sure_abstention_says_nothing_and_is_counted():
    oracle = made(abstain=1.0)
    assert oracle.judge(STATES) == [None] * len(STATES)
    assert oracle.metrics["abstained"] == len(STATES)


def streams(count, seed=0):
    return [Stream.from_seed(seed).child("turn").child(number) for number in range(count)]


@pytest.mark.parametrize("per", ["position", "turn"])
@pytest.mark.parametrize(("flip", "bias", "abstain"), [(0.2, 0.0, 0.0), (0.5, 0.0, 0.3), (0.9, 0.0, 0.0), (0.3, 0.4, 0.0), (0.0, 0.6, 0.1)])
def test_the_rates_are_the_documented_ones(flip, bias, abstain, per):
    oracle = made(flip=flip, bias=bias, abstain=abstain, seed=3, per=per)
    pairs = [(f, t) for f, t in zip(oracle.judge(STATES, streams(len(STATES))), TRUE, strict=True) if wrong(t)]
    kept = [(found, exact) for found, exact in pairs if found is not None]
    assert len(kept) > 1000
    assert 1 - len(kept) / len(pairs) == pytest.approx(abstain, abs=0.04)
    true_positive = sum(min(t.best) in f.best for f, t in kept) / len(kept)
    false_positive = sum(min(wrong(t)) in f.best for f, t in kept) / len(kept)
    assert true_positive == pytest.approx(1 - flip * (1 - bias), abs=0.04)
    assert false_positive == pytest.approx(flip + bias - flip * bias, abs=0.04)
    assert true_positive - false_positive == pytest.approx((1 - bias) * (1 - 2 * flip), abs=0.06)


@pytest.mark.parametrize("per", ["position", "turn"])
@pytest.mark.parametrize(("tpr", "fpr"), [(1.0, 0.2), (0.8, 0.0), (0.6, 0.2), (0.5, 0.5), (0.0, 1.0)])
def test_right_and_wrong_actions_are_called_so_at_rates_of_their_own(tpr, fpr, per):
    oracle = made(flip=0.0, tpr=tpr, fpr=fpr, seed=3, per=per)
    pairs = list(zip(oracle.judge(STATES, streams(len(STATES))), TRUE, strict=True))
    right = [action in found.best for found, true in pairs for action in true.best]
    passed = [action in found.best for found, true in pairs for action in wrong(true)]
    assert min(len(right), len(passed)) > 1000
    assert sum(right) / len(right) == pytest.approx(tpr, abs=0.03)
    assert sum(passed) / len(passed) == pytest.approx(fpr, abs=0.03)
    for found, true in pairs:
        held = {action for action, value in zip(found.actions, found.values, strict=True) if value == max(true.values)}
        assert found.best == held or len(set(true.values)) == 1
    assert oracle.metrics["missed"] == len(right) - sum(right)
    assert oracle.metrics["false_alarms"] == sum(passed)


def test_actions_of_one_position_err_independently():
    state, number = after(TIC, "a1"), 4000
    (exact,) = EXACT.judge([state])
    found = made(flip=0.0, fpr=0.3, per="turn").judge([state] * number, streams(number))
    one, other = wrong(exact)[:2]
    both = sum({one, other} <= verdict.best for verdict in found) / number
    assert both == pytest.approx(0.09, abs=0.02)
    assert all(exact.best <= verdict.best for verdict in found)


def test_per_turn_one_position_gets_verdicts_that_differ_at_the_documented_rates():
    state, number = after(TIC, "a1"), 4000
    exact = EXACT.judge([state])[0]
    oracle = made(flip=0.3, abstain=0.1, per="turn")
    found = oracle.judge([state] * number, streams(number))
    said = [verdict for verdict in found if verdict is not None]
    assert exact.best == {"b2"}
    assert 1 - len(said) / number == pytest.approx(0.1, abs=0.02)
    true_positive, false_positive = sum("b2" in v.best for v in said) / len(said), sum("c2" in v.best for v in said) / len(said)
    assert true_positive == pytest.approx(0.7, abs=0.03)
    assert true_positive - false_positive == pytest.approx(1 - 2 * 0.3, abs=0.05)
    assert len({verdict.best for verdict in said}) == 2
    assert (oracle.metrics["judged"], oracle.metrics["abstained"]) == (number, found.count(None))
    again = made(flip=0.3, abstain=0.1).judge([state] * number, streams(number))
    assert len({verdict and verdict.best for verdict in again}) == 1  # per position: one verdict for all


def test_per_turn_faults_are_those_of_the_stream_and_the_seed():
    states, drawn = STATES[:300], streams(300)
    together, backwards = made(per="turn").judge(states, drawn), made(per="turn")
    alone = [backwards.judge([s], [d])[0] for s, d in zip(reversed(states), reversed(drawn), strict=True)]
    assert alone[::-1] == together
    assert made(per="turn", seed=1).judge(states, drawn) != together
    assert made(per="turn").judge(states, streams(300, seed=1)) != together
    twice = made(oracle="noisy", options={"per": "turn", "flip": 1.0}, flip=1.0, per="turn").judge(states, drawn)
    assert [found.best for found in twice] == [exact.best for exact in TRUE[:300]]
    for given in (None, drawn[:1]):
        with pytest.raises(OracleError, match=r"per='turn'.* given for 300 states; give streams to judge, or write per: position"):
            made(per="turn").judge(states, given)
    with pytest.raises(OracleError, match="is finished"):
        made(per="turn").judge([after(TIC, "a1", "a2", "b1", "b2", "c1")], drawn[:1])
    with pytest.raises(ConfigError, match="per"):
        made(per="game")


def test_a_position_has_one_verdict_by_seed():
    states = STATES[:300]
    together, backwards = made(seed=1).judge(states), made(seed=1)
    assert [backwards.judge([state])[0] for state in reversed(states)][::-1] == together
    assert made(seed=2).judge(states) != together
    oracle = made(flip=0.5)
    first, second = oracle.judge([after(TIC, "a1", "b2", "c3"), after(TIC, "c3", "b2", "a1")])
    assert first is second


def test_it_counts_its_faults_and_shows_the_counts_within():
    oracle = made(flip=0.5, options={"max_states": 100})
    found = oracle.judge(STATES)
    metrics = oracle.metrics
    assert metrics["abstained"] == found.count(None) == metrics["inner_over_budget"] > 0
    changed = sum(f is not None and f != t for f, t in zip(found, TRUE, strict=True))
    assert metrics["flipped"] == changed > 0


class Anything(CachedOracle):
    """Calls the first action best in any game."""

    def covers(self, game):
        return ""

    def opinions(self, states):
        return [verdict(s.legal_actions(), [-float(n) for n in range(len(s.legal_actions()))]) for s in states]


def test_its_faults_do_not_depend_on_the_game_judged_before():
    kuhn, states = make_game("kuhn_poker"), []
    for game in (TIC, kuhn, TIC, kuhn):
        states += played(game, 3)[:6]

    def fresh():
        oracle = NoisyOracle(flip=0.5)
        oracle.within = Anything("anything")
        return oracle

    assert [fresh().judge([state])[0] for state in states] == fresh().judge(states)
    assert hides(kuhn)
    assert not hides(TIC)


def test_noise_goes_around_any_oracle_and_refuses_what_that_refuses():
    state = make_game("kuhn_poker").reset(Stream.from_seed(0))
    inner = registry.bind("oracles", "cfr", {"iterations": 5})()
    assert made(oracle="cfr", options={"iterations": 5}, flip=1.0).judge([state])[0].best != inner.judge([state])[0].best
    twice = made(oracle="noisy", options={"flip": 1.0}, flip=1.0).judge(STATES)
    assert [found.best for found in twice] == [exact.best for exact in TRUE]
    with pytest.raises(OracleError, match="hidden"):
        made().judge([state])
    with pytest.raises(OracleError, match="is finished"):
        made().judge([after(TIC, "a1", "a2", "b1", "b2", "c1")])
    with pytest.raises(UnknownNameError, match="oracle 'minimx'"):
        made(oracle="minimx")
    with pytest.raises(UnknownNameError, match="depth"):
        made(options={"depth": 3})
    for option in ("flip", "bias", "abstain"):
        with pytest.raises(ConfigError, match=option):
            made(**{option: 1.1})
