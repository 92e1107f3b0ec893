import itertools
import sys

import pytest
from tests.cases import every_case
from tests.methods.oracles.positions import random_states
from tests.methods.small_runs import config_of, play_step

from sparring.config.plugins import registry
from sparring.config.plugins.registry import load_part
from sparring.core.errors import ConfigError, OracleError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.dag_search import DagPlay, DagWorld
from sparring.environments.dag_search.solver import dag_search as solver
from sparring.environments.minesweeper import mines_of, order_of
from sparring.environments.situation import Situation, decision_of
from sparring.measure.matches import play_matches
from sparring.measure.oracle_regret import Judge
from sparring.methods.oracles.base import judge_states, reason_not_judged
from sparring.methods.oracles.solvers import games_of_oracle
from sparring.play.players.scheduler import scheduler

OPTIONS = [{}, {"right": "forced"}, {"lost": "solution"}]


def constraint_oracle(**options):
    return registry.bind("oracles", "constraint", options)()


@pytest.mark.parametrize("options", OPTIONS, ids=["default", "forced", "lost"])
@pytest.mark.parametrize("name", games_of_oracle("constraint"))
def test_the_verdict_is_that_of_the_games_file(name, options):
    states, judge, abstained = random_states(make_game(name), number=6), constraint_oracle(**options), 0
    solve = registry.with_options(load_part("environments", name, "solver"), options)
    for state, verdict in zip(states, judge.judge(states), strict=True):
        judgement = solve(state)
        abstained += judgement is None
        if judgement is None or verdict is None:
            assert judgement is verdict
            continue
        assert verdict.actions == state.legal_actions() and verdict.values == pytest.approx(list(judgement.values))
        assert (verdict.certainty, verdict.bound) == (judgement.certainty, judgement.bound)
        largest = max(judgement.values)
        best_actions = (
            judgement.best
            if judgement.best is not None
            else [value == pytest.approx(largest) for value in judgement.values]
        )
        assert verdict.best == {word for word, ok in zip(verdict.actions, best_actions, strict=True) if ok}
    assert (judge.metrics["judged"], judge.metrics["abstained"]) == (len(states), abstained)


def test_one_oracle_judges_several_puzzles_in_turn():
    games = [make_game(name) for name in games_of_oracle("constraint")]
    states = [game.reset(Stream.from_seed(seed)) for seed in range(3) for game in games]
    judge = constraint_oracle()
    assert judge.judge(states) == [constraint_oracle().judge([state])[0] for state in states] == judge.judge(states)


def test_other_games_and_a_missing_solver_are_refused(monkeypatch):
    with pytest.raises(OracleError, match=r"constraint.*sudoku"):
        constraint_oracle().judge([make_game("tic_tac_toe").reset(Stream.from_seed(0))])
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(ConfigError, match="pip install 'sparring\\[oracles\\]'"):
        constraint_oracle(solver="z3")


def graded_oracle(**options):
    return registry.bind("oracles", "graded", options)()


def grade_actions(state, **options):
    verdict = graded_oracle(**options).judge([state])[0]
    return None if verdict is None else dict(zip(verdict.actions, verdict.values, strict=True))


