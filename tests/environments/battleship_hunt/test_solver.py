"""The solver of battleship hunt against brute force and by hand; its approximation; the largest board."""

from collections import Counter
from dataclasses import replace
from math import log
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.errors import OracleError
from sparring.core.rng import Stream
from sparring.environments.battleship_hunt import Sea, fleet_of
from sparring.environments.battleship_hunt.solver import key, posterior_of
from tests.environments.battleship_hunt.test_battleship_hunt import shoot
from tests.environments.battleship_hunt.test_fleets import enumerate_fleets
from tests.environments.worlds import load_solver, make_game_factory

game = make_game_factory("battleship_hunt")
judge = load_solver("battleship_hunt")


def possible_fleets(environment, prior):
    """Return the possible fleets; a fleet that a bank holds twice occurs twice."""
    options = environment.spiel.opening
    if prior == "uniform":
        return sorted(enumerate_fleets(options.rows, options.columns, options.lengths, options.touch))
    return [
        fleet_of(options.rows, options.columns, options.lengths, options.touch, options.bank, index)
        for index in range(options.layouts)
    ]


def consistent_tables(environment, fleets, table):
    """Return a position for each fleet that is consistent with the answers to the shots."""
    tables = []
    for fleet in fleets:
        position = replace(environment.spiel.opening, ships=fleet)
        for move in table.moves:
            position = position.after(move) if position.player == 0 else None
            if position is None:
                break
        if position is not None and position.answers == table.answers:
            tables.append(position)
    return tables


def action_values(tables):
    """Return, per legal shot, the return of best play after it, summed over these indistinguishable positions."""
    values = []
    for move in tables[0].legal():
        return_at_end, groups = 0.0, {}
        for table in tables:
            next_table = table.after(move)
            if next_table.player == 0:
                groups.setdefault(next_table.answers[-1], []).append(next_table)
            else:
                return_at_end += next_table.returns()[0]
        values.append(return_at_end + sum(max(action_values(group)) for group in groups.values()))
    return values


def sample_states(environment, num_episodes, *, seed=0):
    """Return the states of random episodes that hit ships more often than uniform play."""
    states, root = [], Stream.from_seed(seed)
    for episode in range(num_episodes):
        state, stream = environment.reset(root.child("deal").child(episode)), root.child("play").child(episode)
        while not state.done:
            states.append(state.clone())
            legal, ship_cells = state.spiel.legal_actions(), sum(state.spiel.table.ships)
            hits = [cell for cell in legal if ship_cells >> cell & 1]
            cells = hits if stream.uniform(2 * state.plies) < 0.4 else legal
            state.apply_index(cells[stream.integer(2 * state.plies + 1, len(cells))])
    return states


SMALL_BOARDS = [
    {"rows": 3, "columns": 3, "fleet": "2", "shots": 4, "layouts": 20},
    {"rows": 3, "columns": 3, "fleet": "2 1", "shots": 6, "layouts": 30},
    {"rows": 3, "columns": 3, "fleet": "2 2", "shots": 6, "layouts": 30},
    {"rows": 2, "columns": 5, "fleet": "3 1 1", "shots": 8, "layouts": 30},
    {"rows": 2, "columns": 4, "fleet": "2 2", "shots": 6, "layouts": 9, "touch": False},
]
IDS = ["one", "two", "alike", "three", "apart"]


