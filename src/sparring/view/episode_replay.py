"""Stored episodes as the replay shows them: all that is recorded, or what one seat could see.

What a seat may not see is left out here, on the server, and never sent.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from sparring.config import RunConfig
from sparring.core.errors import SparringError
from sparring.core.files import cache_folder
from sparring.core.foreign_text import current_keys
from sparring.core.records import MAIN, Episode, Turn, ref
from sparring.methods.oracles.judge import regret
from sparring.models.render.plain import vocabulary, word_tokenizer
from sparring.play.parquet_parts import DAMAGED
from sparring.play.store import Credits, CreditStore, EpisodeStore, credits_of
from sparring.report.episode_record import episode_record
from sparring.report.timeline import timeline
from sparring.view.action_probabilities import has_chances
from sparring.view.http_requests import Refused, one_line
from sparring.view.index import CREDIT, EPISODES, why_left_out
from sparring.view.position_pictures import has_pictures
from sparring.view.run_files import Signature, signature
from sparring.view.runs import Run

T = TypeVar("T")
KEPT = 8  # episodes, and scales of steps, that are remembered
Key = tuple[str, int, int, Signature | None, Signature | None]
QUANTILE = 0.9  # of absolute values, at which colours are full
Scale = dict[str, float | None]


class StoredEpisode(NamedTuple):
    """A stored episode, with what was learned of it."""

    episode: Episode
    credit: Credits


class Episodes:
    """The episodes that were read last; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Key, StoredEpisode] = OrderedDict()

    def find(self, run: Run, step: int, number: int) -> StoredEpisode:
        """Return a stored episode; it is read again when its files have changed.

        Args:
            run: that played it.
            step: it was played in.
            number: of the episode.

        Raises:
            Refused: there is none, or its part cannot be read.
        """
        path = EpisodeStore(run.path / EPISODES).path(step)
        credit = CreditStore(run.path / CREDIT).path(step)
        key = (str(path), step, number, signature(path), signature(credit))
        with self._lock:
            known = self._known.get(key)
        if known is not None and run.keeps(EPISODES):
            return known
        found = _read(run, step, number)
        with self._lock:
            self._known[key] = found
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return found


def _read(run: Run, step: int, number: int) -> StoredEpisode:
    episode = _from_part(run, step, lambda store, path: store.episode(step, number))
    if episode is None:
        raise Refused(404, f"step {step} has no episode {number}")
    return StoredEpisode(episode, credit_of(run, step, number))


def _from_part(run: Run, step: int, read: Callable[[EpisodeStore, Path], T]) -> T:
    store = EpisodeStore(run.path / EPISODES)
    path = store.path(step)
    if not path.is_file() or not run.keeps(EPISODES):
        raise Refused(404, f"step {step} is not stored, or no longer")
    try:
        return read(store, path)
    except (SparringError, *DAMAGED) as error:
        raise Refused(404, f"{path.name} cannot be read: {why_left_out(error, path)}") from None


class Scales:
    """At which values colours are full, of the steps that were looked at last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[int, int, Signature], Scale] = OrderedDict()

    def of(self, run: Run, step: int) -> Scale:
        """Return the quantile of absolute values over the stored turns of a step."""
        found = signature(CreditStore(run.path / CREDIT).path(step))
        if found is None:
            return {"advantage": None, "entropy": None}
        key = (run.number, step, found)
        with self._lock:
            if key not in self._known:
                self._known[key] = _quantiles(run, step)
                while len(self._known) > KEPT:
                    self._known.popitem(last=False)
            return self._known[key]


def credit_of(run: Run, step: int, number: int) -> Credits:
    """Return the rows of credit of an episode; nothing where they cannot be read."""
    table = _credit_table(run, step, None)
    return {} if table is None else credits_of(table, number)


def _credit_table(run: Run, step: int, only: tuple[str, ...] | None) -> pa.Table | None:
    """Return the part of credit of a step; None where it cannot be read."""
    if not run.keeps(CREDIT):
        return None
    store = CreditStore(run.path / CREDIT)
    try:
        return store.load(store.path(step), only)
    except (SparringError, *DAMAGED):
        return None


def _quantiles(run: Run, step: int) -> dict[str, float | None]:
    table = _credit_table(run, step, ("advantage", "entropies"))
    if table is None:
        return {"advantage": None, "entropy": None}
    advantages = table["advantage"].drop_null().to_numpy()
    entropies = pc.list_flatten(table["entropies"]).drop_null().to_numpy()
    return {"advantage": _quantile(advantages), "entropy": _quantile(entropies)}


def _quantile(values: Any) -> float | None:
    """Return the quantile of finite absolute values; None where there is none above 0."""
    sizes = np.abs(values[np.isfinite(values)])
    found = float(np.quantile(sizes, QUANTILE)) if len(sizes) else 0.0
    return found or None


def siblings(run: Run, step: int, group: int, seat: int | None) -> dict[str, Any]:
    """Return the episodes of a step that share a start, and where they part.

    Args:
        run: that played them.
        step: they were played in.
        group: its number.
        seat: whose actions are told; None tells all.

    Raises:
        Refused: there is no such group, or its part cannot be read.
    """
    only = ("episode_id", "group_id", "seat", "committed", "action", "event", "returns")
    table = _from_part(run, step, lambda store, path: store.load(path, only))
    rows = table.filter(pc.equal(table["group_id"], group)).to_pylist()
    if not rows:
        raise Refused(404, f"step {step} has no group {group}")
    members: dict[int, dict[str, Any]] = {}
    for row in rows:
        if row["committed"]:
            number = row["episode_id"]
            new = {"episode": number, "returns": row["returns"], "turns": 0, "illegal": 0}
            member = members.setdefault(number, {**new, "actions": []})
            member["turns"] += 1
            member["illegal"] += row["event"] in ("illegal", "unparsable")
            member["actions"].append(row["action"] if seat in (None, row["seat"]) else None)
    lines = [member["actions"] for member in members.values()]
    part = None  # the first place where lines are not all the same
    for place in range(max(map(len, lines))):
        if len({line[place] if place < len(line) else ... for line in lines}) > 1:
            part = place
            break
    return {"group": group, "step": step, "part": part, "members": list(members.values())}


TINY, FILE = "tiny", "tokenizer.json"


class Piece(NamedTuple):
    """The text of a token.

    Attributes:
        text: what it adds.
        whole: whether it completed a character; if not, its text comes with a later token.
    """

    text: str
    whole: bool


class Decoder:
    """The tokenizers of a run's policies, as far as they are on this machine.

    Args:
        config: the run's, as its file has it.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.notes: list[str] = []
        self._by_policy: dict[str, Tokenizer] = {}
        try:
            # plug-ins are not bound, which would import torch for methods that nobody asks here
            known = current_keys(config, "The configuration")
            policies = RunConfig.model_validate(known).by_policy
        except (SparringError, ValueError, TypeError) as error:
            self.notes.append(f"tokens are shown as ids: {one_line(error)}")
            return
        for name, own in policies.items():
            found = _tokenizer(own)
            if isinstance(found, str):
                self.notes.append(f"tokens of {name} are shown as ids: {found}")
            else:
                self._by_policy[name] = found

    def of(self, agent: str) -> Tokenizer | None:
        """Return the tokenizer of a player in its text form; None where it is not here."""
        try:
            name = ref(agent).name or MAIN
        except SparringError:
            name = MAIN
        alone = next(iter(self._by_policy.values())) if len(self._by_policy) == 1 else None
        return self._by_policy.get(name, alone)


