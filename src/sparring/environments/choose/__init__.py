"""Combinator: a proposer names a few actions, and the seat chooses one by its number."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from sparring.core.errors import ConfigError, UnknownNameError, quoted
from sparring.environments.choose.asked import Asked
from sparring.environments.choose.proposer import Proposer
from sparring.environments.choose.rules import Choose
from sparring.environments.combining import inner_of
from sparring.environments.options import seats_of, unknown_words

__all__ = ["choose"]

Count = Annotated[int, Field(ge=1, le=26)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def choose(
    *,
    environment: dict[str, Any] | None = None,
    proposer: Literal["weights", "seat"] = "weights",
    count: Count = 3,
    proposals: dict[str, Weight] | None = None,
    diverse: bool = True,
    shuffle: bool = True,
    choosers: tuple[str, ...] = (),
) -> Choose:
    """An environment in which a frozen proposer names actions, of which the seat chooses one.

    What: at every decision up to ``count`` different legal actions are drawn for the seat, shown
    with numbers in an order of chance, and the seat replies with a number. The candidates are part
    of what it is told, so that they are recorded and the update sees the same ones. Any policy may
    choose: this is the chooser of SLA whose network is the language model itself.
    When to use: to learn which of a few proposed actions to take, where the proposer stays as it
    is; to see what a biased proposer costs.
    Mathematics: over the actions a of the game beneath, after what the seat knows, h, it plays

        P(a | h) = sum over lists c of candidates of  P(c | h) * P(number of a in c | h, c)

    Exact figures (``nash_conv``, ``exploitability``) are those of this policy in the game beneath,
    where every action may be a best response, also one that was never proposed. ``diverse`` draws
    without replacement, in proportion to the weights that are left; without it ``count`` draws are
    made and equal ones are one candidate.
    Pitfalls: the equilibrium of the candidates is not the game's: that of rock, paper and scissors
    is exploited by 1/3 in ``rps_spock_lizard``. Without ``shuffle`` the policy may learn places
    instead of actions. Where a seat may say any text "weights" propose nothing, and "seat" texts,
    of which equal ones are one candidate. Players that know the game's actions (``cfr``,
    ``minimax``) do not reply with numbers.
    Reference: Xu et al., "Language agents with reinforcement learning for strategic play in the
    Werewolf game", 2024 (arXiv:2310.18940).
    Verified by: tests/environments/test_choose.py, tests/environments/test_choose_asked.py,
    tests/measure/test_chosen.py.

    Args:
        environment: the other environment, {name: ..., options: {...}}. null (default):
            rock_paper_scissors, to look at.
        proposer: "weights" (default): the environment draws the candidates. "seat": each seat has
            a proposer, the role ROLE_proposer of its team, which is asked ``count`` times before
            the seat is. A frozen policy or any player sits there; there are no exact figures.
        count: candidates of a decision, 1 to 26; fewer where fewer are proposed.
        proposals: weights of the actions that the proposer knows, {rock: 0.6, paper: 0.4}; others
            are never proposed where one of these is legal. null (default): all legal actions alike.
        diverse: whether candidates are drawn until ``count`` are different.
        shuffle: whether candidates are shown in an order of chance; otherwise in the order of the
            legal actions.
        choosers: roles that choose; the others say their actions themselves, as without the
            combinator, so that a policy of the game beneath may sit there. Empty (default): all.

    Raises:
        ConfigError: the option ``environment`` names none, all weights are 0, there are weights
            beside a seat that proposes, or a role is named twice.
        UnknownNameError: the environment has no role of a name in ``choosers``, or no word of an
            action in ``proposals``.
    """
    if proposals is not None and not any(proposals.values()):
        raise ConfigError(
            f"environments 'choose', option 'proposals': {quoted(proposals)} gives no action a "
            "weight above 0; write proposals: {rock: 0.6, paper: 0.4}, or leave it out."
        )
    inner = inner_of("choose", environment)
    _check_words(proposals or {}, inner)
    seats = seats_of("choose", "choosers", choosers, inner.roles, inner.name)
    drawn = Proposer(count=count, weights=proposals or {}, diverse=diverse, shuffle=shuffle)
    if proposer == "weights":
        return Choose(inner, drawn, seats)
    if proposals is not None:
        raise ConfigError(
            "environments 'choose': 'proposals' are of proposer: weights; leave them out, and let "
            "who sits in the seat ROLE_proposer propose."
        )
    return Asked(inner, drawn, seats)


def _check_words(proposals: dict[str, float], inner: Any) -> None:
    """Refuse actions that an environment with a list of its words has not.

    Raises:
        UnknownNameError: a word of an action is none of them.
    """
    if not getattr(inner, "brief", False) or not hasattr(inner, "vocabulary"):
        return
    known = set(inner.vocabulary())
    for action in proposals:
        for word in unknown_words(action, known):
            raise UnknownNameError(f"word of choose.proposals for {inner.name}", word, known)
