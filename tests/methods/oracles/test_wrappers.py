import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from tests.methods.oracles.positions import random_states, state_after
from tests.play import plays

from sparring.config import EnvironmentConfig
from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, OracleError, UnknownNameError
from sparring.core.records import Turn, Verdict
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.methods.oracles.base import CachedOracle, has_hidden_information, make_verdict
from sparring.methods.oracles.judge import configured_oracles, is_best, judge_episodes, regret
from sparring.methods.oracles.noisy import NoisyOracle
from sparring.play.replay import replay
from sparring.play.rollout import play


def make_noisy(**options):
    return registry.bind("oracles", "noisy", options)()


TIC = make_game("tic_tac_toe")
EXACT = registry.bind("oracles", "minimax")()
STATES_OF_NOISY = list({(state.seat, str(state.spiel)): state for state in random_states(TIC, 700)}.values())
TRUE_VERDICTS = EXACT.judge(STATES_OF_NOISY)


def wrong_actions(opinion):
    return [action for action in opinion.actions if action not in opinion.best]


def test_without_noise_verdicts_equal_those_of_the_wrapped_oracle():
    assert make_noisy(flip=0.0).judge(STATES_OF_NOISY) == TRUE_VERDICTS


def test_with_flip_one_the_other_actions_are_called_best():
    for flipped, exact_verdict in zip(make_noisy(flip=1.0).judge(STATES_OF_NOISY), TRUE_VERDICTS, strict=True):
        assert flipped.best == (set(wrong_actions(exact_verdict)) or exact_verdict.best)
        if wrong_actions(exact_verdict):
            assert set(flipped.values) == {min(exact_verdict.values), max(exact_verdict.values)}
        else:
            assert flipped == exact_verdict
        assert {
            a for a, value in zip(flipped.actions, flipped.values, strict=True) if value == max(flipped.values)
        } == flipped.best
        assert (flipped.actions, flipped.certainty, flipped.bound) == (
            exact_verdict.actions,
            exact_verdict.certainty,
            exact_verdict.bound,
        )


def test_with_bias_one_all_actions_are_best_and_abstain_one_gives_none():
    for biased, exact_verdict in zip(make_noisy(flip=0.0, bias=1.0).judge(STATES_OF_NOISY), TRUE_VERDICTS, strict=True):
        assert biased.best == set(biased.actions) and set(biased.values) == {max(exact_verdict.values)}
    oracle = make_noisy(abstain=1.0)
    assert oracle.judge(STATES_OF_NOISY) == [None] * len(STATES_OF_NOISY)
    assert oracle.metrics["abstained"] == len(STATES_OF_NOISY)


def streams(count, seed=0):
    return [Stream.from_seed(seed).child("turn").child(index) for index in range(count)]


@pytest.mark.parametrize("per", ["position", "turn"])
@pytest.mark.parametrize(
    ("flip", "bias", "abstain"), [(0.2, 0.0, 0.0), (0.5, 0.0, 0.3), (0.9, 0.0, 0.0), (0.3, 0.4, 0.0), (0.0, 0.6, 0.1)]
)
def test_the_rates_are_the_documented_ones(flip, bias, abstain, per):
    oracle = make_noisy(flip=flip, bias=bias, abstain=abstain, seed=3, per=per)
    pairs = [
        (noisy_verdict, true_verdict)
        for noisy_verdict, true_verdict in zip(
            oracle.judge(STATES_OF_NOISY, streams(len(STATES_OF_NOISY))), TRUE_VERDICTS, strict=True
        )
        if wrong_actions(true_verdict)
    ]
    judged = [(noisy, exact_verdict) for noisy, exact_verdict in pairs if noisy is not None]
    assert len(judged) > 1000
    assert 1 - len(judged) / len(pairs) == pytest.approx(abstain, abs=0.04)
    true_positive = sum(min(exact.best) in noisy.best for noisy, exact in judged) / len(judged)
    false_positive = sum(min(wrong_actions(exact)) in noisy.best for noisy, exact in judged) / len(judged)
    assert true_positive == pytest.approx(1 - flip * (1 - bias), abs=0.04)
    assert false_positive == pytest.approx(flip + bias - flip * bias, abs=0.04)
    assert true_positive - false_positive == pytest.approx((1 - bias) * (1 - 2 * flip), abs=0.06)


