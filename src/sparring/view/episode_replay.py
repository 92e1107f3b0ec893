"""Stored episodes for the replay: the whole record, or only what one seat could see.

The server never sends what the chosen seat may not see.
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
from sparring.view.action_probabilities import has_probabilities
from sparring.view.episode_index import CREDIT, EPISODES, describe_damage
from sparring.view.http_requests import RequestError, one_line
from sparring.view.position_pictures import has_pictures
from sparring.view.run_files import Signature, signature
from sparring.view.viewed_run import ViewedRun

T = TypeVar("T")
CACHE_SIZE = 8  # largest number of episodes, and of colour scales, in a cache
Key = tuple[str, int, int, Signature | None, Signature | None]
QUANTILE = 0.9  # values above this quantile of the absolute values have full colour
Scale = dict[str, float | None]


class StoredEpisode(NamedTuple):
    """A stored episode with its rows of credit."""

    episode: Episode
    credit: Credits


class Episodes:
    """A thread-safe cache of stored episodes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cache: OrderedDict[Key, StoredEpisode] = OrderedDict()

    def find(self, run: ViewedRun, step: int, number: int) -> StoredEpisode:
        """Return a stored episode, from the cache if its files have not changed.

        Args:
            run: run of the episode.
            step: step of the episode.
            number: number of the episode in its step.

        Raises:
            RequestError: the episode does not exist, or its file cannot be read.
        """
        path = EpisodeStore(run.path / EPISODES).path(step)
        credit = CreditStore(run.path / CREDIT).path(step)
        key = (str(path), step, number, signature(path), signature(credit))
        with self._lock:
            cache_entry = self._cache.get(key)
        if cache_entry is not None and run.owns(EPISODES):
            return cache_entry
        entry = _read_stored(run, step, number)
        with self._lock:
            self._cache[key] = entry
            while len(self._cache) > CACHE_SIZE:
                self._cache.popitem(last=False)
        return entry


def _read_stored(run: ViewedRun, step: int, number: int) -> StoredEpisode:
    episode = _from_part(run, step, lambda store, path: store.episode(step, number))
    if episode is None:
        raise RequestError(404, f"step {step} has no episode {number}")
    return StoredEpisode(episode, credit_of(run, step, number))


def _from_part(run: ViewedRun, step: int, read: Callable[[EpisodeStore, Path], T]) -> T:
    store = EpisodeStore(run.path / EPISODES)
    path = store.path(step)
    if not path.is_file() or not run.owns(EPISODES):
        raise RequestError(404, f"step {step} is not stored")
    try:
        return read(store, path)
    except (SparringError, *DAMAGED) as error:
        raise RequestError(
            404, f"{path.name} cannot be read: {describe_damage(error, path)}"
        ) from None


