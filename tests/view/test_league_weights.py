"""Weights of league members by the meta-solver of the run or a chosen one, and leagues without weights."""

import json
from dataclasses import replace

import numpy as np
import pytest

from sparring.core.records import ref, snapshot
from sparring.league.meta_game import MetaGame
from sparring.league.payoffs import Payoffs, Results, RowKey
from sparring.view import league_weights as module
from sparring.view.league_weights import describe_answer, environments_of, solve_league, solver_of
from tests.view import run_writer

NAMES = ("past-000010", "past-000020", "past-000030")
KUHN = "kuhn_poker"


def results_of_payoff(games, payoff):
    wins = round(games * (1 + payoff) / 2)
    return Results(games=games, wins=wins, losses=games - wins, returns=2 * wins - games)


def payoff_table(payoffs, names=NAMES, games=100, environment=KUHN):
    """Return the payoff table with these mean payoffs of members; nan means no games."""
    rows = {
        RowKey(environment, 0, ref(player), ref(opponent)): results_of_payoff(games, payoffs[i][j])
        for i, player in enumerate(names)
        for j, opponent in enumerate(names)
        if i != j and not np.isnan(payoffs[i][j])
    }
    return Payoffs(rows)


def cycle(member_a, member_b, member_c):
    return [[0, member_a, -member_c], [-member_a, 0, member_b], [member_c, -member_b, 0]]


def write_league(folder, payoffs, *, config="league: {every: 10}\n", step=30):
    run = folder if folder.exists() else run_writer.write_run(folder)
    (run / "config.yaml").write_text(run_writer.CONFIG.format(seed=0) + config)
    checkpoint_folder = run / "checkpoints" / f"step_{step:06d}"
    checkpoint_folder.mkdir(parents=True)
    versions = {name: ref(name).step for name in NAMES}
    (checkpoint_folder / "engine.json").write_text(json.dumps({"version": step, "members": versions}))
    (checkpoint_folder / "state.json").write_text(json.dumps({"payoffs": payoffs.to_json()}))
    return run


def weights(document):
    return [member["weight"] for member in document["members"]]


@pytest.mark.parametrize("solver", ["nash", "max_entropy_nash"])
def test_every_solver_gives_uniform_weights_in_rock_paper_scissors(open_client, tmp_path, solver):
    run = write_league(
        tmp_path / "runs" / "one", payoff_table(cycle(1, 1, 1)), config=f"league: {{answer: {solver}}}\n"
    )
    document = open_client(run).get("/api/runs/0/meta").json()
    assert (document["solver"], document["source"], document["step"], document["why"]) == (
        solver,
        "league.answer",
        30,
        None,
    )
    assert [member["name"] for member in document["members"]] == [*NAMES]
    assert weights(document) == pytest.approx([1 / 3] * 3, abs=1e-9)
    assert document["payoffs"] == cycle(1, 1, 1) and (document["pairs"], document["empty"]) == (3, 0)
    assert document["counts"] == [[0, 100, 100], [100, 0, 100], [100, 100, 0]]
    assert document["rates"][0][0] is None and document["rates"][0][1][0] == 1.0
    assert document["exact"] == [[False] * 3] * 3
    low, high = document["rates"][0][1][1:]
    assert low == pytest.approx(0.963, abs=1e-3) and high == 1.0  # Wilson, 100 of 100


def test_unequal_cycles_have_their_equilibrium_weights(open_client, tmp_path):
    document = solve_league(module.League(lineages(NAMES), payoff_table(cycle(0.2, 0.6, 0.4))), "nash", {KUHN: 1.0})
    assert weights(document) == pytest.approx([0.5, 1 / 3, 1 / 6], abs=1e-9)  # (b, c, a) / (a + b + c)
    run = write_league(
        tmp_path / "runs" / "one", payoff_table(cycle(1, 1, 1)), config="league: {answer: {nme: nash}}\n"
    )
    document = open_client(run).get("/api/runs/0/meta").json()
    assert weights(document) == [None] * 3 and document["why"]


def lineages(names):
    return [(ref(name), module.Lineage(tag)) for name, tag in zip(names, (None, "exploiter", None), strict=True)]


