"""One episode as the replay shows it: everything that is recorded, or what one seat could see.

What a seat may not see is left out here, on the server, and never sent.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from sparring.core.records import Episode, Turn
from sparring.methods.oracles.judge import regret
from sparring.play.credit_store import Credits
from sparring.play.store import EpisodeStore
from sparring.report.episode_record import episode_record
from sparring.report.timeline import timeline
from sparring.view.answers import Refused
from sparring.view.boards import has_pictures
from sparring.view.chances import has_chances
from sparring.view.decode import Decoder, pieces, text_of
from sparring.view.index import EPISODES
from sparring.view.runs import Run
from sparring.view.stored_episodes import Episodes, Scales, StoredEpisode

CREDIT_SHOWN = (
    *("selected", "replayed", "reward", "advantage", "baseline", "value", "value_target"),
)
TURN_SHOWN = (
    *("turn_index", "conversation", "agent", "told", "reply", "action", "event", "truncated"),
    *(
        "weights_version",
        "rewards",
        "score",
        "playout",
        "playout_before",
        "candidate",
        "view",
        "state_key",
    ),
)


class Replays:
    """The stored episodes of runs, and what pages need beside them. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._decoders: dict[int, tuple[Any, Decoder]] = {}
        self._scales = Scales()
        self._episodes = Episodes()

    def show(self, run: Run, step: int, number: int, seat: int | None) -> dict[str, Any]:
        """Return an episode.

        Args:
            run: that played it.
            step: it was played in.
            number: of the episode.
            seat: whose private view it is; None shows all.

        Raises:
            Refused: there is no such episode or seat, or its part cannot be read.
        """
        found = self.find(run, step, number)
        episode = found.episode
        if seat is not None and seat >= len(episode.roles):
            raise Refused(404, f"the episode has seats 0 to {len(episode.roles) - 1}")
        record = episode_record(step, episode, found.credit)
        decoder = self.decoder(run)
        turns = [
            _turn(index, own, found, decoder)
            if seat is None or own["seat"] == seat
            else _covered(index, own)
            for index, own in enumerate(record["episode"]["turns"])
        ]
        notes = [*decoder.notes, *_doubts(turns)]
        return {
            "run": run.number,
            "people": run.people,
            "name": run.name,
            "step": step,
            "episode": number,
            "group": episode.group_id,
            "game": episode.game,
            "seat": seat,
            "environment": _environment(record["episode"]["environment"], seat),
            "seats": _seats(episode),
            "forfeited_by": episode.forfeited_by,
            "cut": episode.cut,
            "pictures": has_pictures(episode),
            "policy": has_chances(run, episode),
            "decoded": _is_decoded(turns),
            "missing": _missing(found),
            "notes": notes,
            **_beside(run, step, number, episode.group_id),
            "scale": self._scales.of(run, step),
            "path": list(timeline(episode.roles, episode.turns).path),
            "turns": turns,
        }

    def find(self, run: Run, step: int, number: int) -> StoredEpisode:
        """Return a stored episode.

        Raises:
            Refused: there is none, or its part cannot be read.
        """
        return self._episodes.find(run, step, number)

    def decoder(self, run: Run) -> Decoder:
        """Return the tokenizers of a run, made when its configuration is first asked for."""
        with self._lock:
            known = self._decoders.get(run.number)
            if known is None or known[0] is not run.config:
                known = (run.config, Decoder(run.config))
                self._decoders[run.number] = known
            return known[1]


def _turn(
    index: int, own: Mapping[str, Any], found: StoredEpisode, decoder: Decoder
) -> dict[str, Any]:
    """Return a turn, with the other replies to its prompt."""
    turn = found.episode.turns[index]
    shown = _reply(own, turn, found.credit, decoder)
    others = zip(own["candidates"], turn.candidates, strict=True)
    return {
        "index": index,
        "seat": own["seat"],
        "moment": own["moment"],
        "attempt": own["attempt"],
        "hidden": False,
        **shown,
        "candidates": [_reply(record, other, found.credit, decoder) for record, other in others],
    }