@pytest.mark.parametrize("options", SMALL_BOARDS, ids=IDS)
@pytest.mark.parametrize("pay", ["sunk", "share"])
@pytest.mark.parametrize("prior", ["uniform", "bank"])
def test_values_and_entropy_match_brute_force(options, pay, prior):
    environment = game(**options, pay=pay)
    fleets, keys = possible_fleets(environment, prior), set()
    for state in sample_states(environment, 12):
        table = state.spiel.table
        if table.shots_left > 3 or state.observe(0).key in keys:
            continue
        keys.add(state.observe(0).key)
        tables = consistent_tables(environment, fleets, table)
        judgement = judge(state, prior=prior, worlds=1000, beliefs=100_000)
        assert judgement.values == pytest.approx([value / len(tables) for value in action_values(tables)], abs=1e-12)
        counts = Counter(world.ships for world in tables).values()
        assert judgement.entropy == pytest.approx(
            -sum(n / len(tables) * log(n / len(tables)) for n in counts), abs=1e-12
        )
        assert (judgement.certainty, judgement.bound, judgement.best) == (1.0, 0.0, None)
    assert len(keys) > 8


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_posterior_matches_enumeration(data):
    rows, columns = data.draw(st.integers(2, 4)), data.draw(st.integers(3, 4))
    fleet = data.draw(
        st.sampled_from(["2", "3 2", "2 2", "2 1 1", "3 1", "2 2 2"] if rows * columns > 8 else ["2", "3 1", "2 1 1"])
    )
    environment = game(
        rows=rows,
        columns=columns,
        fleet=fleet,
        shots=rows * columns,
        layouts=40,
        touch=rows * columns < 12 or data.draw(st.booleans()),
    )
    for prior in ("uniform", "bank"):
        fleets = possible_fleets(environment, prior)
        for state in sample_states(environment, 1, seed=data.draw(st.integers(0, 999))):
            table = state.spiel.table
            worlds = consistent_tables(environment, fleets, table)
            posterior = posterior_of(table, prior, 20)
            assert posterior.num_layouts == len(worlds)
            expected = [
                sum(sum(world.ships) >> cell & 1 for world in worlds) / len(worlds) for cell in range(table.cells)
            ]
            assert posterior.chances == pytest.approx(expected, abs=1e-12)
            assert sorted(posterior.layouts) == (sorted(world.ships for world in worlds) if len(worlds) <= 20 else [])


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_approximate_values_are_within_their_bound(data):
    rows, columns = data.draw(st.sampled_from([(3, 3), (2, 4), (1, 7)]))
    environment = game(
        rows=rows,
        columns=columns,
        fleet=data.draw(st.sampled_from(["2", "3", "2 1"])),
        shots=data.draw(st.integers(3, 5)),
        layouts=30,
        pay=data.draw(st.sampled_from(["sunk", "share"])),
    )
    for state in sample_states(environment, 2, seed=data.draw(st.integers(0, 99))):
        table = state.spiel.table
        exact_judgement, approximate_judgement = judge(state, worlds=1000, beliefs=100_000), judge(state, worlds=0)
        assert exact_judgement.certainty == 1.0 and exact_judgement.bound == 0.0
        assert all(
            abs(a - b) <= approximate_judgement.bound + 1e-9
            for a, b in zip(exact_judgement.values, approximate_judgement.values, strict=True)
        )
        assert approximate_judgement.certainty == (0.5 if approximate_judgement.bound else 1.0)
        afloat = sum(table.lengths) - table.hits
        assert (
            approximate_judgement.bound > 0.0
            or table.shots_left == 1
            or (environment.spiel.opening.pay == "sunk" and afloat > table.shots_left)
        )
        assert approximate_judgement.entropy == exact_judgement.entropy
        stopped_judgement = judge(state, worlds=1000, beliefs=1)
        assert stopped_judgement in (
            exact_judgement,
            approximate_judgement,
        )  # a search that stops early must not change a cache


def test_values_and_bounds_by_hand():
    # 1 x 5, a ship of two, three shots: its first cell is 0, 1, 2 or 3, equally likely
    sea = Sea(rows=1, columns=5, lengths=(2,), shots=3, layouts=1, pay="sunk", ships=(0b00110,))
    posterior = posterior_of(sea, "uniform", 9)
    assert posterior.chances == pytest.approx(
        [1 / 4, 1 / 2, 1 / 2, 1 / 2, 1 / 4]
    ) and posterior.entropy == pytest.approx(log(4))
    assert judge(SimpleNamespace(table=sea)).values == pytest.approx(
        [1 / 2, 3 / 4, 3 / 4, 3 / 4, 1 / 2]
    )  # a2: a hit wins; after a miss a4 hits, then a guess
    hit = shoot(sea, 1)  # a1 a2 or a2 a3
    assert judge(SimpleNamespace(table=hit)).values == pytest.approx([1, 1, 1 / 2, 1 / 2]) and judge(
        SimpleNamespace(table=hit)
    ).entropy == pytest.approx(log(2))
    assert judge(SimpleNamespace(table=hit), worlds=0).values == pytest.approx([1 / 2, 1 / 2, 0, 0])
    missed = shoot(sea, 3)  # the ship is not at a4: a1 a2 or a2 a3
    assert judge(SimpleNamespace(table=missed)).values == pytest.approx([1 / 2, 1 / 2, 1 / 2, 0])

    def bound_of(shots, share):
        return judge(
            SimpleNamespace(
                table=Sea(
                    rows=1,
                    columns=5,
                    lengths=(2,),
                    shots=shots,
                    layouts=1,
                    pay="share" if share else "sunk",
                    ships=(0b00110,),
                )
            ),
            worlds=0,
        ).bound

    assert [bound_of(3, False), bound_of(2, False)] == [
        3 / 4,
        1 / 2,
    ]  # cells are hit with 1/4 or 1/2; with two shots a miss loses
    assert [bound_of(3, True), bound_of(2, True), bound_of(1, True)] == [7 / 8, 1 / 2, 0.0]


def test_fewest_beliefs_of_an_exact_search_by_hand():
    def fewest_beliefs(table):
        return next(
            number for number in range(60) if judge(SimpleNamespace(table=table), beliefs=number).certainty == 1.0
        )

    hit = shoot(Sea(rows=1, columns=5, lengths=(2,), shots=3, layouts=1, pay="sunk", ships=(0b00110,)), 1)
    assert fewest_beliefs(hit) == 1  # the ship lies at a1 or a3; a shot at either tells which
    assert (
        fewest_beliefs(Sea(rows=2, columns=2, lengths=(2, 2), shots=4, layouts=1, pay="sunk", ships=(0b0011, 0b1100)))
        == 0
    )  # the ships fill the board
    assert (
        fewest_beliefs(Sea(rows=1, columns=6, lengths=(2,), shots=4, layouts=1, pay="sunk", ships=(0b000110,))) == 27
    )  # without pruning it would be 28