@pytest.mark.parametrize("per", ["position", "turn"])
@pytest.mark.parametrize(("tpr", "fpr"), [(1.0, 0.2), (0.8, 0.0), (0.6, 0.2), (0.5, 0.5), (0.0, 1.0)])
def test_true_and_false_positive_rates_apply_to_right_and_wrong_actions(tpr, fpr, per):
    oracle = make_noisy(flip=0.0, tpr=tpr, fpr=fpr, seed=3, per=per)
    pairs = list(zip(oracle.judge(STATES_OF_NOISY, streams(len(STATES_OF_NOISY))), TRUE_VERDICTS, strict=True))
    right_called_best = [
        action in noisy_verdict.best for noisy_verdict, true_verdict in pairs for action in true_verdict.best
    ]
    wrong_called_best = [
        action in noisy_verdict.best for noisy_verdict, true_verdict in pairs for action in wrong_actions(true_verdict)
    ]
    assert min(len(right_called_best), len(wrong_called_best)) > 1000
    assert sum(right_called_best) / len(right_called_best) == pytest.approx(tpr, abs=0.03)
    assert sum(wrong_called_best) / len(wrong_called_best) == pytest.approx(fpr, abs=0.03)
    for noisy_verdict, true_verdict in pairs:
        highest = {
            action
            for action, value in zip(noisy_verdict.actions, noisy_verdict.values, strict=True)
            if value == max(true_verdict.values)
        }
        assert noisy_verdict.best == highest or len(set(true_verdict.values)) == 1
    assert oracle.metrics["missed"] == len(right_called_best) - sum(right_called_best)
    assert oracle.metrics["false_alarms"] == sum(wrong_called_best)


def test_actions_of_one_position_err_independently():
    state, number = state_after(TIC, "a1"), 4000
    (exact_verdict,) = EXACT.judge([state])
    verdicts = make_noisy(flip=0.0, fpr=0.3, per="turn").judge([state] * number, streams(number))
    first_action, other_action = wrong_actions(exact_verdict)[:2]
    share_of_both = sum({first_action, other_action} <= verdict.best for verdict in verdicts) / number
    assert share_of_both == pytest.approx(0.09, abs=0.02)
    assert all(exact_verdict.best <= verdict.best for verdict in verdicts)


def test_per_turn_verdicts_on_one_position_differ():
    state, number = state_after(TIC, "a1"), 4000
    oracle = make_noisy(flip=0.3, abstain=0.1, per="turn")
    verdicts = oracle.judge([state] * number, streams(number))
    is_right = [verdict.best == {"b2"} for verdict in verdicts if verdict is not None]
    assert 1 - len(is_right) / number == pytest.approx(0.1, abs=0.02)
    assert sum(is_right) / len(is_right) == pytest.approx(0.7, abs=0.03)
    assert (oracle.metrics["judged"], oracle.metrics["abstained"]) == (number, verdicts.count(None))
    per_position = make_noisy(flip=0.3, abstain=0.1).judge([state] * number, streams(number))
    assert len({verdict and verdict.best for verdict in per_position}) == 1  # per position: one verdict for all