class Scales:
    """A thread-safe cache of colour scales: for each step, the value that has full colour."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cache: OrderedDict[tuple[int, int, Signature], Scale] = OrderedDict()

    def of(self, run: ViewedRun, step: int) -> Scale:
        """Return the advantage and the entropy that have full colour in a step; None if unknown."""
        file_signature = signature(CreditStore(run.path / CREDIT).path(step))
        if file_signature is None:
            return {"advantage": None, "entropy": None}
        key = (run.number, step, file_signature)
        with self._lock:
            if key not in self._cache:
                self._cache[key] = _quantiles(run, step)
                while len(self._cache) > CACHE_SIZE:
                    self._cache.popitem(last=False)
            return self._cache[key]


def credit_of(run: ViewedRun, step: int, number: int) -> Credits:
    """Return the rows of credit of an episode; empty if they cannot be read."""
    table = _credit_table(run, step, None)
    return {} if table is None else credits_of(table, number)


def _credit_table(run: ViewedRun, step: int, columns: tuple[str, ...] | None) -> pa.Table | None:
    if not run.owns(CREDIT):
        return None
    store = CreditStore(run.path / CREDIT)
    try:
        return store.load(store.path(step), columns)
    except (SparringError, *DAMAGED):
        return None


def _quantiles(run: ViewedRun, step: int) -> dict[str, float | None]:
    table = _credit_table(run, step, ("advantage", "entropies"))
    if table is None:
        return {"advantage": None, "entropy": None}
    advantages = table["advantage"].drop_null().to_numpy()
    entropies = pc.list_flatten(table["entropies"]).drop_null().to_numpy()
    return {"advantage": _quantile(advantages), "entropy": _quantile(entropies)}


def _quantile(values: Any) -> float | None:
    magnitudes = np.abs(values[np.isfinite(values)])
    quantile = float(np.quantile(magnitudes, QUANTILE)) if len(magnitudes) else 0.0
    return quantile or None


def siblings(run: ViewedRun, step: int, group: int, seat: int | None) -> dict[str, Any]:
    """Return the episodes of a group, and the first turn at which their actions differ.

    Args:
        run: run of the group.
        step: step of the group.
        group: number of the group.
        seat: seat whose actions are compared; None: all seats.

    Raises:
        RequestError: the group does not exist, or its file cannot be read.
    """
    columns = ("episode_id", "group_id", "seat", "committed", "action", "event", "returns")
    table = _from_part(run, step, lambda store, path: store.load(path, columns))
    rows = table.filter(pc.equal(table["group_id"], group)).to_pylist()
    if not rows:
        raise RequestError(404, f"step {step} has no group {group}")
    members: dict[int, dict[str, Any]] = {}
    for row in rows:
        if row["committed"]:
            number = row["episode_id"]
            new_member = {"episode": number, "returns": row["returns"], "turns": 0, "illegal": 0}
            member = members.setdefault(number, {**new_member, "actions": []})
            member["turns"] += 1
            member["illegal"] += row["event"] in ("illegal", "unparsable")
            member["actions"].append(row["action"] if seat in (None, row["seat"]) else None)
    action_lists = [member["actions"] for member in members.values()]
    difference = None  # index of the first turn at which actions differ
    for index in range(max(map(len, action_lists))):
        if len({actions[index] if index < len(actions) else ... for actions in action_lists}) > 1:
            difference = index
            break
    return {"group": group, "step": step, "part": difference, "members": list(members.values())}


TINY, FILE = "tiny", "tokenizer.json"


class DecodedToken(NamedTuple):
    """The text of a token.

    Attributes:
        text: the text that the token adds.
        whole: whether the token completes a character; if not, a later token has its text.
    """

    text: str
    whole: bool


class Decoder:
    """The tokenizers of a run's policies that are on this machine.

    Args:
        config: the content of the run's config.yaml.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.notes: list[str] = []
        self._by_policy: dict[str, Tokenizer] = {}
        try:
            # plug-ins are not bound, because some import torch
            settings = current_keys(config, "The configuration")
            policies = RunConfig.model_validate(settings).by_policy
        except (SparringError, ValueError, TypeError) as error:
            self.notes.append(f"tokens are shown as ids: {one_line(error)}")
            return
        for name, policy_config in policies.items():
            tokenizer = _load_tokenizer(policy_config)
            if isinstance(tokenizer, str):
                self.notes.append(f"tokens of {name} are shown as ids: {tokenizer}")
            else:
                self._by_policy[name] = tokenizer

    def tokenizer_of(self, agent: str) -> Tokenizer | None:
        """Return a player's tokenizer; None if it is not on this machine."""
        try:
            name = ref(agent).name or MAIN
        except SparringError:
            name = MAIN
        only_tokenizer = next(iter(self._by_policy.values())) if len(self._by_policy) == 1 else None
        return self._by_policy.get(name, only_tokenizer)


def text_of(tokenizer: Tokenizer | None, ids: Sequence[int]) -> str | None:
    """Return the text of ids, with special tokens; None without a tokenizer."""
    if tokenizer is None:
        return None
    try:
        text: str = tokenizer.decode(list(ids), skip_special_tokens=False)
    except (OverflowError, TypeError, ValueError):
        return None
    return text


