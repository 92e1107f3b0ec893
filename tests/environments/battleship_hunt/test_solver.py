"""The solver of battleship hunt against all worlds and all plays, by hand, its short cut against exact values, the largest board."""

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
from tests.environments.battleship_hunt.test_fleets import every_fleet
from tests.environments.worlds import maker, solver_of

game = maker("battleship_hunt")
belief = solver_of("battleship_hunt")


def fleets_of(environment, prior):
    """Return the fleets that are possible, the same one as often as a bank has it."""
    o = environment.spiel.opening
    if prior == "uniform":
        return sorted(every_fleet(o.rows, o.columns, o.lengths, o.touch))
    return [fleet_of(o.rows, o.columns, o.lengths, o.touch, o.bank, index) for index in range(o.layouts)]


def agreeing(environment, fleets, table):
    """Return the positions, one per fleet, in which the same shots had the same answers: by playing them all."""
    out = []
    for fleet in fleets:
        other = replace(environment.spiel.opening, ships=fleet)
        for move in table.moves:
            other = other.after(move) if other.player == 0 else None
            if other is None:
                break
        if other is not None and other.answers == table.answers:
            out.append(other)
    return out


def action_values(tables):
    """Return the sum over positions that cannot be told apart of what best play gets after each legal shot; nothing remembered."""
    values = []
    for move in tables[0].legal():
        total, groups = 0.0, {}
        for table in tables:
            after = table.after(move)
            if after.player == 0:
                groups.setdefault(after.answers[-1], []).append(after)
            else:
                total += after.returns()[0]
        values.append(total + sum(max(action_values(group)) for group in groups.values()))
    return values


def played(environment, number, *, seed=0):
    """Return the states of plays that shoot at ships more often than chance would."""
    out, root = [], Stream.from_seed(seed)
    for episode in range(number):
        state, draws = environment.reset(root.child("deal").child(episode)), root.child("play").child(episode)
        while not state.done:
            out.append(state.clone())
            legal, cover = state.spiel.legal_actions(), sum(state.spiel.table.ships)
            hits = [cell for cell in legal if cover >> cell & 1]
            some = hits if draws.uniform(2 * state.plies) < 0.4 else legal
            state.apply_index(some[draws.integer(2 * state.plies + 1, len(some))])
    return out


SMALL = [
    {"rows": 3, "columns": 3, "fleet": "2", "shots": 4, "layouts": 20},
    {"rows": 3, "columns": 3, "fleet": "2 1", "shots": 6, "layouts": 30},
    {"rows": 3, "columns": 3, "fleet": "2 2", "shots": 6, "layouts": 30},
    {"rows": 2, "columns": 5, "fleet": "3 1 1", "shots": 8, "layouts": 30},
    {"rows": 2, "columns": 4, "fleet": "2 2", "shots": 6, "layouts": 9, "touch": False},
]
IDS = ["one", "two", "alike", "three", "apart"]