def text_of(tokenizer: Tokenizer | None, ids: Sequence[int]) -> str | None:
    """Return what ids say, special tokens included; None where that is not known."""
    if tokenizer is None:
        return None
    try:
        found: str = tokenizer.decode(list(ids), skip_special_tokens=False)
    except (OverflowError, TypeError, ValueError):
        return None
    return found


def pieces(tokenizer: Tokenizer | None, ids: Sequence[int]) -> list[Piece]:
    """Return the text of each token of a sampled run; empty texts where they are not known."""
    if tokenizer is None:
        return [Piece("", True)] * len(ids)
    stream, found = DecodeStream(skip_special_tokens=False), []
    for index in ids:
        try:
            text = stream.step(tokenizer, index)
        except Exception:  # of the library: an id beyond the vocabulary, or bytes of none
            return [Piece("", True)] * len(ids)
        found.append(Piece(text or "", text is not None))
    return found


def _tokenizer(config: RunConfig) -> Tokenizer | str:
    name = config.model.name
    try:
        if name == TINY:
            return word_tokenizer(vocabulary(config))
        path = _file(name)
        if path is None:
            return f"the tokenizer of {name!r} is not on this machine"
        return Tokenizer.from_file(str(path))
    except Exception as error:  # an environment of one's own, or a file that is no tokenizer
        return one_line(error)


def _file(name: str) -> Path | None:
    """Return where the tokenizer of a model lies: in its folder, or in a cache."""
    for folder in (Path(name).expanduser(), cache_folder() / name):
        if (folder / FILE).is_file():
            return folder / FILE
    try:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(name, FILE)
    except (ImportError, ValueError):
        return None
    return Path(found) if isinstance(found, str) else None


PLACE = ("seat", "moment", "attempt")  # of a turn, which other seats may know
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
            else {"index": index, **{key: own[key] for key in PLACE}, "hidden": True}
            for index, own in enumerate(record["episode"]["turns"])
        ]
        notes = [*decoder.notes, *_doubts(turns)]
        environment = record["episode"]["environment"]
        if environment is not None and seat is not None:  # options may give the deal away
            environment = {**environment, "options": None}
        parts = [part for turn in turns if not turn["hidden"] for part in turn["segments"]]
        return {
            "run": run.number,
            "people": run.people,
            "name": run.name,
            "step": step,
            "episode": number,
            "group": episode.group_id,
            "game": episode.game,
            "seat": seat,
            "environment": environment,
            "seats": _seats(episode),
            "forfeited_by": episode.forfeited_by,
            "cut": episode.cut,
            "pictures": has_pictures(episode),
            "policy": has_chances(run, episode),
            "decoded": all(part["text"] is not None for part in parts),
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
    turn = found.episode.turns[index]
    shown = _reply(own, turn, found.credit, decoder)
    others = zip(own["candidates"], turn.candidates, strict=True)
    return {
        "index": index,
        **{key: own[key] for key in PLACE},
        "hidden": False,
        **shown,
        "candidates": [_reply(record, other, found.credit, decoder) for record, other in others],
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
    tokenizer, found, said = decoder.of(own["agent"]), [], 0
    of_turn = None if credit is None else credit["advantage"]
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
                    "advantage": of_turn if advantage is None else advantage,
                }
                for place, (number, piece, logprob) in enumerate(shown)
                for advantage in [_of_token(credit, "token_advantages", said + place)]
            ]
            said += len(ids)
        text = text_of(tokenizer, ids)
        found.append({"kind": part["kind"], "text": text, "length": len(ids), "tokens": tokens})
    return found


def _of_token(credit: Mapping[str, Any] | None, name: str, place: int) -> float | None:
    """Return a value of a token of a row of credit; None where it is not recorded."""
    values = None if credit is None else credit[name]
    return values[place] if values is not None and place < len(values) else None


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
