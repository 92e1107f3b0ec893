"""Figures of a batch of self-play episodes.

Metrics, all over the trained seats unless said otherwise:
    legal_rate              share of replies that were a legal action
    unparsable_rate         share of replies that held no action at all
    truncated_rate          share of replies that ran into the token limit
    reply_tokens            sampled tokens per turn
    turns_per_game          decisions of all seats per game
    forfeit_rate            share of games that ended by an illegal reply
    return/GAME/ROLE        mean return of the role, in the game's units
    seat_asymmetry/GAME     largest minus smallest mean return over the roles of a game
"""

from __future__ import annotations

from collections.abc import Sequence

from sparring.types import Episode


def rollout_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return the figures listed above for a non-empty batch of episodes."""
    turns = legal = unparsable = truncated = tokens = all_turns = 0
    returns: dict[tuple[str, str], list[float]] = {}
    for episode in episodes:
        all_turns += len(episode.turns)
        for seat, role in enumerate(episode.roles):
            if episode.trained[seat]:
                returns.setdefault((episode.game, role), []).append(episode.returns[seat])
        for turn in episode.turns:
            if episode.trained[turn.seat]:
                turns += 1
                legal += turn.event == "ok"
                unparsable += turn.event == "unparsable"
                truncated += turn.truncated
                tokens += sum(len(segment.ids) for segment in turn.segments if segment.kind == "sampled")
    shares = {"legal_rate": legal, "unparsable_rate": unparsable, "truncated_rate": truncated, "reply_tokens": tokens}
    metrics = {name: value / max(turns, 1) for name, value in shares.items()}
    metrics["turns_per_game"] = all_turns / len(episodes)
    metrics["forfeit_rate"] = sum(episode.forfeited_by is not None for episode in episodes) / len(episodes)
    means = {key: sum(values) / len(values) for key, values in returns.items()}
    metrics.update({f"return/{game}/{role}": mean for (game, role), mean in means.items()})
    for game in {game for game, _ in means}:
        of_game = [mean for (name, _), mean in means.items() if name == game]
        metrics[f"seat_asymmetry/{game}"] = max(of_game) - min(of_game)
    return metrics