def test_per_turn_faults_depend_on_the_stream_and_the_seed():
    states, turn_streams = STATES_OF_NOISY[:300], streams(300)
    joint_verdicts, reversed_oracle = make_noisy(per="turn").judge(states, turn_streams), make_noisy(per="turn")
    separate_verdicts = [
        reversed_oracle.judge([s], [d])[0] for s, d in zip(reversed(states), reversed(turn_streams), strict=True)
    ]
    assert separate_verdicts[::-1] == joint_verdicts
    assert make_noisy(per="turn", seed=1).judge(states, turn_streams) != joint_verdicts
    assert make_noisy(per="turn").judge(states, streams(300, seed=1)) != joint_verdicts
    doubly_flipped = make_noisy(oracle="noisy", options={"per": "turn", "flip": 1.0}, flip=1.0, per="turn").judge(
        states, turn_streams
    )
    assert [noisy.best for noisy in doubly_flipped] == [exact_verdict.best for exact_verdict in TRUE_VERDICTS[:300]]
    for wrong_streams in (None, turn_streams[:1]):
        with pytest.raises(
            OracleError, match=r"per='turn'.* streams for 300 states; pass streams to judge, or write per: position"
        ):
            make_noisy(per="turn").judge(states, wrong_streams)
    with pytest.raises(ConfigError, match="per"):
        make_noisy(per="game")


def test_the_verdict_on_a_position_depends_only_on_the_seed():
    states = STATES_OF_NOISY[:300]
    joint_verdicts, reversed_oracle = make_noisy(seed=1).judge(states), make_noisy(seed=1)
    assert [reversed_oracle.judge([state])[0] for state in reversed(states)][::-1] == joint_verdicts
    assert make_noisy(seed=2).judge(states) != joint_verdicts
    oracle = make_noisy(flip=0.5)
    verdict, verdict_of_other_order = oracle.judge(
        [state_after(TIC, "a1", "b2", "c3"), state_after(TIC, "c3", "b2", "a1")]
    )
    assert verdict is verdict_of_other_order


def test_metrics_count_faults_and_include_the_counts_of_the_wrapped_oracle():
    oracle = make_noisy(flip=0.5, options={"max_states": 100})
    verdicts = oracle.judge(STATES_OF_NOISY)
    metrics = oracle.metrics
    assert metrics["abstained"] == verdicts.count(None) == metrics["inner_over_budget"] > 0
    num_changed = sum(
        noisy is not None and noisy != exact for noisy, exact in zip(verdicts, TRUE_VERDICTS, strict=True)
    )
    assert metrics["flipped"] == num_changed > 0


class FirstActionOracle(CachedOracle):
    """An oracle that calls the first action best in any game."""

    def covers(self, game):
        return ""

    def compute_verdicts(self, states):
        return [make_verdict(s.legal_actions(), [-float(n) for n in range(len(s.legal_actions()))]) for s in states]


def test_faults_do_not_depend_on_the_game_that_was_judged_before():
    kuhn, states = make_game("kuhn_poker"), []
    for game in (TIC, kuhn, TIC, kuhn):
        states += random_states(game, 3)[:6]

    def make_noisy_oracle():
        oracle = NoisyOracle(flip=0.5)
        oracle.inner = FirstActionOracle("anything")
        return oracle

    assert [make_noisy_oracle().judge([state])[0] for state in states] == make_noisy_oracle().judge(states)
    assert has_hidden_information(kuhn)
    assert not has_hidden_information(TIC)


def test_noise_wraps_any_oracle_and_refuses_what_that_oracle_refuses():
    state = make_game("kuhn_poker").reset(Stream.from_seed(0))
    inner_oracle = registry.bind("oracles", "cfr", {"iterations": 5})()
    assert (
        make_noisy(oracle="cfr", options={"iterations": 5}, flip=1.0).judge([state])[0].best
        != inner_oracle.judge([state])[0].best
    )
    doubly_flipped = make_noisy(oracle="noisy", options={"flip": 1.0}, flip=1.0).judge(STATES_OF_NOISY)
    assert [noisy.best for noisy in doubly_flipped] == [exact_verdict.best for exact_verdict in TRUE_VERDICTS]
    with pytest.raises(OracleError, match="hidden"):
        make_noisy().judge([state])
    with pytest.raises(UnknownNameError, match="oracle 'minimx'"):
        make_noisy(oracle="minimx")
    with pytest.raises(UnknownNameError, match="depth"):
        make_noisy(options={"depth": 3})
    for option in ("flip", "bias", "abstain"):
        with pytest.raises(ConfigError, match=option):
            make_noisy(**{option: 1.1})


