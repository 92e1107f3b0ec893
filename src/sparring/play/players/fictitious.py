"""A player that plays a best response to the other player's past actions: fictitious play."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.base import Play, random_reply
from sparring.environments.combining import innermost_play, innermost_seat
from sparring.environments.reply import actions_meant
from sparring.environments.simultaneous_choice import SimultaneousChoice
from sparring.play.players.base import TextAgent


class FictitiousAgent(TextAgent):
    """Fictitious play in rock, paper, scissors: a best response to the other's past actions.

    What: in ``trial`` and ``repeated`` over ``rock_paper_scissors`` or ``rps_spock_lizard`` it
    counts the other player's actions in earlier rounds, and plays a best response to their
    frequencies. In the first round, and among equally good actions, it draws uniformly.
    When to use: as an adaptive opponent or baseline for a policy that adapts, and for the warm-up
    (``warmup.player``).
    Mathematics: with n_b the number of times that the other played b and u(a, b) the payoff of a,

        a = argmax over a of sum over b of n_b u(a, b)

    Pitfalls: old actions count as much as new ones. A player that knows the rule can exploit it.
    Reference: Brown, 1951, "Iterative solution of games by fictitious play".
    Verified by: tests/play/players/test_fictitious.py.

    Raises:
        GameError: at the first turn of any other environment.
    """

    name = "fictitious"

    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Return a best response to the other's past actions; a random text where a note is due.

        Raises:
            GameError: the environment is neither of the two games above.
        """
        legal: tuple[str, ...] | None = state.legal(seat)
        if legal is None:
            return random_reply(state, seat, None, stream)
        play, inner_seat = innermost_seat(state, seat)
        rules: Any = getattr(play, "rules", None)
        actions = actions_meant(state, seat, legal)
        if not isinstance(rules, SimultaneousChoice) or not set(actions) <= set(rules.moves):
            raise GameError(
                f"Agent 'fictitious' plays only rock_paper_scissors and "
                f"rps_spock_lizard, not {type(play).__name__} with the actions "
                f"{', '.join(legal)}; write random or scripted there."
            )
        counts = Counter(
            innermost_play(earlier_play).moves[1 - inner_seat]
            for earlier_play in getattr(state, "earlier_plays", ())
        )
        payoffs = {
            reply: sum(
                count * rules.payoff(move, other_move) for other_move, count in counts.items()
            )
            for reply, move in zip(legal, actions, strict=True)
        }
        best_replies = [reply for reply in legal if payoffs[reply] == max(payoffs.values())]
        return best_replies[stream.integer(0, len(best_replies))]


fictitious = FictitiousAgent