@pytest.mark.parametrize(
    ("config", "solver", "source"),
    [
        ({}, "max_entropy_nash", None),
        ({"league": {"answer": "policy"}}, "max_entropy_nash", None),
        ({"league": {"answer": "last"}, "matchmaker": {"name": "pfsp"}}, "max_entropy_nash", None),
        ({"matchmaker": {"name": "meta_strategy", "preset": None}}, "nash", "matchmaker.solver"),
        (
            {"matchmaker": {"name": "meta_strategy", "solver": {"name": "delta_uniform", "delta": 0.5}}},
            "delta_uniform delta=0.5",
            "matchmaker.solver",
        ),
        ({"league": {"answer": "uniform"}, "matchmaker": {"name": "meta_strategy"}}, "uniform", "league.answer"),
        ({"league": "nonsense", "matchmaker": [1]}, "max_entropy_nash", None),
    ],
)
def test_the_solver_is_the_one_of_the_run_or_the_default(config, solver, source):
    chosen_solver = solver_of(config) or module.Solver(module.DEFAULT, None)
    assert (module.text_of(chosen_solver.config), chosen_solver.source) == (solver, source)


@pytest.mark.parametrize(
    ("answer", "description"),
    [
        ("policy", "the published policy"),
        (None, "the published policy"),
        ("last", "the learner's current weights (league.answer: last)"),
        ("nash", "the mixture of the league's members by nash (league.answer: nash)"),
    ],
)
def test_the_answer_of_the_league_is_described(answer, description):
    assert describe_answer({"league": {"answer": answer}}) == description


def test_only_built_in_solvers_can_be_chosen(open_client, tmp_path, monkeypatch):
    run = write_league(tmp_path / "runs" / "one", payoff_table(cycle(0.2, 0.6, 0.4)), config="league: {answer: nash}\n")
    client = open_client(run)
    document = client.get("/api/runs/0/meta?solver=last").json()
    assert (weights(document), document["source"], document["own"]) == (
        [0, 0, 1],
        None,
        {"solver": "nash", "source": "league.answer"},
    )
    assert "last" in document["solvers"] and "nash" in document["solvers"]
    for name in ("os.system", "no_such", "nash oops=1", "nash:x", '"', "x" * 500):
        document = client.get("/api/runs/0/meta", params={"solver": name}).json()
        assert weights(document) == [None] * 3 and document["why"] and document["payoffs"]
    (tmp_path / "elsewhere.py").write_text("raise SystemExit('it was imported')")
    monkeypatch.syspath_prepend(tmp_path)
    for config in (
        "league: {answer: elsewhere.solver}\n",
        "matchmaker: {name: meta_strategy, solver: elsewhere.solver}\n",
    ):
        run = write_league(tmp_path / config[:6] / "one", payoff_table(cycle(1, 1, 1)), config=config)
        document = open_client(run).get("/api/runs/0/meta").json()
        assert document["why"].startswith("elsewhere.solver is not a built-in")


def test_cells_without_games_and_exact_cells_are_distinguished(open_client, tmp_path):
    document = open_client(write_league(tmp_path / "runs" / "one", Payoffs())).get("/api/runs/0/meta").json()
    assert weights(document) == pytest.approx([1 / 3] * 3) and (document["pairs"], document["empty"]) == (3, 3)
    assert document["counts"] == document["payoffs"] == [[0] * 3] * 3
    payoffs = cycle(1, 1, 1)
    payoffs[0][2] = payoffs[2][0] = float("nan")
    document = solve_league(module.League(lineages(NAMES), payoff_table(payoffs)), "nash", {KUHN: 1.0})
    assert (document["pairs"], document["empty"], document["rates"][0][2]) == (3, 1, None)
    assert document["members"][1] == {"name": "past-000020", "tag": "exploiter", "weight": 0.0}
    sampled_table = payoff_table([[np.nan, 1, np.nan], [-1, np.nan, 0.5], [np.nan, -0.5, np.nan]])
    exact_rows = {
        row: replace(results, exact=True)
        for row, results in sampled_table.rows.items()
        if row.player == ref(NAMES[0]) or row.opponent == ref(NAMES[0])
    }
    client = open_client(
        write_league(
            tmp_path / "exact" / "one", sampled_table.with_exact(exact_rows), config="league: {answer: nash}\n"
        )
    )
    document = client.get("/api/runs/0/meta").json()
    assert document["exact"] == [[False, True, False], [True, False, False], [False] * 3] and document["empty"] == 1
    assert document["counts"] == [[0, 0, 0], [0, 0, 100], [0, 100, 0]] and document["rates"][0][1] == [1.0] * 3
    standings = {
        (pair["player"], pair["opponent"]): pair for pair in client.get("/api/runs/0/league").json()["standings"]
    }
    cell = standings[NAMES[0], NAMES[1]]
    assert (cell["exact"], cell["games"], cell["plays_more"]) == (True, 0, 0)
    assert standings[NAMES[1], NAMES[2]]["games"] == 100 and not standings[NAMES[1], NAMES[2]]["exact"]