@pytest.mark.parametrize("options", SMALL, ids=IDS)
@pytest.mark.parametrize("pay", ["sunk", "share"])
@pytest.mark.parametrize("prior", ["uniform", "bank"])
def test_values_and_entropy_are_those_of_all_worlds_and_plays(options, pay, prior):
    environment = game(**options, pay=pay)
    fleets, seen = fleets_of(environment, prior), set()
    for state in played(environment, 12):
        table = state.spiel.table
        if table.shots_left > 3 or state.observe(0).key in seen:
            continue
        seen.add(state.observe(0).key)
        worlds = agreeing(environment, fleets, table)
        judgement = belief(state, prior=prior, worlds=1000, beliefs=100_000)
        assert judgement.values == pytest.approx([value / len(worlds) for value in action_values(worlds)], abs=1e-12)
        many = Counter(world.ships for world in worlds).values()
        assert judgement.entropy == pytest.approx(-sum(n / len(worlds) * log(n / len(worlds)) for n in many), abs=1e-12)
        assert (judgement.certainty, judgement.bound, judgement.best) == (1.0, 0.0, None)
    assert len(seen) > 8


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_chances_are_those_of_all_worlds_whatever_was_shot_and_sunk(data):
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
        fleets = fleets_of(environment, prior)
        for state in played(environment, 1, seed=data.draw(st.integers(0, 999))):
            table = state.spiel.table
            worlds = agreeing(environment, fleets, table)
            posterior = posterior_of(table, prior, 20)
            assert posterior.fleets == len(worlds)
            cover = [sum(sum(world.ships) >> cell & 1 for world in worlds) / len(worlds) for cell in range(table.cells)]
            assert posterior.chances == pytest.approx(cover, abs=1e-12)
            assert sorted(posterior.layouts) == (sorted(world.ships for world in worlds) if len(worlds) <= 20 else [])


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_the_short_cut_is_within_its_bound_and_says_that_it_is_one(data):
    rows, columns = data.draw(st.sampled_from([(3, 3), (2, 4), (1, 7)]))
    environment = game(
        rows=rows,
        columns=columns,
        fleet=data.draw(st.sampled_from(["2", "3", "2 1"])),
        shots=data.draw(st.integers(3, 5)),
        layouts=30,
        pay=data.draw(st.sampled_from(["sunk", "share"])),
    )
    for state in played(environment, 2, seed=data.draw(st.integers(0, 99))):
        table = state.spiel.table
        exact, short = belief(state, worlds=1000, beliefs=100_000), belief(state, worlds=0)
        assert exact.certainty == 1.0 and exact.bound == 0.0
        assert all(abs(a - b) <= short.bound + 1e-9 for a, b in zip(exact.values, short.values, strict=True))
        assert short.certainty == (0.5 if short.bound else 1.0)
        afloat = sum(table.lengths) - table.hits
        assert (
            short.bound > 0.0
            or table.shots_left == 1
            or (environment.spiel.opening.pay == "sunk" and afloat > table.shots_left)
        )
        assert short.entropy == exact.entropy
        tiny = belief(state, worlds=1000, beliefs=1)
        assert tiny in (exact, short)  # a search that stops early leaves nothing behind


