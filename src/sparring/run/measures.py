"""Figures of a batch of self-play episodes.

Metrics, all over the trained seats unless said otherwise. Of several replies to a prompt, figures
of replies (legal_rate to sampled_entropy) count all, figures of games what was played:
    legal_rate              share of replies that were a legal action, of turns with a list of legal
                            actions; left out where there are none, as any text is legal
    legal_rate/GAME         the same in one game
    unparsable_rate         share of replies that held no action at all
    truncated_rate          share of replies that ran into the token limit
    overlong_rate           share of turns that the model was not asked, as the conversation had
                            outgrown model.context; these turns count in truncated_rate too, and in
                            none of the other figures
    reply_tokens            sampled tokens per turn
    sampled_entropy         mean of -log(probability) of the sampled tokens: estimates the sampler's
                            entropy per token, nats
    memories_per_game       memories that seats were asked to write, per game; they count in none of
                            the figures above. This and the next only where there are any
    memory_tokens           sampled tokens per memory
    turns_per_game          decisions of all seats per game
    forfeit_rate            share of games that ended by an illegal reply
    cut_rate                share of games that were truncated, by rollout.max_turns or by
                            model.context; only where there are any
    return/GAME/ROLE        mean return of the role, in the game's units; games that outgrew
                            model.context are left out
    seat_asymmetry/GAME     largest minus smallest mean return over the roles of a game
    attempt/GAME/NUMBER     of trials, mean payoff of the game in attempt 1, 2, ..., over the seats
                            that had a turn in it, times environments.N.scale; attempts that
                            outgrew model.context are left out
    figure/GAME/NAME        what an environment counts itself, such as understood of code_words, a
                            mean over seats; plays that were forfeited or truncated are left out,
                            and seats of which it says nothing
    candidates/decisions    decisions per game to which there were several replies; this and the
                            next where rollout.candidates.count is above 1
    candidates/equal_share  share of these whose replies were all judged alike
    candidates/unjudged     share of these none of whose replies could be judged
    candidates/score        mean score of all replies that were judged: how good the policy is
    candidates/gain         mean score of what was played, less that: what choosing adds
    candidates/tokens       sampled tokens of the step, all replies counted
    group_deviation         mean over groups (trajectories of one start and role) of the rewards'
                            standard deviation
    group_equal_share       share of the groups whose rewards are all equal; both only where groups
                            have two or more
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from sparring.core.records import Episode, Turn, TurnTable
from sparring.methods.credit.base import start_groups, trajectory_returns
from sparring.methods.oracles.judge import is_best, regret
from sparring.ops.groups import group_counts, group_std
from sparring.play.replay import figures_of
from sparring.play.turn_draft import sampled_tokens


def rollout_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return the figures listed above, those of groups left out, of at least one episode."""
    metrics = _reply_metrics(episodes)
    metrics["turns_per_game"] = sum(len(episode.decisions) for episode in episodes) / len(episodes)
    metrics["forfeit_rate"] = sum(episode.forfeited_by is not None for episode in episodes) / len(
        episodes
    )
    metrics |= _memory_metrics(episodes)
    if any(episode.cut for episode in episodes):
        metrics["cut_rate"] = sum(episode.cut for episode in episodes) / len(episodes)
    returns: dict[tuple[str, str], list[float]] = {}
    for episode in episodes:
        if episode.has_outgrown_context:
            continue
        for seat, role in enumerate(episode.roles):
            if episode.trained[seat]:
                returns.setdefault((episode.game, role), []).append(episode.returns[seat])
    means = {key: sum(values) / len(values) for key, values in returns.items()}
    metrics.update({f"return/{game}/{role}": mean for (game, role), mean in means.items()})
    for game in {game for game, _ in means}:
        of_game = [mean for (name, _), mean in means.items() if name == game]
        metrics[f"seat_asymmetry/{game}"] = max(of_game) - min(of_game)
    return metrics | _attempt_metrics(episodes)


