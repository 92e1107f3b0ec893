"""A stored episode as text.

What each seat was told and said, its legal actions, its tokens, and the credit of every turn.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparring.environments.openspiel.people import listed
from sparring.errors import RunError, quoted
from sparring.oracles.judge import regret
from sparring.rollout.credit_store import Credits
from sparring.rollout.endings import ENDS, Conversation, unsent
from sparring.types import Episode, Turn, Verdict

WIDTH = 100  # of the lines that are printed
UNSENT = " (not sent: the conversation had outgrown the model)"
LABEL = 10  # columns of what stands before a line
Decode = Callable[[str, int], str]  # of a turn's agent and a token id


def episode_lines(
    step: int,
    episode: Episode,
    credit: Credits,
    decode: Decode | None,
    positions: Sequence[str] = (),
    conversations: Sequence[Conversation] = (),
) -> list[str]:
    """Return an episode as lines; see ``_lines``.

    Raises:
        RunError: its record holds what no run writes.
    """
    try:
        return _lines(step, episode, credit, decode, positions, conversations)
    except (ValueError, TypeError, LookupError, OverflowError, AttributeError) as error:
        raise RunError(
            f"Episode {episode.episode_id} of step {step} holds what no run writes "
            f"({quoted(str(error))})."
        ) from error


def _lines(
    step: int,
    episode: Episode,
    credit: Credits,
    decode: Decode | None,
    positions: Sequence[str],
    conversations: Sequence[Conversation],
) -> list[str]:
    """Return an episode as lines.

    Args:
        step: it was played in.
        episode: what is shown.
        credit: of ``Stored.credit``.
        decode: gives the text of a token of an agent; None shows ids.
        positions: before each turn, and at the end, in words; none where they are not known.
        conversations: with how each has ended; none where that is not known.
    """
    ends = {one.turns[-1]: ENDS[one.end] for one in conversations if one.end != "over"}
    lines = [
        f"Episode {episode.episode_id} of {episode.game}, step {step}, group {episode.group_id}"
    ]
    spec = episode.environment
    if spec is not None:
        options = ", ".join(f"{name}={value}" for name, value in spec.options.items())
        lines.append(
            f"{spec.name}{f' with {options}' if options else ''}; a reply that is no legal "
            f"action: {spec.illegal.get('rule', '')}"
        )
    seats = zip(episode.roles, episode.agents, episode.trained, episode.returns, strict=True)
    lines += [
        f"  {role}: {agent}{', trained' if trained else ''}, return {value:+g}"
        for role, agent, trained, value in seats
    ]
    if episode.forfeited_by is not None:
        lines.append(f"  forfeited by {episode.roles[episode.forfeited_by]}")
    if episode.cut:
        lines.append(f"  {truncated_by(episode)}")
    for number, turn in enumerate(episode.turns):
        now = positions[number] if positions else ""
        lines += ["", *turn_lines(episode, turn, credit, decode, now)]
        lines += _labelled("ended", ends[number]) if number in ends else []
    return [*lines, "", *_labelled("end", positions[-1])] if positions else lines


def truncated_by(episode: Episode) -> str:
    """Return in words what truncated an episode."""
    if not episode.has_outgrown_context:
        return "truncated by the limit of turns"
    seats = [turn.seat for turn in episode.turns if turn.event == "unsent"]
    roles = " and ".join(episode.roles[seat] for seat in seats)
    return f"truncated, without a result: the conversation of {roles} outgrew the model's context"


def turn_lines(
    episode: Episode, turn: Turn, credits: Credits, decode: Decode | None, now: str = ""
) -> list[str]:
    """Return a turn as lines, with the position before it and the other replies to its prompt."""
    where = f", conversation {turn.conversation}" if turn.conversation else ""
    lines = [f"[{turn.moment}] {episode.roles[turn.seat]} ({turn.agent}){where}"]
    lines += _labelled("now", now) if now else []
    lines += _labelled("told", turn.told or _nothing_told(episode))
    if turn.is_decision:
        lines += _labelled("legal", listed(turn.legal_actions))
    lines += _reply_lines(turn, credits.get(_key(turn)), decode)
    if turn.verdict is not None:
        lines += _labelled("oracle", judged(turn, turn.verdict))
    for other in turn.candidates:
        lines += [f"    not played, candidate {other.candidate}"]
        lines += _reply_lines(other, credits.get(_key(other)), decode)
    return lines


def _key(turn: Turn) -> tuple[int, int, int]:
    """Return what the credit of a reply is found by in its episode."""
    return turn.seat, turn.turn_index, turn.candidate


def _reply_lines(turn: Turn, credit: Mapping[str, Any] | None, decode: Decode | None) -> list[str]:
    """Return a reply, its tokens and what it earned as lines."""
    lines: list[str] = []
    memory = turn.event == "memory"
    played = (
        ""
        if turn.action == turn.reply or memory
        else f"   -> {'nothing' if turn.action is None else turn.action} was played"
    )
    wrong = f", {turn.event}" if turn.event in ("illegal", "unparsable") else ""
    cut = ", cut short" if turn.truncated and turn.event != "unsent" else ""
    label = "memory" if memory else "said"
    lines += _labelled(label, f"{turn.reply!r}{wrong}{cut}{played}{UNSENT if unsent(turn) else ''}")
    tokens = _tokens(turn, credit, decode)
    lines += _labelled("tokens", tokens) if tokens else []
    runs = _runs(turn)
    lines += _labelled("weights", runs) if runs else []
    rewards = ", ".join(f"{name} {value:+.4g}" for name, value in turn.rewards.items())
    lines += _labelled("rewards", rewards or "none")
    lines += _labelled("score", f"{turn.score:+.4g}") if turn.score is not None else []
    lines += _labelled("credit", credit_words(credit)) if credit is not None else []
    return lines


def _nothing_told(episode: Episode) -> str:
    """Return what is shown where a turn has no told text."""
    recorded = any(other.told for other in episode.turns) or episode.environment is not None
    return "(nothing)" if recorded else "(not recorded: this file is from before told texts were)"


def judged(turn: Turn, verdict: Verdict) -> str:
    """Return what the oracle says of a turn: the best actions with their values, and the regret."""
    best = sorted(zip(verdict.actions, verdict.values, strict=True), key=lambda pair: -pair[1])
    worth = ", ".join(f"{action} {value:+.4g}" for action, value in best[:6])
    return f"{worth}{', ...' if len(best) > 6 else ''}; regret {regret(turn):.4g}"


def _tokens(turn: Turn, credit: Mapping[str, Any] | None, decode: Decode | None) -> str:
    """Return each sampled token with its probability, and its entropy where that was recorded."""
    sampled = [
        pair
        for segment in turn.segments
        if segment.kind == "sampled"
        for pair in zip(segment.ids, segment.logprobs, strict=True)
    ]
    entropies = (credit["entropies"] if credit is not None else None) or [None] * len(sampled)
    shown = []
    for (index, logprob), entropy in zip(sampled, entropies, strict=True):
        text = str(index) if decode is None else repr(decode(turn.agent, index))
        shown.append(
            f"{text} p={math.exp(logprob):.3g}{'' if entropy is None else f' H={entropy:.2f}'}"
        )
    return "  ".join(shown)


def _runs(turn: Turn) -> str:
    """Return the versions of the weights that a reply went on over; empty where it has one."""
    runs = [part for part in turn.segments if part.kind == "sampled"]
    if len({part.weights_version for part in runs}) < 2:
        return ""
    first, *others = ((len(part.ids), part.weights_version) for part in runs)
    said = [f"of {version} updates for the next {count}" for count, version in others]
    return ", ".join([f"of {first[1]} updates for the first {first[0]} tokens", *said])


def credit_words(row: Mapping[str, Any]) -> str:
    """Return what was learned from a turn."""
    if not row["selected"]:
        return "not trained on: selection dropped it, or it was more than the step wanted"
    parts = [f"advantage {row['advantage']:+.4g}"]
    names = {"baseline": "baseline", "value": "value", "value_target": "value target"}
    parts += [f"{label} {row[name]:+.4g}" for name, label in names.items() if row[name] is not None]
    if row["token_advantages"]:
        parts.append(f"per token {', '.join(f'{value:+.3g}' for value in row['token_advantages'])}")
    return ", ".join(parts) + (", replayed" if row["replayed"] else "")


def _labelled(label: str, text: str) -> list[str]:
    """Return a text below a label, wrapped; its own line ends stay."""
    begin, rest = f"    {label:<{LABEL - 2}}", " " * (LABEL + 2)
    lines: list[str] = []
    for line in text.split("\n") or [""]:
        found = textwrap.wrap(
            line,
            WIDTH - len(rest),
            break_long_words=False,
            break_on_hyphens=False,
            drop_whitespace=False,
        ) or [""]
        lines += [
            f"{rest if lines or number else begin}{part}".rstrip()
            for number, part in enumerate(found)
        ]
    return lines


def endings_lines(episode: Episode, conversations: Sequence[Conversation]) -> list[str]:
    """Return a line for each seat: how its conversations have ended, in order."""
    found: dict[int, list[str]] = {}
    for one in conversations:
        found.setdefault(one.seat, []).append(one.end)
    return [
        f"{episode.roles[seat]} ended: {', '.join(ends)}"
        for seat, ends in sorted(found.items())
        if set(ends) != {"over"}
    ]


def listing_rows(episodes: Sequence[Episode]) -> list[tuple[str, ...]]:
    """Return the episodes of a step as rows.

    Number, environment, seats, returns, turns, replies that were no legal action.
    """
    rows: list[tuple[str, ...]] = [
        ("episode", "environment", "seats", "returns", "turns", "illegal")
    ]
    for episode in episodes:
        illegal = sum(turn.event != "ok" for turn in episode.decisions)
        returns = " ".join(f"{value:+g}" for value in episode.returns)
        rows.append(
            (
                str(episode.episode_id),
                episode.game,
                " ".join(episode.agents),
                returns,
                str(len(episode.turns)),
                str(illegal),
            )
        )
    return rows
