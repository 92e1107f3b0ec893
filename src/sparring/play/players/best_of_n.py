"""A player that asks another player for several replies, and plays the one an oracle rates best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Annotated, Any, cast

from pydantic import Field

from sparring.config.parts import bound_agent, parse_named
from sparring.config.plugins import registry
from sparring.core.errors import GameError
from sparring.core.records import Verdict
from sparring.environments.base import Cloneable, EnvironmentPlay, read_reply
from sparring.environments.situation import close_copies
from sparring.play.players.base import Agent, HasContext, PendingTurn, Reply

Judge = Callable[[Sequence[Any]], Sequence[Verdict | None]]  # returns the verdict of each state


class BestOfN:
    """A player that plays the best of several replies of another agent, as an oracle judges them.

    Among equally good replies the first is played. Reply 0 is the reply of the agent alone.

    Args:
        agent: the agent that gives the replies.
        count: number of replies per turn.
        judge: returns the judging function of a game's oracle.
    """

    def __init__(self, agent: Agent, count: int, judge: Callable[[Any], Judge]) -> None:
        self.name = f"best of {count} by {agent.name}"
        self.agent, self.count, self._judge_for = agent, count, judge
        self.renderer = agent.renderer
        self.context = agent.context if isinstance(agent, HasContext) else None

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Return the best of several replies per pending turn.

        Raises:
            GameError: an episode cannot be copied for the oracle.
        """
        counts = [1 if turn.memory is not None else self.count for turn in turns]
        sample_turns = [
            turn._replace(stream=turn.stream.child("candidate").child(index)) if index else turn
            for turn, count in zip(turns, counts, strict=True)
            for index in range(count)
        ]
        sampled_replies = iter(self.agent.act(sample_turns))
        replies = [[next(sampled_replies) for _ in range(count)] for count in counts]
        turns_to_judge = [
            turn for turn, candidates in zip(turns, replies, strict=True) if len(candidates) > 1
        ]
        verdicts = iter(self._verdicts(turns_to_judge))
        return [
            candidates[0]
            if len(candidates) == 1
            else self._choose(turn, candidates, next(verdicts))
            for turn, candidates in zip(turns, replies, strict=True)
        ]

    def _verdicts(self, turns: Sequence[PendingTurn]) -> list[Verdict | None]:
        verdicts: list[Verdict | None] = []
        for game, plays in groupby(
            [cast(EnvironmentPlay, turn.state) for turn in turns], attrgetter("game")
        ):
            states = list(plays)
            copyable = [state for state in states if isinstance(state, Cloneable)]
            if len(copyable) < len(states):
                raise GameError(
                    f"{game.name}: its plays cannot be copied, so no oracle can judge replies in "
                    "them; play with one reply to each prompt, or write a method clone."
                )
            copies = [state.clone() for state in copyable]
            try:
                verdicts += self._judge_for(game)(copies)
            finally:
                close_copies(copies)
        return verdicts

    def _choose(
        self, turn: PendingTurn, replies: Sequence[Reply], verdict: Verdict | None
    ) -> Reply:
        """Return the reply with the largest value; the first one if there is no verdict."""
        if verdict is None:
            return replies[0]
        value_of = dict(zip(verdict.actions, verdict.values, strict=True))
        illegal_value = min(verdict.values) - 1.0
        values = [value_of.get(self._parse(turn, reply) or "", illegal_value) for reply in replies]
        return replies[values.index(max(values))]

    def _parse(self, turn: PendingTurn, reply: Reply) -> str | None:
        answer = reply.text if self.renderer is None else self.renderer.read(reply.text)
        if answer is None:
            return None
        needs_exact_action = cast(EnvironmentPlay, turn.state).game.brief or (
            self.renderer is not None and self.renderer.exact_answers
        )
        legal = turn.state.legal(turn.seat)
        return read_reply(turn.state, turn.seat, legal, answer, needs_exact_action)


def best_of_n(
    *,
    player: str = "random",
    oracle: str = "minimax",
    count: Annotated[int, Field(ge=1, le=1024)] = 4,
) -> Agent:
    """The best of several replies of another player, as an oracle judges them.

    The gain over the player alone shows how much a policy would gain by choosing better among its
    own replies. ``sparring evaluate --best-of`` measures a run's policy in this way.

    Args:
        player: the player that gives the replies, as on a command line: random (default), 'mcts
            simulations=10'.
        oracle: judges the replies, as on a command line: minimax (default), 'mcts
            simulations=1000'.
        count: number of replies per turn, 1 to 1024. Default 4. With 1 the player plays alone.
    """
    agent: Agent = bound_agent(player)()
    name, options = parse_named(oracle, "Oracle", "mcts simulations=1000")
    judging_oracle = registry.bind("oracles", name, options)()
    return BestOfN(agent, count, lambda game: judging_oracle.judge)