SEARCH = {"simulations": 8}


def make_parallel(oracle="mcts", **options):
    return registry.bind("oracles", "parallel", {"oracle": oracle, **options})()


def judge_serially(oracle, options, states):
    return registry.bind("oracles", oracle, options)().judge(states)


STATES_OF_PARALLEL = random_states(TIC, 6)
CASES_WITH_HIDDEN_STATE = {
    "sudoku": ("constraint", {"lost": "solution"}, {"blanks": 4, "wrong": "continues"}),
    "minesweeper": ("posterior", {}, {"rows": 3, "columns": 3, "mines": 2}),
}


@pytest.fixture(autouse=True)
def no_orphans():
    yield
    if multiprocessing.active_children():
        gc.collect()
    assert multiprocessing.active_children() == []


def test_verdicts_and_their_order_do_not_depend_on_num_workers():
    expected = judge_serially("mcts", SEARCH, STATES_OF_PARALLEL)
    for workers in (1, 3):
        oracle = make_parallel(options=SEARCH, workers=workers, least=1)
        assert oracle.judge(STATES_OF_PARALLEL) == expected
        assert len(multiprocessing.active_children()) == (0 if workers == 1 else workers)
        oracle.close()


def test_all_games_share_one_set_of_processes():
    """The games include games with chance and two games that have one name but different options."""
    games = [
        make_game("pig", options={"winscore": 10}),
        make_game("connect_four"),
        TIC,
        make_game("pig", options={"winscore": 14}),
    ]
    states = [state for game in games for state in random_states(game, 2)[:20]]
    oracle = make_parallel(options=SEARCH, workers=2, least=1)
    assert oracle.judge(states) == judge_serially("mcts", SEARCH, states)
    assert len(multiprocessing.active_children()) == 2
    assert oracle.metrics["sent"] == oracle.metrics["searched"] > 40


@pytest.mark.parametrize("name", CASES_WITH_HIDDEN_STATE)
def test_deals_and_all_fields_of_verdicts_cross_processes(name):
    inner_oracle, options, rules = CASES_WITH_HIDDEN_STATE[name]
    states = random_states(make_game(name, options=rules), 6)
    oracle = make_parallel(inner_oracle, options=options, workers=2, least=1)
    verdicts = oracle.judge(states)
    expected = judge_serially(inner_oracle, options, states)
    assert verdicts == expected
    assert [repr(verdict.values) for verdict in verdicts] == [repr(verdict.values) for verdict in expected]
    assert any(verdict.entropy for verdict in verdicts) == (name == "minesweeper")


def test_small_batches_and_cached_positions_start_no_process():
    oracle = make_parallel(options=SEARCH, workers=2, least=1000)
    assert oracle.judge(STATES_OF_PARALLEL) == judge_serially("mcts", SEARCH, STATES_OF_PARALLEL)
    oracle.least = 1
    assert oracle.judge(STATES_OF_PARALLEL) == judge_serially("mcts", SEARCH, STATES_OF_PARALLEL)
    assert oracle.judge([]) == []
    assert multiprocessing.active_children() == []
    assert oracle.metrics.get("sent", 0) == 0


def test_a_game_that_cannot_be_rebuilt_is_judged_in_the_main_process():
    game = make_game("tic_tac_toe")
    game.made_by = None
    states = random_states(game, 4)
    assert make_parallel(options=SEARCH, workers=2, least=1).judge(states) == judge_serially("mcts", SEARCH, states)
    assert multiprocessing.active_children() == []