def test_a_damaged_state_is_replaced_by_the_previous_one(open_client, tmp_path):
    run = write_league(tmp_path / "runs" / "one", payoff_table(cycle(1, 1, 1)), step=20)
    write_league(run, payoff_table(cycle(1, 1, 1)), step=30)
    for text in ("{", "[]", '{"payoffs": 3}', '{"payoffs": {"kuhn_poker": [{}]}}'):
        (run / "checkpoints" / "step_000030" / "state.json").write_text(text)
        document = open_client(run).get("/api/runs/0/meta").json()
        assert document["step"] == 20 and weights(document) == pytest.approx([1 / 3] * 3)
    (run / "checkpoints" / "step_000020" / "state.json").write_text("")
    document = open_client(run).get("/api/runs/0/meta").json()
    assert (document["step"], document["members"], document["why"]) == (None, [], "no checkpoint can be read")
    assert open_client(run).get("/api/runs/0/league").json()["step"] is None


@pytest.mark.parametrize("members", [0, module.MAX_MEMBERS + 1])
def test_too_few_and_too_many_members_are_reported(members):
    document = solve_league(
        module.League([(snapshot(step + 1), module.Lineage()) for step in range(members)], Payoffs()),
        "nash",
        {KUHN: 1.0},
    )
    assert weights(document) == [None] * members
    assert ("no member" if not members else f"{members} members") in document["why"]


def test_a_failing_solver_gives_one_sentence(monkeypatch):
    three_sided_game = MetaGame(payoffs=(np.zeros((3, 3, 3)),) * 3)
    monkeypatch.setattr(module, "member_payoffs", lambda *arguments: three_sided_game)
    document = solve_league(module.League(lineages(NAMES), Payoffs()), "nash", {KUHN: 1.0})
    assert weights(document) == [None] * 3
    assert document["why"].startswith("meta-solver 'nash' is for two sides, and this meta-game has 3.")


def test_each_checkpoint_is_solved_once_for_a_solver(open_client, tmp_path, monkeypatch):
    run, calls, solve = (
        write_league(tmp_path / "runs" / "one", payoff_table(cycle(1, 1, 1)), step=20),
        [],
        module.solve_league,
    )
    monkeypatch.setattr(module, "solve_league", lambda *arguments: calls.append(arguments[1]) or solve(*arguments))
    client = open_client(run)
    for _ in range(2):
        for name in ("nash", "uniform"):
            client.get(f"/api/runs/0/meta?solver={name}")
    assert calls == ["nash", "uniform"]
    write_league(run, payoff_table(cycle(1, 1, 1)), step=30)
    client.get("/api/runs/0/meta?solver=nash")
    assert calls == ["nash", "uniform", "nash"]
    # a run that went back to an earlier step writes the same file again
    rewritten_state = run / "checkpoints" / "step_000030" / "state.json"
    rewritten_state.write_text(json.dumps({"payoffs": payoff_table(cycle(0.2, 0.6, 0.4)).to_json()}))
    assert weights(client.get("/api/runs/0/meta?solver=nash").json()) == pytest.approx([0.5, 1 / 3, 1 / 6])


def test_payoffs_of_several_environments_are_weighted_or_one_is_chosen(open_client, tmp_path):
    rows = {**payoff_table(cycle(1, 1, 1)).rows, **payoff_table(cycle(-1, -1, -1), environment="leduc").rows}
    games = "environments:\n- {name: kuhn_poker, weight: 3}\n- {name: leduc_poker, label: leduc}\n- {name: tiny_hanabi, weight: 0}\n"
    run = write_league(tmp_path / "runs" / "one", Payoffs(rows))
    for config_text, first_weight in (("league: {answer: nash}\n", 0.5), ("matchmaker: {name: meta_strategy}\n", 1.0)):
        (run / "config.yaml").write_text(games + config_text)
        client = open_client(run)
        document = client.get("/api/runs/0/meta").json()
        assert document["labels"] == [KUHN, "leduc"] and document["payoffs"][0][1] == first_weight
        assert (document["rates"] is None) == (first_weight == 0.5)  # intervals exist only for one environment
        document = client.get("/api/runs/0/meta?environment=leduc").json()
        assert document["payoffs"][0][1] == -1 and document["environments"] == ["leduc"]


SEPARATE_SIDES = "matchmaker: {name: meta_strategy, sides: apart, solver: uniform}\nleague: {answer: nash}\n"