def digits_left(size, digits, cell):
    """Return the digits absent from the cell's row, column and box."""
    high = 2
    box_width = size // high
    row, column = divmod(cell, size)
    used_digits = set()
    for index, digit in enumerate(digits):
        filled_row, filled_column = divmod(index, size)
        if digit and (
            filled_row == row
            or filled_column == column
            or (filled_row // high == row // high and filled_column // box_width == column // box_width)
        ):
            used_digits.add(digit)
    return set(range(1, size + 1)) - used_digits


@pytest.mark.parametrize("options", [{"blanks": 6}, {"blanks": 10, "level": "any"}, {"size": 6, "blanks": 14}])
def test_sudoku_grades_equal_counted_candidates(options):
    game = make_game("sudoku", options={**options, "puzzles": 40})
    grades = set()
    for state in random_states(game):
        table, size = state.table, state.table.size
        candidates = {
            cell: len(digits_left(size, table.cells, cell))
            for cell, digit_there in enumerate(table.cells)
            if not digit_there
        }
        for action, value in grade_actions(state).items():
            row, column, digit = int(action[1]) - 1, int(action[3]) - 1, int(action[5])
            cell = row * size + column
            is_right = table.solution[cell] == digit
            expected = (
                -1.0
                if not is_right
                else 2.0
                if candidates[cell] == 1
                else 1.0
                if candidates[cell] == min(candidates.values())
                else 0.5
            )
            assert value == expected
            grades.add(expected)
    assert grades >= {2.0, -1.0, 0.5}


def test_sudoku_without_a_forced_cell_pays_the_fewest_candidates():
    game = make_game("sudoku", options={"size": 6, "blanks": 25, "puzzles": 400})
    root = Stream.from_seed(1)
    for index in range(400):
        state = game.reset(root.child(index))
        grades = grade_actions(state)
        if 2.0 not in grades.values():
            assert 1.0 in grades.values()
            return
    pytest.fail("every puzzle had a forced cell")


def neighbour_cells(table, cell):
    row, column = divmod(cell, table.columns)
    return {
        r * table.columns + c
        for r, c in itertools.product(range(table.rows), range(table.columns))
        if (r, c) != (row, column) and abs(r - row) <= 1 and abs(c - column) <= 1
    }


def mine_layouts(table):
    covered_cells = [cell for cell in range(table.cells) if cell not in table.open_cells]
    return [
        mined
        for mined in map(set, itertools.combinations(covered_cells, table.mines))
        if table.flag_cells <= mined
        and all(len(mined & neighbour_cells(table, cell)) == table.count(cell) for cell in table.open_cells)
    ]


def test_minesweeper_grades_equal_enumerated_layouts():
    game = make_game("minesweeper", options={"rows": 3, "columns": 4, "mines": 3, "flags": True, "layouts": 200})
    grades = set()
    for state in random_states(game, 30):
        table = state.table
        if not table.open_cells:
            assert set(grade_actions(state).values()) == {2.0}
            continue
        layouts = mine_layouts(table)
        covered_cells = [
            cell for cell in range(table.cells) if cell not in table.open_cells and cell not in table.flag_cells
        ]
        risk = {cell: sum(cell in mined for mined in layouts) / len(layouts) for cell in covered_cells}
        for action, value in grade_actions(state).items():
            cell = (int(action[1]) - 1) * table.columns + int(action[3]) - 1
            if action[0] == "f":
                expected = 1.0 if risk[cell] == 1.0 else -1.0
            elif risk[cell] == 0.0:
                expected = 2.0
            else:
                expected = 1.0 if risk[cell] == min(risk.values()) else 0.0
            assert value == expected
            grades.add((action[0], expected))
    assert grades == {("r", 2.0), ("r", 1.0), ("r", 0.0), ("f", 1.0), ("f", -1.0)}


def num_moves_to_solve(table, max_moves=30):
    """Return the fewest moves that solve the room by breadth-first search, or None."""
    layer, visited = [table], {(table.agent, table.boxes)}
    for depth in range(max_moves):
        if any(room.solved for room in layer):
            return depth
        next_positions = []
        for room in layer:
            for move in room.legal():
                child = room.after(move)
                if (child.agent, child.boxes) not in visited:
                    visited.add((child.agent, child.boxes))
                    next_positions.append(child)
        layer = next_positions
    return None


@pytest.mark.parametrize("boxes", [1, 2])
def test_sokoban_grades_equal_a_breadth_first_search(boxes):
    game = make_game("sokoban", options={"boxes": boxes, "rooms": 20, "moves": 12})
    expected_grades = set()
    for state in random_states(game, 25):
        children = {state.game.words[index]: state.table.after(index) for index in state.legal_indices()}
        distance_of_move = {word: num_moves_to_solve(child) for word, child in children.items()}
        distances = [distance for distance in distance_of_move.values() if distance is not None]
        grades, default_grades = grade_actions(state, pay={"deadlock": -2.0}), grade_actions(state)
        if not distances:
            assert grades is None and default_grades is None
            expected_grades.add(None)
            continue
        for word, distance in distance_of_move.items():
            expected = -2.0 if distance is None else 2.0 if distance == min(distances) else 0.0
            assert grades[word] == expected
            assert default_grades[word] == max(expected, 0.0), "released: any move but a shortest one pays 0"
            expected_grades.add(expected)
    assert expected_grades == {None, 2.0, 0.0, -2.0}


def test_tier_payments_are_options_and_unknown_tiers_are_refused():
    game = make_game("sokoban", options={"rooms": 4})
    state = game.reset(Stream.from_seed(0))
    assert set(grade_actions(state, pay={"shortest": 7.0}).values()) >= {7.0}
    with pytest.raises(UnknownNameError, match="tier of 'sokoban'"):
        graded_oracle(pay={"shortst": 1.0}).covers(game)


def test_games_without_tiers_are_refused_with_a_list_of_games():
    game = make_game("tic_tac_toe")
    assert "minesweeper, sokoban, sudoku" in graded_oracle().covers(game)
    with pytest.raises(OracleError, match="defines no tiers"):
        graded_oracle().judge([game.reset(Stream.from_seed(0))])


def test_a_noisy_oracle_replaces_one_of_the_best_actions():
    game = make_game("sokoban", options={"rooms": 4})
    state = next(position for position in random_states(game) if len(set((grade_actions(position) or {}).values())) > 1)
    exact_verdict = graded_oracle().judge([state])[0]
    noisy = registry.bind("oracles", "noisy", {"oracle": "graded", "flip": 1.0})()
    assert noisy.judge([state])[0].best != exact_verdict.best


def posterior_oracle(**options):
    return registry.bind("oracles", "posterior", options)()


def game(**options):
    return make_game("minesweeper", options=options)


def careful_states(game, number):
    """Return states of games that avoid losing actions, so games are long."""
    states, root = [], Stream.from_seed(3)
    for episode in range(number):
        state, stream = game.reset(root.child("deal").child(episode)), root.child("play").child(episode)
        while not state.done:
            states.append(state.clone())
            table, legal = state.spiel.table, state.spiel.legal_actions()
            safe_actions = [
                index
                for index in legal
                if not table.mine_cells or (index % table.cells in table.mine_cells) == (index >= table.cells)
            ]
            state.apply_index(safe_actions[stream.integer(state.plies, len(safe_actions))])
    return states


def consistent_layouts(table, mine_layouts):
    shows = {cell: int(table.symbol(cell)) for cell in table.open_cells}
    return [
        mined
        for mined in mine_layouts
        if not mined & table.open_cells
        and mined >= table.flag_cells
        and all(len(neighbour_cells(table, cell) & mined) == count for cell, count in shows.items())
    ]


@pytest.mark.parametrize("pay", ["cleared", "share"])
@pytest.mark.parametrize("flags", [False, True])
@every_case(("rows", "columns", "mines"), [(4, 4, 3), (3, 5, 5), (2, 6, 2), (1, 7, 3)])
@every_case("prior", ["uniform", "bank"])
def test_mine_probabilities_equal_enumerated_layouts(prior, rows, columns, mines, flags, pay):
    board = game(rows=rows, columns=columns, mines=mines, flags=flags, pay=pay, layouts=200)
    states = [state for state in careful_states(board, 6) if state.plies]
    num_cells = rows * columns
    for state, verdict in zip(states, posterior_oracle(prior=prior).judge(states), strict=True):
        table = state.spiel.table
        if prior == "bank":
            mine_layouts = [mines_of(order_of(num_cells, 0, index), mines, table.moves[0]) for index in range(200)]
        else:
            mine_layouts = map(frozenset, itertools.combinations(range(num_cells), mines))
        mine_layouts = consistent_layouts(table, mine_layouts)
        loss = len(table.open_cells) / (num_cells - mines) if pay == "share" else 0.0
        chances_of_safety = [
            sum((index % num_cells in mined) == (index >= num_cells) for mined in mine_layouts) / len(mine_layouts)
            for index in state.spiel.legal_actions()
        ]
        assert verdict.values == pytest.approx(
            [chance + (1 - chance) * loss for chance in chances_of_safety], abs=1e-12
        )
        assert verdict.best == {
            word
            for word, chance in zip(verdict.actions, chances_of_safety, strict=True)
            if chance > max(chances_of_safety) - 1e-9
        }
        assert (verdict.bound == 0.0) == (set(chances_of_safety) <= {0.0, 1.0})
        assert verdict.certainty == 1.0


def test_posterior_mine_probabilities_by_hand():
    board = game(rows=1, columns=5, mines=1, layouts=64, flags=True)
    for seed in range(64):
        state = board.reset(Stream.from_seed(seed))
        state.apply("r1c2")
        if state.observe(0).view == ".1...":
            break
    verdict = posterior_oracle().judge([state])[0]
    assert dict(zip(verdict.actions, verdict.values, strict=True)) == {
        "r1c1": 0.5,
        "r1c3": 0.5,
        "r1c4": 1.0,
        "r1c5": 1.0,
        "f1c1": 0.5,
        "f1c3": 0.5,
        "f1c4": 0.0,
        "f1c5": 0.0,
    }
    assert verdict.best == {"r1c4", "r1c5"} and verdict.bound == 1.0


def test_the_first_reveal_is_safe_everywhere():
    state = game().reset(Stream.from_seed(0))
    verdict = posterior_oracle().judge([state])[0]
    assert set(verdict.values) == {1.0} and verdict.best == set(state.legal_actions()) and verdict.bound == 1.0


def test_the_largest_board_is_solved_and_certain_cells_are_right():
    board = game(rows=8, columns=8, mines=10, flags=True)
    states = [state for state in careful_states(board, 3) if state.plies]
    for state, verdict in zip(states, posterior_oracle().judge(states), strict=True):
        mined = state.spiel.table.mine_cells
        values = dict(zip(state.spiel.legal_actions(), verdict.values, strict=True))
        assert not any(value == 1.0 and (index % 64 in mined) != (index >= 64) for index, value in values.items())
        reveals = [1 - value for index, value in values.items() if index < 64]
        assert sum(reveals) == pytest.approx(10 - len(state.spiel.table.flag_cells))  # expected mines


def test_options_are_checked_and_passed_to_the_games_file():
    board = game(rows=3, columns=4, mines=2)
    state = board.reset(Stream.from_seed(0))
    assert posterior_oracle(options={"worlds": 55}).judge([state])[0].best == {
        "r1c1",
        "r1c4",
        "r2c2",
        "r2c3",
        "r3c1",
        "r3c4",
    }
    assert posterior_oracle(options={}).judge([state]) == posterior_oracle().judge([state])
    with pytest.raises(UnknownNameError, match="worlds"):
        posterior_oracle(options={"world": 55}).covers(board)
    with pytest.raises(ConfigError, match="worlds"):
        posterior_oracle(options={"worlds": -1}).covers(board)
    with pytest.raises(ConfigError, match="beside options"):
        posterior_oracle(options={"prior": "bank"})


# task 3 is long and needs the short task 1; task 2 is long: the best plan first calls only task 1
WORLD = DagWorld(
    (("ardan",), ("bemir", "cosol", "dutek", "elvor"), ("fizin", "godan", "humir", "artek")),
    ("red", "blue", "gold"),
    ((), (), (0,)),
)


def planning_oracle():
    return registry.bind("oracles", "planning")()


def first_decision():
    """Return the game and its live episode in WORLD, at the lead's first decision."""
    game = make_game("dag_search", options={"tasks": 3, "workers": 3, "pages": 4})
    return game, DagPlay(game, WORLD)


def test_planning_by_hand():
    game, play = first_decision()
    (verdict,) = judge_states(planning_oracle(), [decision_of(game, play, 0)])
    assert verdict.actions == ("call 1", "call 2", "call 3") and verdict.best == {"call 1"}
    assert verdict.values == (1.0, pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert (verdict.certainty, verdict.bound, verdict.entropy) == (1.0, 0.0, None)


def test_workers_are_not_judged_and_the_episode_is_not_changed():
    game, play = first_decision()
    play.step({0: "call 2"})
    original_fields = dict(vars(play))
    assert planning_oracle().judge([decision_of(game, play, seat) for seat in (1, 2)]) == [None, None]
    assert vars(play) == original_fields and planning_oracle().judge([]) == []


def test_games_and_options_without_a_plan_are_refused():
    game, play = first_decision()
    play.is_over = True
    with pytest.raises(OracleError, match="finished"):
        planning_oracle().judge([decision_of(game, play, 0)])
    kuhn = make_game("kuhn_poker")
    assert "has no planning solver" in planning_oracle().covers(kuhn) and "dag_search" in planning_oracle().covers(kuhn)
    with pytest.raises(OracleError, match="kuhn_poker"):
        planning_oracle().judge([decision_of(kuhn, kuhn.reset(Stream.from_seed(0)), 0)])
    wide_search = make_game("wide_search")
    assert reason_not_judged(planning_oracle(), wide_search) and reason_not_judged(
        registry.bind("oracles", "minimax")(), game
    ).startswith("only games over OpenSpiel")
    assert not reason_not_judged(planning_oracle(), game)
    with pytest.raises(OracleError, match="judge episodes of dag_search"):
        solver(Situation(wide_search, wide_search.reset(Stream.from_seed(0)), 0))


def test_a_state_of_openspiel_is_judged_without_conversion():
    kuhn = make_game("kuhn_poker")
    state = kuhn.reset(Stream.from_seed(0))
    assert decision_of(kuhn, state, 0) is state
    game, play = first_decision()
    decision = decision_of(game, play, 0, 7)
    assert (decision.seat, decision.plies, decision.done, decision.legal_actions()) == (
        0,
        7,
        False,
        ("call 1", "call 2", "call 3"),
    )


@pytest.mark.parametrize(("player", "optimal"), [(scheduler(), 1.0), (scheduler(width=4), 0.0)])
def test_the_planning_oracle_measures_a_lead_in_matches(player, optimal):
    """In a chain the best schedule has no regret, and four workers are never best with few steps."""
    game = make_game("dag_search", options={"shape": "chain", "workers": 4})
    report = play_matches(
        game, player, scheduler(), games_per_seat=4, stream=Stream.from_seed(0), judge=Judge(oracle=planning_oracle())
    )
    lead, worker = report.seats[0].regret, report.seats[1].regret
    assert lead.judged == lead.turns > 0 and worker.judged == 0
    assert lead.optimal.mean == optimal or (optimal == 0.0 and lead.optimal.mean < 0.7)
    assert (lead.regret.mean == 0.0) == (optimal == 1.0)


def config_with_planning(environment, **changes):
    """Return a small configuration of one environment whose oracle plans ahead."""
    section = {**environment, "illegal": {"rule": "random"}, "oracle": {"name": "planning"}}
    model = {"hidden_size": 8, "layers": 1, "heads": 1, "context": 256}
    return config_of(section, rollout={"games_per_step": 8}, model=model, **changes)


def test_the_planning_oracle_judges_a_run_whose_rewards_read_verdicts():
    environment = {"name": "dag_search", "options": {"tasks": 3, "workers": 2, "worlds": 50}}
    outcome = play_step(config_with_planning(environment, rewards=[{"name": "best_action"}]))
    turns = [turn for episode in outcome.episodes for turn in episode.turns]
    assert all((turn.verdict is None) == (turn.seat != 0) for turn in turns)
    assert all(("best_action" in turn.rewards) == (turn.seat == 0) for turn in turns)


def test_a_run_refuses_the_planning_oracle_for_other_environments():
    config = config_with_planning({"name": "wide_search"})
    with pytest.raises(ConfigError, match="'wide_search' has the oracle 'planning', which cannot judge it"):
        play_step(config)
