"""The parallel oracle: the verdicts of the oracle within, by any number of processes, and nobody outlives it."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest
from tests.methods.oracles.positions import played

from sparring.config.plugins import registry
from sparring.core.errors import OracleError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game

SEARCH = {"simulations": 8}


def made(oracle="mcts", **options):
    return registry.bind("oracles", "parallel", {"oracle": oracle, **options})()


def serial(oracle, options, states):
    return registry.bind("oracles", oracle, options)().judge(states)


TIC = make_game("tic_tac_toe")
STATES = played(TIC, 6)
HIDDEN = {
    "sudoku": ("constraint", {"lost": "solution"}, {"blanks": 4, "wrong": "continues"}),
    "minesweeper": ("posterior", {}, {"rows": 3, "columns": 3, "mines": 2}),
}


@pytest.fixture(autouse=True)
def no_orphans():
    """Nothing that a test starts outlives its oracle."""
    yield
    if multiprocessing.active_children():
        gc.collect()
    assert multiprocessing.active_children() == []


def test_any_number_of_processes_gives_the_same_verdicts_in_order():
    expected = serial("mcts", SEARCH, STATES)
    for workers in (1, 3):
        oracle = made(options=SEARCH, workers=workers, least=1)
        assert oracle.judge(STATES) == expected
        assert len(multiprocessing.active_children()) == (0 if workers == 1 else workers)
        oracle.close()


def test_all_games_go_through_one_set_of_processes():
    """Games with chance, with notes of their own, and two with one name but other options."""
    games = [make_game("pig", options={"winscore": 10}), make_game("connect_four"), TIC, make_game("pig", options={"winscore": 14})]
    states = [state for game in games for state in played(game, 2)[:20]]
    oracle = made(options=SEARCH, workers=2, least=1)
    assert oracle.judge(states) == serial("mcts", SEARCH, states)
    assert len(multiprocessing.active_children()) == 2
    assert oracle.metrics["sent"] == oracle.metrics["searched"] > 40


@pytest.mark.parametrize("name", HIDDEN)
def test_deals_and_all_that_verdicts_hold_come_through(name):
    within, options, rules = HIDDEN[name]
    states = played(make_game(name, options=rules), 6)
    oracle = made(within, options=options, workers=2, least=1)
    found = oracle.judge(states)
    expected = serial(within, options, states)
    assert found == expected
    assert [repr(verdict.values) for verdict in found] == [repr(verdict.values) for verdict in expected]
    assert any(verdict.entropy for verdict in found) == (name == "minesweeper")


def test_small_batches_and_known_positions_start_nothing():
    oracle = made(options=SEARCH, workers=2, least=1000)
    assert oracle.judge(STATES) == serial("mcts", SEARCH, STATES)
    oracle.least = 1
    assert oracle.judge(STATES) == serial("mcts", SEARCH, STATES)
    assert oracle.judge([]) == []
    assert multiprocessing.active_children() == []
    assert oracle.metrics.get("sent", 0) == 0


def test_a_game_that_cannot_be_made_again_is_judged_here():
    game = make_game("tic_tac_toe")
    game.made_by = None
    states = played(game, 4)
    assert made(options=SEARCH, workers=2, least=1).judge(states) == serial("mcts", SEARCH, states)
    assert multiprocessing.active_children() == []


def test_a_worker_of_something_else_judges_by_itself(monkeypatch):
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)
    assert made(options=SEARCH, workers=2, least=1).judge(STATES) == serial("mcts", SEARCH, STATES)
    monkeypatch.undo()


def test_a_process_that_dies_is_an_error_and_the_next_question_gets_new_ones():
    oracle = made(options=SEARCH, workers=2, least=1)
    oracle.judge(STATES[:4])
    for child in multiprocessing.active_children():
        os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(OracleError, match=r"'parallel'.*died \(exit code -9\)"):
        oracle.judge(STATES[4:])
    assert multiprocessing.active_children() == []
    assert oracle.judge(STATES) == serial("mcts", SEARCH, STATES)


def test_what_the_oracle_within_refuses_is_an_error_here():
    game = make_game("sudoku", options={"blanks": 4})
    states = played(game, 4)
    oracle = made("noisy", options={"oracle": "constraint", "per": "turn"}, workers=2, least=1)
    with pytest.raises(OracleError, match="draws its faults from one stream per state"):
        oracle.judge(states)
    with pytest.raises(OracleError, match="finished"):
        made(options=SEARCH).judge([finished()])


def test_other_rules_in_a_process_are_noticed():
    game = make_game("tic_tac_toe")
    game.made_by = {"name": "connect_four", "options": {}}
    with pytest.raises(OracleError, match="other rules"):
        made(options=SEARCH, workers=2, least=1).judge(played(game, 2)[:2])


def finished():
    state = played(TIC, 1)[-1]
    while not state.done:
        state.apply(state.legal_actions()[0])
    return state


def test_noise_goes_around_it():
    inner = {"oracle": "mcts", "options": SEARCH, "workers": 2, "least": 1}
    around = registry.bind("oracles", "noisy", {"oracle": "parallel", "options": inner, "per": "turn"})()
    streams = [Stream.from_seed(number) for number in range(len(STATES))]
    alone = registry.bind("oracles", "noisy", {"oracle": "mcts", "options": SEARCH, "per": "turn"})()
    assert around.judge(STATES, streams) == alone.judge(STATES, streams)


def test_wrong_names_fail_before_anything_starts():
    with pytest.raises(UnknownNameError, match="mcts"):
        made("mctz")
    with pytest.raises(UnknownNameError, match="simulations"):
        made(options={"simulation": 3})


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
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    children = list(map(int, done.stdout.split()))
    assert len(children) == 2, done.stderr
    assert "Traceback" not in done.stderr
    until = time.monotonic() + 20
    while any(alive(child) for child in children) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(alive(child) for child in children)


def test_a_script_without_a_guard_is_told_of_it(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.replace("END", "return").replace('if __name__ == "__main__":', "if True:"))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert "OracleError" in done.stderr
    assert "has to be guarded by if __name__ == '__main__'" in done.stderr


def alive(process):
    """Return whether a process runs; one that only waits for its parent to look does not."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