def _covered(index: int, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return what another seat may know of a turn: that it was one."""
    return {
        "index": index,
        "seat": own["seat"],
        "moment": own["moment"],
        "attempt": own["attempt"],
        "hidden": True,
    }


def _reply(own: Mapping[str, Any], turn: Any, credits: Credits, decoder: Decoder) -> dict[str, Any]:
    """Return a reply: what was told and said, its tokens, and what it earned."""
    credit = credits.get((turn.seat, turn.turn_index, turn.candidate))
    verdict = own["verdict"]
    return {
        **{name: own[name] for name in TURN_SHOWN},
        "legal": own["legal_actions"],
        "segments": _segments(own, credit, decoder),
        "oracle": None if verdict is None else {**verdict, "regret": _regret(turn)},
        "credit": None if credit is None else {name: credit[name] for name in CREDIT_SHOWN},
    }


def _regret(turn: Turn) -> float | None:
    """Return what a reply lost; None where the verdict does not know what was played."""
    try:
        return regret(turn)
    except ValueError:  # a record that no run of ours writes
        return None


def _segments(
    own: Mapping[str, Any], credit: Mapping[str, Any] | None, decoder: Decoder
) -> list[dict[str, Any]]:
    """Return the segments of a reply's tokens, sampled ones token by token."""
    tokenizer, found, said = decoder.of(own["agent"]), [], 0
    for part in own["segments"]:
        ids = part["ids"]
        tokens = None
        if part["kind"] == "sampled":
            shown = zip(ids, pieces(tokenizer, ids), part["logprobs"], strict=True)
            tokens = [
                {
                    "id": number,
                    "text": piece.text,
                    "whole": piece.whole,
                    "logprob": logprob,
                    "entropy": _of_token(credit, "entropies", said + place),
                    "advantage": _advantage(credit, said + place),
                }
                for place, (number, piece, logprob) in enumerate(shown)
            ]
            said += len(ids)
        text = text_of(tokenizer, ids)
        found.append({"kind": part["kind"], "text": text, "length": len(ids), "tokens": tokens})
    return found


def _of_token(credit: Mapping[str, Any] | None, name: str, place: int) -> float | None:
    """Return a value of a token of a row of credit; None where it is not recorded."""
    values = None if credit is None else credit[name]
    return values[place] if values is not None and place < len(values) else None


def _advantage(credit: Mapping[str, Any] | None, place: int) -> float | None:
    """Return the advantage of a token: its own, or that of its turn."""
    own = _of_token(credit, "token_advantages", place)
    return own if own is not None or credit is None else credit["advantage"]


def _environment(spec: Mapping[str, Any] | None, seat: int | None) -> Mapping[str, Any] | None:
    """Return the environment; options may give the deal away, so no seat sees them."""
    return spec if spec is None or seat is None else {**spec, "options": None}


def _seats(episode: Episode) -> list[dict[str, Any]]:
    """Return who sat where, and what it returned."""
    rows = zip(
        *(episode.roles, episode.agents, episode.players, episode.trained, episode.returns),
        strict=True,
    )
    return [
        {
            "seat": seat,
            "role": role,
            "agent": agent,
            "kind": player.kind,
            "trained": trained,
            "return": value,
        }
        for seat, (role, agent, player, trained, value) in enumerate(rows)
    ]


def _beside(run: Run, step: int, number: int, group: int) -> dict[str, Any]:
    """Return the episodes before and after one in its step, and how many share its start."""
    store = EpisodeStore(run.path / EPISODES)
    table = store.load(store.path(step), ("episode_id", "group_id"))
    numbers = pc.unique(table["episode_id"]).to_pylist()
    same = table.filter(pc.equal(table["group_id"], group))
    place = numbers.index(number)
    return {
        "previous": numbers[place - 1] if place else None,
        "next": numbers[place + 1] if place + 1 < len(numbers) else None,
        "siblings": len(pc.unique(same["episode_id"])),
    }


def _is_decoded(turns: list[dict[str, Any]]) -> bool:
    """Return whether the text of every segment is known."""
    parts = [part for turn in turns if not turn["hidden"] for part in turn["segments"]]
    return all(part["text"] is not None for part in parts)


def _doubts(turns: list[dict[str, Any]]) -> list[str]:
    """Return a word where the tokenizer of this machine does not give what was recorded."""
    for turn in turns:
        if turn["hidden"] or not turn["segments"]:
            continue
        parts = [part for part in turn["segments"] if part["kind"] == "sampled"]
        said = "".join(part["text"] or "" for part in parts)
        if said and "".join(turn["reply"].split()) not in "".join(said.split()):
            return ["the tokenizer of this machine gives other words than the recorded reply"]
    return []


def _missing(found: StoredEpisode) -> list[str]:
    """Return what the record lacks, in words."""
    episode, credits = found.episode, list(found.credit.values())
    missing = []
    if episode.environment is None and not any(turn.told for turn in episode.turns):
        missing.append("told texts")
    if not credits:
        missing.append("advantages")
    if not any(row["entropies"] for row in credits):
        missing.append("entropies")
    if not any(turn.verdict for turn in episode.turns):
        missing.append("oracle values")
    return missing