def table_of_sides(payoffs_of_side_0, environment=KUHN, payoffs_of_side_1=1):
    """Return the payoff table of separate sides, by members of both sides; None means no games."""
    rows = {}
    for row, payoffs in enumerate(payoffs_of_side_0):
        for column, payoff in enumerate(payoffs):
            if payoff is not None:
                rows[RowKey(environment, 0, ref(NAMES[row]), ref(NAMES[column]))] = results_of_payoff(100, payoff)
                rows[RowKey(environment, payoffs_of_side_1, ref(NAMES[column]), ref(NAMES[row]))] = results_of_payoff(
                    100, -payoff
                )
    return Payoffs(rows)


@pytest.mark.parametrize("second", [1, 2])
def test_separate_sides_have_separate_weights_and_payoffs(open_client, tmp_path, second):
    """Payoffs of side 0 are 0.6, 0 / 0.2, 0.4, so p = 1/4 and q = 1/2; the third member always loses."""
    other_rows = payoff_table([[0, 1], [-1, 0]], NAMES[:2], environment="other").rows  # this environment has no weight
    payoffs = table_of_sides([[0.6, 0, 1], [0.2, 0.4, 1], [-1, -1, None]], payoffs_of_side_1=second)
    run = write_league(tmp_path / "runs" / "one", Payoffs({**payoffs.rows, **other_rows}), config=SEPARATE_SIDES)
    client = open_client(run)
    document = client.get("/api/runs/0/meta").json()
    assert document["apart"] and (document["solver"], document["source"], document["why"]) == (
        "nash",
        "league.answer",
        None,
    )
    assert [member["sides"] for member in document["members"]] == [
        [pytest.approx(p, abs=1e-9), pytest.approx(q, abs=1e-9)] for p, q in ((0.25, 0.5), (0.75, 0.5), (0, 0))
    ]
    assert document["payoffs"] == [[0.6, 0, 1], [0.2, 0.4, 1], [-1, -1, 0]] and (
        document["pairs"],
        document["empty"],
    ) == (9, 1)
    assert (
        document["counts"] == [[100, 100, 100], [100, 100, 100], [100, 100, 0]]
        and document["rates"][0][0][0] == 0.8
        and document["rates"][2][2] is None
    )
    document = client.get("/api/runs/0/meta?solver=os.system").json()
    assert (
        "not a built-in meta-solver" in document["why"]
        and [member["sides"] for member in document["members"]] == [[None, None]] * 3
    )
    description = client.get("/api/runs/0/league").json()["answer"]
    assert description == "a mixture of the league's members in each side by nash (league.answer: nash)"


@pytest.mark.parametrize(
    ("config", "is_separate"),
    [
        ({"matchmaker": {"name": "meta_strategy", "sides": "together"}}, False),
        ({"matchmaker": {"name": "pfsp", "sides": "apart"}}, False),
        ({"matchmaker": {"name": "meta_strategy", "sides": "apart"}}, True),
        (
            {
                "matchmaker": [],
                "league": {"learners": {"a": {"matchmaker": {"name": "meta_strategy", "sides": "apart"}}, "b": 3}},
            },
            True,
        ),
        ({"matchmaker": "meta_strategy", "league": {"learners": [1]}}, False),
    ],
)
def test_when_sides_are_separate(config, is_separate):
    assert module.has_separate_sides(config) == is_separate
    resolvable = {**config, "environments": [{"name": "kuhn_poker"}]}
    assert is_separate == (
        describe_answer({**resolvable, "league": {**(config.get("league") or {}), "answer": "nash"}}).startswith(
            "a mixture"
        )
    )


def test_only_readable_environments_and_snapshots_are_listed():
    weights_by_label = environments_of({"environments": [{"name": "a", "weight": "x"}, 3, {"name": "b", "weight": 0}]})
    assert weights_by_label == {"a": 1.0} and environments_of({"environments": 3}) == {}
    engine = {
        "policies": {
            "main": {"members": {"past-000010": 10}},
            "counter": {"members": {"past-counter-000010": {"tag": "exploiter"}}},
        }
    }
    table_with_counter = payoff_table([[0, 1], [-1, 0]], names=("past-000010", "past-counter-000010"))
    league = module.league_of(engine, {"payoffs": table_with_counter.to_json()})
    assert [(str(member), lineage.tag) for member, lineage in league.members] == [
        ("past-000010", None),
        ("past-counter-000010", "exploiter"),
    ]
    league = module.league_of(engine, {"payoffs": payoff_table([[0]], names=("past-000010",)).to_json()})
    assert [str(member) for member, _ in league.members] == ["past-000010"]  # a snapshot of all policies