def _attempt_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return what the attempts of trials paid."""
    trials = {
        one.game
        for one in episodes
        if any(turn.attempt and one.trained[turn.seat] for turn in one.turns)
    }
    paid: defaultdict[tuple[str, int], dict[tuple[int, int], float]] = defaultdict(dict)
    for number, episode in enumerate(episodes):
        turns = episode.turns if episode.game in trials else ()
        lost = {turn.attempt for turn in turns if turn.event == "unsent"}
        for turn in turns:
            if episode.trained[turn.seat] and turn.attempt not in lost:
                own, who = paid[episode.game, turn.attempt], (number, turn.seat)
                own[who] = own.get(who, 0.0) + turn.rewards.get("game", 0.0)
    return {
        f"attempt/{game}/{attempt + 1}": sum(own.values()) / len(own)
        for (game, attempt), own in sorted(paid.items())
    }


def environment_metrics(episodes: Sequence[Episode], games: Iterable[Any]) -> dict[str, float]:
    """Return what environments count themselves: those that have ``figures``.

    Plays are played again for it, as records do not hold what was hidden.
    """
    metrics: dict[str, float] = {}
    for game in games:
        counted: dict[str, list[float]] = {name: [] for name in getattr(game, "figures", ())}
        for episode in episodes if counted else ():
            found = figures_of(game, episode) if episode.game == game.name else None
            for name, values in (found or {}).items():
                own = (values[n] for n, mine in enumerate(episode.trained) if mine)
                counted[name] += (value for value in own if not math.isnan(value))
        means = {name: sum(own) / len(own) for name, own in counted.items() if own}
        metrics |= {f"figure/{game.name}/{name}": mean for name, mean in means.items()}
    return metrics


def _reply_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return the figures of the trained seats' replies."""
    unparsable = truncated = unsent = tokens = replies = 0
    surprise = 0.0
    listed: defaultdict[str, int] = defaultdict(int)  # turns with a list of legal actions
    legal: defaultdict[str, int] = defaultdict(int)
    for episode in episodes:
        trained = episode.trained
        if episode.has_outgrown_context:
            unsent += sum(turn.event == "unsent" and trained[turn.seat] for turn in episode.turns)
        for turn in all_replies(episode):
            if not trained[turn.seat]:
                continue
            replies += 1
            event, said = turn.event, 0
            if turn.legal_actions:
                listed[episode.game] += 1
                legal[episode.game] += event == "ok"
            unparsable += event == "unparsable"
            for segment in turn.segments:
                if segment.kind == "sampled":
                    said += len(segment.ids)
                    surprise -= sum(segment.logprobs)
            tokens += said
            truncated += turn.truncated
    turns = replies + unsent
    metrics = {
        "unparsable_rate": unparsable / max(replies, 1),
        "truncated_rate": (truncated + unsent) / max(turns, 1),
        "overlong_rate": unsent / max(turns, 1),
        "reply_tokens": tokens / max(replies, 1),
    }
    if listed or not turns:
        metrics = {"legal_rate": sum(legal.values()) / max(sum(listed.values()), 1), **metrics}
    metrics.update({f"legal_rate/{game}": legal[game] / count for game, count in listed.items()})
    return {**metrics, "sampled_entropy": surprise / tokens} if tokens else metrics


def all_replies(episode: Episode) -> Iterator[Turn]:
    """Yield all replies of an episode: what was played, and the others to the same prompts."""
    for turn in episode.decisions:
        yield turn
        yield from turn.candidates


def _memory_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return the figures of the memories that trained seats wrote; none where there are none."""
    written = [
        sampled_tokens(turn)
        for episode in episodes
        for turn in episode.turns
        if turn.event == "memory" and episode.trained[turn.seat]
    ]
    if not written:
        return {}
    count = len(written)
    return {"memories_per_game": count / len(episodes), "memory_tokens": sum(written) / count}


def candidate_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return the figures of candidates listed above; none where every prompt had one reply."""
    groups = [
        (turn, [one.score for one in (turn, *turn.candidates) if one.score is not None])
        for episode in episodes
        for turn in episode.turns
        if turn.candidates
    ]
    if not groups:
        return {}
    judged = [(turn.score, scores) for turn, scores in groups if scores]
    every = [score for _, scores in judged for score in scores]
    played = [score for score, _ in judged if score is not None]
    mean = sum(every) / max(len(every), 1)
    tokens = sum(
        sampled_tokens(turn)
        for episode in episodes
        for turn in all_replies(episode)
        if episode.trained[turn.seat]
    )
    return {
        "candidates/decisions": len(groups) / len(episodes),
        "candidates/equal_share": sum(max(own) == min(own) for _, own in judged) / len(groups),
        "candidates/unjudged": 1 - len(judged) / len(groups),
        "candidates/score": mean,
        "candidates/gain": sum(played) / max(len(played), 1) - mean,
        "candidates/tokens": float(tokens),
    }


def oracle_metrics(episodes: Sequence[Episode], games: Iterable[str]) -> dict[str, float]:
    """Return per game with an oracle the share of best replies, the mean regret, and the share of
    turns judged.
    """
    metrics = {}
    for game in games:
        turns = [
            turn
            for episode in episodes
            if episode.game == game
            for turn in episode.decisions
            if episode.trained[turn.seat]
        ]
        best = [right for right in map(is_best, turns) if right is not None]
        lost = [value for value in map(regret, turns) if value is not None]
        if turns:
            metrics[f"judged_rate/{game}"] = len(best) / len(turns)
        if best:
            metrics[f"optimal_rate/{game}"] = sum(best) / len(best)
            metrics[f"regret/{game}"] = sum(lost) / len(lost)
    return metrics


def group_metrics(turns: TurnTable) -> dict[str, float]:
    """Return the figures of groups listed above; none where no group has two trajectories.

    Args:
        turns: the batch before selection, so that groups it leaves out are seen.
    """
    if not len(turns.reward):
        return {}
    returns, starts = trajectory_returns(turns)
    groups, count = start_groups(turns)
    own = groups[starts]
    shared = group_counts(own, count) > 1
    if not shared.any():
        return {}
    deviation = group_std(returns, own, count, ddof=0)[shared]
    equal = deviation <= 1e-9 * max(float(np.abs(returns).max()), 1.0)
    return {"group_deviation": float(deviation.mean()), "group_equal_share": float(equal.mean())}