def test_inside_a_worker_process_no_further_processes_start(monkeypatch):
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)
    assert make_parallel(options=SEARCH, workers=2, least=1).judge(STATES_OF_PARALLEL) == judge_serially(
        "mcts", SEARCH, STATES_OF_PARALLEL
    )
    monkeypatch.undo()


def test_a_dead_process_is_an_error_and_new_ones_start_afterwards():
    oracle = make_parallel(options=SEARCH, workers=2, least=1)
    oracle.judge(STATES_OF_PARALLEL[:4])
    for child in multiprocessing.active_children():
        os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(OracleError, match=r"'parallel'.*died \(exit code -9\)"):
        oracle.judge(STATES_OF_PARALLEL[4:])
    assert multiprocessing.active_children() == []
    assert oracle.judge(STATES_OF_PARALLEL) == judge_serially("mcts", SEARCH, STATES_OF_PARALLEL)


def test_an_error_of_the_wrapped_oracle_is_reported():
    game = make_game("sudoku", options={"blanks": 4})
    states = random_states(game, 4)
    oracle = make_parallel("noisy", options={"oracle": "constraint", "per": "turn"}, workers=2, least=1)
    with pytest.raises(OracleError, match="needs one stream per state"):
        oracle.judge(states)
    with pytest.raises(OracleError, match="finished"):
        make_parallel(options=SEARCH).judge([run_program()])


def test_different_rules_in_a_process_are_detected():
    game = make_game("tic_tac_toe")
    game.made_by = {"name": "connect_four", "options": {}}
    with pytest.raises(OracleError, match="different rules"):
        make_parallel(options=SEARCH, workers=2, least=1).judge(random_states(game, 2)[:2])


def run_program():
    state = random_states(TIC, 1)[-1]
    while not state.done:
        state.apply(state.legal_actions()[0])
    return state


def test_noise_can_wrap_the_parallel_oracle():
    parallel_options = {"oracle": "mcts", "options": SEARCH, "workers": 2, "least": 1}
    noisy_oracle = registry.bind(
        "oracles", "noisy", {"oracle": "parallel", "options": parallel_options, "per": "turn"}
    )()
    streams = [Stream.from_seed(seed) for seed in range(len(STATES_OF_PARALLEL))]
    serial_oracle = registry.bind("oracles", "noisy", {"oracle": "mcts", "options": SEARCH, "per": "turn"})()
    assert noisy_oracle.judge(STATES_OF_PARALLEL, streams) == serial_oracle.judge(STATES_OF_PARALLEL, streams)


def test_wrong_names_fail_before_a_process_starts():
    with pytest.raises(UnknownNameError, match="mcts"):
        make_parallel("mctz")
    with pytest.raises(UnknownNameError, match="simulations"):
        make_parallel(options={"simulation": 3})


PROGRAM = """
import multiprocessing
from sparring.config.plugins import registry
from sparring.environments.catalogue import make_game
from sparring.core.rng import Stream

def main():
    game = make_game("tic_tac_toe")
    oracle = registry.bind("oracles", "parallel", {"options": {"simulations": 5}, "workers": 2, "least": 1})()
    state = game.reset(Stream.from_seed(0))
    assert oracle.judge([state])[0] is not None
    print(*[child.pid for child in multiprocessing.active_children()], flush=True)
    END

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("end", ["return", "import os; os.kill(os.getpid(), 9)"], ids=["return", "killed"])
def test_the_processes_end_with_the_program(end, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.replace("END", end))
    process = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    children = list(map(int, process.stdout.split()))
    assert len(children) == 2, process.stderr
    assert "Traceback" not in process.stderr
    deadline = time.monotonic() + 20
    while any(is_running(child) for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_running(child) for child in children)


def test_a_script_without_a_main_guard_gets_an_explaining_error(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.replace("END", "return").replace('if __name__ == "__main__":', "if True:"))
    process = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert "OracleError" in process.stderr
    assert "Guard the script's entry point by if __name__ == '__main__'" in process.stderr


def is_running(process):
    """Return whether a process runs and is not a zombie."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


