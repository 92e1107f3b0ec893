"""A stored play as HTML: told, said, legality, tokens with probabilities, reward and advantage."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparring.environments.openspiel.people import listed
from sparring.report.page import marked, quoted_text
from sparring.report.sample_plays import Sample
from sparring.report.shown import credit_words, judged, truncated_by
from sparring.report.timeline import timeline, timeline_svg
from sparring.rollout.credit_store import Credits
from sparring.types import Episode, Turn

FIRST, LAST = 12, 4  # turns shown of a long play, from its beginning and its end
TOKENS = 48  # shown of a reply
SHADES = 5
Decode = Callable[[str, Sequence[int]], list[str]]  # of a turn's agent and ids: a text per id


def play_html(sample: Sample, decode: Decode | None) -> str:
    """Return a play with its seats and turns.

    Args:
        sample: the play.
        decode: gives the texts of token ids; None shows ids.
    """
    episode = sample.episode
    head = (
        f"Play {episode.episode_id} of {episode.game}, start {episode.seed:x}, group "
        f"{episode.group_id}."
    )
    turns = list(enumerate(episode.turns))
    hidden = max(0, len(turns) - FIRST - LAST)
    shown = turns if not hidden else [*turns[:FIRST], *turns[-LAST:]]
    items = []
    for place, (number, turn) in enumerate(shown):
        if hidden and place == FIRST:
            items.append(f"<li>{hidden} turns are left out here.</li>")
        items.append(_turn(number, episode, turn, sample.credit, decode))
    end = _ending(episode)
    return (
        f'<section class="play"><h3>{marked(sample.when)}: step {sample.step}</h3>'
        f"<p>{marked(head)}</p>{_seats(episode)}{_timeline(episode)}"
        f'<ol class="turns">{"".join(items)}</ol>{f"<p>{marked(end)}</p>" if end else ""}</section>'
    )


def _seats(episode: Episode) -> str:
    """Return the seats of a play with their players and returns as a table."""
    rows = zip(episode.roles, episode.agents, episode.trained, episode.returns, strict=True)
    body = "".join(
        f'<tr><th scope="row">{marked(role)}</th><td>{marked(agent)}{", trained" * trained}</td>'
        f"<td>{value:+g}</td></tr>"
        for role, agent, trained, value in rows
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("seat", "player", "return"))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _timeline(episode: Episode) -> str:
    """Return who acted when as a picture, where several seats did."""
    line = timeline(episode.roles, episode.turns)
    several = len({*line.seats}) > 1
    return f'<div class="wide" tabindex="0">{timeline_svg(line)}</div>' if several else ""


def _ending(episode: Episode) -> str:
    """Return in words what ended a play early, or ""."""
    if episode.forfeited_by is not None:
        return f"Forfeited by {episode.roles[episode.forfeited_by]}."
    return f"This play was {truncated_by(episode)}." if episode.cut else ""


def _turn(
    number: int,
    episode: Episode,
    turn: Turn,
    credits: Credits,
    decode: Decode | None,
) -> str:
    """Return a turn as an item of a list."""
    credit = credits.get((turn.seat, turn.turn_index, turn.candidate))
    told = quoted_text(turn.told) if turn.told else '<span class="dim">nothing new</span>'
    parts = [("told", told)]
    if turn.event != "memory":
        parts.append(("legal", quoted_text(listed(turn.legal_actions))))
    parts.append(("memory" if turn.event == "memory" else "said", _reply(turn)))
    tokens = _tokens(turn, decode)
    parts += [("tokens", tokens)] if tokens else []
    if turn.verdict is not None:
        parts.append(("oracle", marked(judged(turn, turn.verdict))))
    rewards = ", ".join(f"{name} {value:+.4g}" for name, value in turn.rewards.items())
    parts += [("reward", marked(rewards))] if rewards else []
    parts += [("credit", _credit(credit))] if credit is not None else []
    if turn.candidates:
        others = ", ".join(one.reply for one in turn.candidates)
        parts.append(("not played", quoted_text(others)))
    rows = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in parts)
    who = f'<span class="who">{marked(episode.roles[turn.seat])}</span>'
    return (
        f'<li>{number + 1}. {who} <span class="dim">{marked(turn.agent)}</span><dl>{rows}</dl></li>'
    )


def _reply(turn: Turn) -> str:
    """Return what was said, and what became of it where that is something else."""
    said = quoted_text(turn.reply) if turn.reply else '<span class="dim">nothing</span>'
    parts = [said]
    if turn.event not in ("ok", "memory"):  # that it was not sent, too
        parts.append(f'<span class="wrong">{marked(turn.event)}</span>')
    parts += ['<span class="wrong">cut short</span>'] if turn.truncated and turn.is_decision else []
    if turn.is_decision and turn.action != turn.reply:
        played = "nothing" if turn.action is None else turn.action
        parts.append(f'<span class="dim">played:</span> {quoted_text(played)}')
    return " ".join(parts)


def _tokens(turn: Turn, decode: Decode | None) -> str:
    """Return the sampled tokens with their probabilities, darker where they are more probable."""
    sampled = [
        pair
        for segment in turn.segments
        if segment.kind == "sampled"
        for pair in zip(segment.ids, segment.logprobs, strict=True)
    ]
    shown = sampled[:TOKENS]
    ids = [index for index, _ in shown]
    texts = [str(index) for index in ids] if decode is None else decode(turn.agent, ids)
    boxes = []
    for text, (_, logprob) in zip(texts, shown, strict=True):
        chance = math.exp(min(logprob, 0.0)) if logprob == logprob else 0.0
        shade = min(int(chance * SHADES), SHADES - 1)
        boxes.append(
            f'<span class="token p{shade}"><bdi>{marked(_boxed(text))}</bdi>'
            f"<small>{chance:.3g}</small></span>"
        )
    rest = len(sampled) - len(shown)
    more = f'<span class="dim">and {rest:,} more</span>' if rest else ""
    return f'<span class="tokens">{"".join(boxes)}{more}</span>' if boxes else ""


def _boxed(text: str) -> str:
    """Return a token's text with its spaces and line ends seen; "…" where it ends no character."""
    return text.replace(" ", "␣").replace("\n", "⏎") or "…"


def _credit(row: Mapping[str, Any]) -> str:
    """Return what was learned from a reply, its sign in colour and, below 0, underlined."""
    text = marked(credit_words(row))
    advantage = row["advantage"]
    if not row["selected"] or not advantage:
        return text
    kind = "gain" if advantage > 0 else "loss"
    first, comma, rest = text.partition(",")
    return f'<span class="{kind}">{first}</span>{comma}{rest}'