def decode_tokens(tokenizer: Tokenizer | None, ids: Sequence[int]) -> list[DecodedToken]:
    """Return the text of each sampled token; empty texts without a tokenizer."""
    if tokenizer is None:
        return [DecodedToken("", True)] * len(ids)
    stream, tokens = DecodeStream(skip_special_tokens=False), []
    for token_id in ids:
        try:
            text = stream.step(tokenizer, token_id)
        except Exception:  # the library raises it for an unknown id or invalid bytes
            return [DecodedToken("", True)] * len(ids)
        tokens.append(DecodedToken(text or "", text is not None))
    return tokens


def _load_tokenizer(config: RunConfig) -> Tokenizer | str:
    name = config.model.name
    try:
        if name == TINY:
            return word_tokenizer(vocabulary(config))
        path = _find_file(name)
        if path is None:
            return f"the tokenizer of {name!r} is not on this machine"
        return Tokenizer.from_file(str(path))
    except Exception as error:  # a user-defined environment, or an invalid tokenizer file
        return one_line(error)


def _find_file(name: str) -> Path | None:
    for folder in (Path(name).expanduser(), cache_folder() / name):
        if (folder / FILE).is_file():
            return folder / FILE
    try:
        from huggingface_hub import try_to_load_from_cache

        cached_path = try_to_load_from_cache(name, FILE)
    except (ImportError, ValueError):
        return None
    return Path(cached_path) if isinstance(cached_path, str) else None