KUHN = make_game("kuhn_poker")


def episodes(game, trained=(True, True)):
    specs = [replace(spec, trained=trained) for spec in plays.make_specs(game, 10, seed=1, name="random")]
    return play(specs, {"random": registry.bind("players", "random")()})


def test_every_turn_gets_the_verdict_on_its_own_state():
    episode_list = episodes(TIC) + episodes(KUHN)
    judged_episodes = judge_episodes(episode_list, {"tic_tac_toe": TIC, "kuhn_poker": KUHN}, {"tic_tac_toe": EXACT})
    for episode, judged_episode in zip(episode_list, judged_episodes, strict=True):
        assert (
            replace(judged_episode, turns=tuple(turn._replace(verdict=None) for turn in judged_episode.turns))
            == episode
        )
        if judged_episode.game == "kuhn_poker":
            assert judged_episode is episode
        else:
            assert [turn.verdict for turn in judged_episode.turns] == EXACT.judge(replay(TIC, episode))


@pytest.mark.parametrize("all_seats", [False, True])
def test_only_trained_seats_are_judged_unless_all_are_requested(all_seats):
    judged_episodes = judge_episodes(
        episodes(TIC, trained=(False, True)), {"tic_tac_toe": TIC}, {"tic_tac_toe": EXACT}, all_seats=all_seats
    )
    assert {turn.seat for episode in judged_episodes for turn in episode.turns if turn.verdict is not None} == (
        {0, 1} if all_seats else {1}
    )
    assert judge_episodes([], {"tic_tac_toe": TIC}, {"tic_tac_toe": EXACT}) == []


def test_an_oracle_with_faults_per_turn_gets_a_stream_per_turn():
    class Recorder:
        name = "recorder"
        keys = ()

        def judge(self, states, streams=None):
            self.keys = [stream.key for stream in streams]
            return [None] * len(states)

    recorder, episode_list = Recorder(), episodes(TIC)
    judged_episodes = judge_episodes(episode_list, {"tic_tac_toe": TIC}, {"tic_tac_toe": recorder})
    first_keys = recorder.keys
    assert len(set(first_keys)) == len(first_keys) == sum(len(episode.turns) for episode in episode_list)
    assert all(turn.verdict is None for episode in judged_episodes for turn in episode.turns)
    judge_episodes(episode_list[::-1], {"tic_tac_toe": TIC}, {"tic_tac_toe": recorder})
    assert sorted(recorder.keys) == sorted(first_keys)


VERDICT = Verdict(actions=("a", "b", "c"), values=(1.0, 0.25, -1.0), best=frozenset("a"))


@pytest.mark.parametrize(
    ("action", "event", "expected_best", "expected_regret"),
    [
        ("a", "ok", True, 0.0),
        ("b", "ok", False, 0.75),
        ("c", "ok", False, 2.0),
        (None, "illegal", False, 2.0),
        ("a", "unparsable", False, 2.0),
    ],
)
def test_regret_and_correctness_of_a_turn(action, event, expected_best, expected_regret):
    turn = Turn(0, 0, "x", "k", VERDICT.actions, "", action, event, {}, verdict=VERDICT)
    assert (is_best(turn), regret(turn)) == (expected_best, expected_regret)
    assert (is_best(turn._replace(verdict=None)), regret(turn._replace(verdict=None))) == (None, None)


def test_an_oracle_that_cannot_judge_its_game_is_refused_before_a_run():
    sections = [EnvironmentConfig(name="tic_tac_toe", oracle={"name": "minimax"}), EnvironmentConfig(name="kuhn_poker")]
    assert list(configured_oracles(sections, [TIC, KUHN])) == ["tic_tac_toe"]
    with pytest.raises(ConfigError, match="'kuhn_poker' has the oracle 'minimax', which cannot judge it"):
        configured_oracles([EnvironmentConfig(name="kuhn_poker", oracle={"name": "minimax"})], [KUHN])