def test_by_hand_and_the_largest_board():
    # 1 x 5, a ship of two, three shots: it begins at cell 0, 1, 2 or 3
    sea = Sea(rows=1, columns=5, lengths=(2,), shots=3, layouts=1, pay="sunk", ships=(0b00110,))
    posterior = posterior_of(sea, "uniform", 9)
    assert posterior.chances == pytest.approx(
        [1 / 4, 1 / 2, 1 / 2, 1 / 2, 1 / 4]
    ) and posterior.entropy == pytest.approx(log(4))
    assert belief(SimpleNamespace(table=sea)).values == pytest.approx(
        [1 / 2, 3 / 4, 3 / 4, 3 / 4, 1 / 2]
    )  # a2: a hit wins; after a miss a4 hits, then a guess
    hit = shoot(sea, 1)  # a1 a2 or a2 a3
    assert belief(SimpleNamespace(table=hit)).values == pytest.approx([1, 1, 1 / 2, 1 / 2]) and belief(
        SimpleNamespace(table=hit)
    ).entropy == pytest.approx(log(2))
    assert belief(SimpleNamespace(table=hit), worlds=0).values == pytest.approx([1 / 2, 1 / 2, 0, 0])
    missed = shoot(sea, 3)  # the ship is not at a4: a1 a2 or a2 a3
    assert belief(SimpleNamespace(table=missed)).values == pytest.approx([1 / 2, 1 / 2, 1 / 2, 0])

    def bound(shots, share):
        return belief(
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

    assert [bound(3, False), bound(2, False)] == [
        3 / 4,
        1 / 2,
    ]  # cells hit with 1/4 or 1/2; a miss with two shots is lost
    assert [bound(3, True), bound(2, True), bound(1, True)] == [7 / 8, 1 / 2, 0.0]

    def least(table):
        return next(
            number for number in range(60) if belief(SimpleNamespace(table=table), beliefs=number).certainty == 1.0
        )

    hit = shoot(Sea(rows=1, columns=5, lengths=(2,), shots=3, layouts=1, pay="sunk", ships=(0b00110,)), 1)
    assert (
        least(hit) == 1
    )  # a1 or a3: a shot at either tells which, one at a4 or a5 nothing, and both leave the same belief
    assert (
        least(Sea(rows=2, columns=2, lengths=(2, 2), shots=4, layouts=1, pay="sunk", ships=(0b0011, 0b1100))) == 0
    )  # the ships fill the board
    assert (
        least(Sea(rows=1, columns=6, lengths=(2,), shots=4, layouts=1, pay="sunk", ships=(0b000110,))) == 27
    )  # 28 if no shot were passed over
    environment = game(rows=8, columns=8, fleet="4 3 3 2", shots=40, layouts=5)
    for state in played(environment, 1)[::4]:
        table = state.spiel.table
        posterior = posterior_of(table, "uniform")
        cover = sum(table.ships)
        assert posterior.chances.sum() == pytest.approx(12)  # the ships' cells
        assert all(posterior.chances[cell] > 0 for cell in range(64) if cover >> cell & 1)
        assert not any(posterior.chances[cell] == 1.0 for cell in range(64) if not cover >> cell & 1)
    sea = Sea(rows=1, columns=6, lengths=(3, 2), shots=6, layouts=1, pay="sunk", ships=(0b000111, 0b011000))
    hits = shoot(sea, 1, 3)  # a2 and a4 hit, neither sunk
    assert set(posterior_of(hits, "uniform", 9).layouts) == {
        (0b000111, 0b011000),
        (0b001110, 0b110000),
        (0b011100, 0b000011),
        (0b111000, 0b000011),
        (0b111000, 0b000110),
    }
    late = shoot(sea, 3, 4, 1)  # the hit on a2 came later, but the sunk ship is still a4 a5
    assert posterior_of(late, "uniform", 9).layouts == [(0b000111, 0b011000)]
    sea = Sea(
        rows=2, columns=4, lengths=(2, 2, 2), shots=8, layouts=1, pay="sunk", ships=(0b00000011, 0b00001100, 0b00110000)
    )
    sunk = shoot(sea, 0, 1, 3, 2)  # a2 and a3 sank ships, so not one of a2 a3, with a1 b1 and a4 b4
    assert posterior_of(sunk, "uniform", 9).layouts == [
        (0b11, 0b1100, third) for third in (0b00110000, 0b01100000, 0b11000000)
    ]
    sea = Sea(rows=1, columns=6, lengths=(2, 2), shots=6, layouts=1, pay="sunk", ships=(0b000011, 0b001100))
    first, second = shoot(sea, 0, 5, 2), shoot(sea, 2, 0, 5)
    assert key(SimpleNamespace(table=first), prior="uniform") == key(SimpleNamespace(table=second), prior="uniform")
    early, late = shoot(sea, 2, 1, 0), shoot(sea, 1, 0, 2)  # hit a3 before or after a1 sank a ship
    assert early.view(0) == late.view(0) and key(SimpleNamespace(table=early), prior="uniform") != key(
        SimpleNamespace(table=late), prior="uniform"
    )


def test_the_likeliest_hit_need_not_be_the_best_shot():
    # x at a4 and b2, misses at c3, d2 and d3, four shots for three cells: b4 hits more often than b3 and wins less often
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
    words = [table.name_of(0, cell) for cell in table.legal()]
    exact, short = (
        dict(zip(words, belief(SimpleNamespace(table=table), worlds=worlds).values, strict=True)) for worlds in (64, 0)
    )
    assert (short["b4"], short["b3"]) == pytest.approx((7 / 12, 5 / 12)) and max(short.values()) == short["b4"]
    assert (exact["b4"], exact["b3"]) == pytest.approx((7 / 12, 2 / 3)) and max(exact.values()) == exact["b3"]
    worlds = agreeing(game(shots=9), sorted(every_fleet(4, 4, (3, 2), True)), table)
    assert len(worlds) == 12
    assert list(exact.values()) == pytest.approx([value / 12 for value in action_values(worlds)])


@pytest.mark.parametrize("prior", ["uniform", "bank"])
def test_a_board_that_agrees_with_no_layout_is_refused(prior):
    wrong = Sea(
        rows=2, columns=2, lengths=(2,), shots=4, layouts=5, pay="sunk", ships=(0b0011,), moves=(0, 3), answers=(1, 1)
    )  # hits at two corners
    with pytest.raises(OracleError, match="no layout agrees"):
        posterior_of(wrong, prior)
