"""OpenSpiel's solvers beside which self-play is drawn: CFR, CFR+, sampled CFR and MMD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparring.environments.catalogue import make_game
from sparring.environments.openspiel.solvers import IterateVariant, iterates
from sparring.measure.exploitability import nash_conv
from sparring.measure.info_states import enumerate_info_states
from sparring.measure.policy_tables import from_table
from sparring.rng import Stream

ALPHA, STEP = 0.005, 0.5  # of MMD; both in units of the largest payoff


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """A solver of OpenSpiel.

    Args:
        solver: which.
        each: its iterations for one of a full pass.
        seeded: whether it draws.
    """

    solver: IterateVariant
    each: int = 1
    seeded: bool = False


REFERENCES = {
    "CFR": Reference(solver="cfr"),
    "CFR+": Reference(solver="cfr_plus"),
    "external-sampling MCCFR": Reference(solver="external_sampling", each=100, seeded=True),
    "MMD": Reference(solver="mmd"),
}


def gaps(name: str, game: str, at: Sequence[int], seed: int) -> list[float]:
    """Return the NashConv of a solver's policies after each of these numbers of iterations.

    Args:
        name: in ``REFERENCES``.
        game: of the catalogue.
        at: numbers of iterations, ascending; each stands for ``Reference.each`` of the solver's.
        seed: of what it draws.
    """
    reference, rules = REFERENCES[name], make_game(game)
    states = enumerate_info_states(rules)
    drawn = Stream.from_seed(seed).child(name).integer(0, 2**31 - 1)
    wanted = [number * reference.each for number in at]
    largest = float(abs(states.tree.returns).max())
    units = {"alpha": ALPHA * largest, "step": STEP / largest}
    found = iterates(rules, reference.solver, wanted, seed=drawn, **units)
    return [nash_conv(rules, states, from_table(states, one)).nash_conv for one in found]