SHARED = ("seat", "moment", "attempt")  # fields of a turn that all seats may see
CREDIT_FIELDS = (
    *("selected", "replayed", "reward", "advantage", "baseline", "value", "value_target"),
)
TURN_FIELDS = (
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
    """The stored episodes of runs with their tokens and colour scales; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._decoders: dict[int, tuple[Any, Decoder]] = {}
        self._scales = Scales()
        self._episodes = Episodes()

    def show(self, run: ViewedRun, step: int, number: int, seat: int | None) -> dict[str, Any]:
        """Return an episode.

        Args:
            run: run of the episode.
            step: step of the episode.
            number: number of the episode in its step.
            seat: seat whose view is shown; None shows all.

        Raises:
            RequestError: the episode or seat does not exist, or its file cannot be read.
        """
        entry = self.find(run, step, number)
        episode = entry.episode
        if seat is not None and seat >= len(episode.roles):
            raise RequestError(404, f"the episode has seats 0 to {len(episode.roles) - 1}")
        record = episode_record(step, episode, entry.credit)
        decoder = self.decoder(run)
        turns = [
            _turn_data(index, turn_record, entry, decoder)
            if seat is None or turn_record["seat"] == seat
            else {"index": index, **{key: turn_record[key] for key in SHARED}, "hidden": True}
            for index, turn_record in enumerate(record["episode"]["turns"])
        ]
        notes = [*decoder.notes, *_tokenizer_notes(turns)]
        environment = record["episode"]["environment"]
        if environment is not None and seat is not None:  # options may reveal the deal
            environment = {**environment, "options": None}
        segments = [segment for turn in turns if not turn["hidden"] for segment in turn["segments"]]
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
            "policy": has_probabilities(run, episode),
            "decoded": all(segment["text"] is not None for segment in segments),
            "missing": _missing_columns(entry),
            "notes": notes,
            **_neighbours(run, step, number, episode.group_id),
            "scale": self._scales.of(run, step),
            "path": list(timeline(episode.roles, episode.turns).path),
            "turns": turns,
        }

    def find(self, run: ViewedRun, step: int, number: int) -> StoredEpisode:
        """Return a stored episode.

        Raises:
            RequestError: the episode does not exist, or its file cannot be read.
        """
        return self._episodes.find(run, step, number)

    def decoder(self, run: ViewedRun) -> Decoder:
        """Return the tokenizers of a run, cached until its configuration changes."""
        with self._lock:
            cache_entry = self._decoders.get(run.number)
            if cache_entry is None or cache_entry[0] is not run.config:
                cache_entry = (run.config, Decoder(run.config))
                self._decoders[run.number] = cache_entry
            return cache_entry[1]


def _turn_data(
    index: int, record: Mapping[str, Any], entry: StoredEpisode, decoder: Decoder
) -> dict[str, Any]:
    turn = entry.episode.turns[index]
    reply = _reply_data(record, turn, entry.credit, decoder)
    pairs = zip(record["candidates"], turn.candidates, strict=True)
    return {
        "index": index,
        **{key: record[key] for key in SHARED},
        "hidden": False,
        **reply,
        "candidates": [_reply_data(*pair, entry.credit, decoder) for pair in pairs],
    }


def _reply_data(
    record: Mapping[str, Any], turn: Any, credits: Credits, decoder: Decoder
) -> dict[str, Any]:
    """Return a turn's prompt, reply, tokens, verdict and credit."""
    credit = credits.get((turn.seat, turn.turn_index, turn.candidate))
    verdict = record["verdict"]
    return {
        **{name: record[name] for name in TURN_FIELDS},
        "legal": record["legal_actions"],
        "segments": _segments(record, credit, decoder),
        "oracle": None if verdict is None else {**verdict, "regret": _regret_or_none(turn)},
        "credit": None if credit is None else {name: credit[name] for name in CREDIT_FIELDS},
    }


def _regret_or_none(turn: Turn) -> float | None:
    """Return the regret of a turn; None if its verdict does not contain its action."""
    try:
        return regret(turn)
    except ValueError:  # an invalid record
        return None


def _segments(
    record: Mapping[str, Any], credit: Mapping[str, Any] | None, decoder: Decoder
) -> list[dict[str, Any]]:
    tokenizer, segments, offset = decoder.tokenizer_of(record["agent"]), [], 0
    turn_advantage = None if credit is None else credit["advantage"]
    for segment in record["segments"]:
        ids = segment["ids"]
        tokens = None
        if segment["kind"] == "sampled":
            rows = zip(ids, decode_tokens(tokenizer, ids), segment["logprobs"], strict=True)
            tokens = [
                {
                    "id": number,
                    "text": piece.text,
                    "whole": piece.whole,
                    "logprob": logprob,
                    "entropy": _token_value(credit, "entropies", offset + index),
                    "advantage": turn_advantage if advantage is None else advantage,
                }
                for index, (number, piece, logprob) in enumerate(rows)
                for advantage in [_token_value(credit, "token_advantages", offset + index)]
            ]
            offset += len(ids)
        text = text_of(tokenizer, ids)
        kind = segment["kind"]
        segments.append({"kind": kind, "text": text, "length": len(ids), "tokens": tokens})
    return segments


def _token_value(credit: Mapping[str, Any] | None, name: str, index: int) -> float | None:
    values = None if credit is None else credit[name]
    return values[index] if values is not None and index < len(values) else None


def _seats(episode: Episode) -> list[dict[str, Any]]:
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


def _neighbours(run: ViewedRun, step: int, number: int, group: int) -> dict[str, Any]:
    store = EpisodeStore(run.path / EPISODES)
    table = store.load(store.path(step), ("episode_id", "group_id"))
    numbers = pc.unique(table["episode_id"]).to_pylist()
    group_rows = table.filter(pc.equal(table["group_id"], group))
    index = numbers.index(number)
    return {
        "previous": numbers[index - 1] if index else None,
        "next": numbers[index + 1] if index + 1 < len(numbers) else None,
        "siblings": len(pc.unique(group_rows["episode_id"])),
    }


def _tokenizer_notes(turns: list[dict[str, Any]]) -> list[str]:
    """Return a note if the decoded tokens do not contain the recorded reply."""
    for turn in turns:
        if turn["hidden"] or not turn["segments"]:
            continue
        parts = [part for part in turn["segments"] if part["kind"] == "sampled"]
        text = "".join(part["text"] or "" for part in parts)
        if text and "".join(turn["reply"].split()) not in "".join(text.split()):
            return ["the tokenizer on this machine gives another text than the recorded reply"]
    return []


def _missing_columns(entry: StoredEpisode) -> list[str]:
    episode, credits = entry.episode, list(entry.credit.values())
    names = []
    if episode.environment is None and not any(turn.prompt for turn in episode.turns):
        names.append("prompts")
    if not credits:
        names.append("advantages")
    if not any(row["entropies"] for row in credits):
        names.append("entropies")
    if not any(turn.verdict for turn in episode.turns):
        names.append("oracle values")
    return names