def test_posteriors_of_the_largest_board_and_by_hand():
    environment = game(rows=8, columns=8, fleet="4 3 3 2", shots=40, layouts=5)
    for state in sample_states(environment, 1)[::4]:
        table = state.spiel.table
        posterior = posterior_of(table, "uniform")
        ship_cells = sum(table.ships)
        assert posterior.chances.sum() == pytest.approx(12)  # the ships' cells
        assert all(posterior.chances[cell] > 0 for cell in range(64) if ship_cells >> cell & 1)
        assert not any(posterior.chances[cell] == 1.0 for cell in range(64) if not ship_cells >> cell & 1)
    sea = Sea(rows=1, columns=6, lengths=(3, 2), shots=6, layouts=1, pay="sunk", ships=(0b000111, 0b011000))
    hits = shoot(sea, 1, 3)  # a2 and a4 hit, neither sunk
    assert set(posterior_of(hits, "uniform", 9).layouts) == {
        (0b000111, 0b011000),
        (0b001110, 0b110000),
        (0b011100, 0b000011),
        (0b111000, 0b000011),
        (0b111000, 0b000110),
    }
    late_hit = shoot(sea, 3, 4, 1)  # the hit on a2 came later, but the sunk ship is still a4 a5
    assert posterior_of(late_hit, "uniform", 9).layouts == [(0b000111, 0b011000)]
    sea = Sea(
        rows=2, columns=4, lengths=(2, 2, 2), shots=8, layouts=1, pay="sunk", ships=(0b00000011, 0b00001100, 0b00110000)
    )
    sunk = shoot(sea, 0, 1, 3, 2)  # a2 and a3 each sank a ship, so no ship lies at a2 a3
    assert posterior_of(sunk, "uniform", 9).layouts == [
        (0b11, 0b1100, third) for third in (0b00110000, 0b01100000, 0b11000000)
    ]
    sea = Sea(rows=1, columns=6, lengths=(2, 2), shots=6, layouts=1, pay="sunk", ships=(0b000011, 0b001100))
    first_table, second_table = shoot(sea, 0, 5, 2), shoot(sea, 2, 0, 5)
    assert key(SimpleNamespace(table=first_table), prior="uniform") == key(
        SimpleNamespace(table=second_table), prior="uniform"
    )
    early_hit, late_hit = shoot(sea, 2, 1, 0), shoot(sea, 1, 0, 2)  # hit a3 before or after a1 sank a ship
    assert early_hit.view(0) == late_hit.view(0) and key(SimpleNamespace(table=early_hit), prior="uniform") != key(
        SimpleNamespace(table=late_hit), prior="uniform"
    )


def test_the_likeliest_hit_need_not_be_the_best_shot():
    # hits at a4 and b2, misses at c3, d2 and d3; four shots for three cells: b4 hits more often than b3, but wins less
    table = Sea(
        rows=4,
        columns=4,
        lengths=(3, 2),
        shots=9,
        layouts=1,
        pay="sunk",
        ships=(1,),
        moves=(13, 14, 3, 10, 5),
        answers=(0, 0, 1, 0, 1),
    )
    cell_names = [table.name_of(0, cell) for cell in table.legal()]
    exact_judgement, approximate_judgement = (
        dict(zip(cell_names, judge(SimpleNamespace(table=table), worlds=worlds).values, strict=True))
        for worlds in (64, 0)
    )
    assert (approximate_judgement["b4"], approximate_judgement["b3"]) == pytest.approx((7 / 12, 5 / 12)) and max(
        approximate_judgement.values()
    ) == approximate_judgement["b4"]
    assert (exact_judgement["b4"], exact_judgement["b3"]) == pytest.approx((7 / 12, 2 / 3)) and max(
        exact_judgement.values()
    ) == exact_judgement["b3"]
    worlds = consistent_tables(game(shots=9), sorted(enumerate_fleets(4, 4, (3, 2), True)), table)
    assert len(worlds) == 12
    assert list(exact_judgement.values()) == pytest.approx([value / 12 for value in action_values(worlds)])


@pytest.mark.parametrize("prior", ["uniform", "bank"])
def test_a_board_that_agrees_with_no_layout_is_refused(prior):
    impossible = Sea(
        rows=2, columns=2, lengths=(2,), shots=4, layouts=5, pay="sunk", ships=(0b0011,), moves=(0, 3), answers=(1, 1)
    )  # hits at two corners
    with pytest.raises(OracleError, match="no layout agrees"):
        posterior_of(impossible, prior)
