"""Rows of prompts with reward functions: one seat, one reply to each prompt."""

from __future__ import annotations

import asyncio
import copy
import csv
import inspect
import json
import logging
import math
import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from sparring.core.errors import ConfigError, GameError, UnknownNameError, quoted
from sparring.core.records import ChatMessage, Observation, can_precede_user
from sparring.core.rng import Stream
from sparring.environments.bridges.base import (
    CALL_SECONDS,
    BridgeEnvironment,
    BridgePlay,
    as_number,
    load_function,
)

log = logging.getLogger(__name__)
Part = Literal["train", "held_out"]
KINDS = (".jsonl", ".csv", ".parquet")  # and folders saved by datasets
ROLES = ("system", "user", "assistant")
MAX_STORED = 100_000  # replies whose values are stored for replays
MAX_BYTES = 2**31  # largest size of a file
_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*)?\.?\d+(?:e[-+]?\d+)?")


def _plain(value: Any) -> str:
    text = value[-1]["content"] if isinstance(value, list) else str(value)
    return " ".join(text.split()).casefold()


def _last_number(text: str) -> float | None:
    numbers = _NUMBER.findall(text)
    return float(numbers[-1].replace(",", "")) if numbers else None


COMPARISONS: Mapping[str, Callable[[str, str], bool]] = {  # of a completion and the answer
    "exact": lambda text, answer: text == answer,
    "contains": lambda text, answer: answer in text,
    "number": lambda text, answer: _last_number(text) == _last_number(answer) is not None,
}


def _by_comparison(name: str) -> Callable[..., list[float]]:
    """Return a reward function that is 1 where a comparison holds, apart from case and space."""

    def reward(completions: list[Any], answer: list[Any], **columns: Any) -> list[float]:
        pairs = zip(map(_plain, completions), map(_plain, answer), strict=True)
        return [float(COMPARISONS[name](*pair)) for pair in pairs]

    return reward


class DatasetRow(NamedTuple):
    """A row of a dataset."""

    messages: tuple[ChatMessage, ...]
    prompt: str
    prefill: str
    columns: Mapping[str, Any]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file, or of a folder that ``datasets`` saved."""
    where = f"environments 'dataset': data={quoted(str(path))}"
    try:
        if not path.is_dir() and not path.is_file():
            raise ConfigError(f"{where} does not exist; write the path of a file or folder.")
        if path.is_dir():
            return _read_saved_folder(path)
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{where} has over {MAX_BYTES} bytes; write a smaller file.")
        if path.suffix == ".jsonl":
            lines = path.read_text(encoding="utf-8").split("\n")
            return [json.loads(line) for line in lines if line.strip()]
        if path.suffix == ".csv":
            with path.open(encoding="utf-8-sig", newline="") as file:
                csv.field_size_limit(MAX_BYTES)
                return list(csv.DictReader(file))
        if path.suffix == ".parquet":
            from pyarrow import parquet

            rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
            return rows
    except (OSError, ValueError, csv.Error, LookupError, TypeError, RecursionError) as error:
        if isinstance(error, ConfigError):
            raise
        message = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"{where} cannot be read: {type(error).__name__}: {message}. Mend the file, or save "
            "it as JSONL: one JSON object per line."
        ) from error
    raise ConfigError(f"{where} is no file of {', '.join(KINDS)}; save it as one of these.")


def _read_saved_folder(folder: Path) -> list[dict[str, Any]]:
    import pyarrow

    state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = []
    for entry in state["_data_files"]:
        name = Path(entry["filename"]).name  # inside the folder
        if (folder / name).is_symlink() or not (folder / name).is_file():
            raise ValueError(f"{name} is no file")
        with pyarrow.memory_map(str(folder / name)) as source:
            rows += pyarrow.ipc.open_stream(source).read_all().to_pylist()
    return rows


def row_of(columns: Any, number: int, column: str) -> DatasetRow:
    """Return a checked row."""
    where = f"environments 'dataset': row {number}"
    if not isinstance(columns, Mapping) or None in columns:
        raise ConfigError(f"{where} is {quoted(columns)}, not an object with columns.")
    if column not in columns:
        raise ConfigError(
            f"{where} has no column {column!r}, only {', '.join(map(str, columns))}; write "
            "prompt_column=NAME."
        )
    prompt = columns[column]
    if isinstance(prompt, str):
        contents = [ChatMessage("user", prompt)]
    elif isinstance(prompt, list) and prompt:
        contents = [_message(entry, where) for entry in prompt]
    else:
        raise ConfigError(
            f"{where}: {column}={quoted(prompt)} is no text and no list of messages; write "
            f'{column}: "..." or {column}: [{{"role": "user", "content": "..."}}].'
        )
    if columns.get("system"):
        contents.insert(0, ChatMessage("system", str(columns["system"])))
    prefill = str(columns.get("prefill") or "")
    if contents[-1].role == "assistant":
        prefill = contents.pop().content + prefill
    if not contents or contents[-1].role != "user" or not can_precede_user(contents[:-1]):
        raise ConfigError(
            f"{where}: the roles are {', '.join(m.role for m in contents) or 'none'}; write an "
            "optional system message, then user and assistant in turn, at last a user's message "
            "(after it an assistant's message as the beginning of the reply)."
        )
    if not contents[-1].content.strip():
        raise ConfigError(f"{where}: the last prompt is empty; leave the row out.")
    return DatasetRow(tuple(contents[:-1]), contents[-1].content, prefill, columns)


def _message(entry: Any, where: str) -> ChatMessage:
    role = entry.get("role") if isinstance(entry, Mapping) else None
    if role not in ROLES:
        raise ConfigError(
            f"{where}: {quoted(entry)} is no message; write "
            '{"role": "user", "content": "..."} with a role of system, user, assistant.'
        )
    content = entry.get("content")
    if isinstance(content, list):
        parts = [part if isinstance(part, Mapping) else {} for part in content]
        if kinds := [part.get("type") for part in parts if part.get("type") != "text"]:
            raise ConfigError(
                f"{where}: a message has a part of the type {quoted(kinds[0])}, and models here "
                "read text only; leave the row out."
            )
        content = "".join(str(part.get("text", "")) for part in parts)
    if not isinstance(content, str):
        raise ConfigError(f"{where}: content={quoted(content)} is no text; write a text.")
    return ChatMessage(role, content)


@dataclass(kw_only=True, eq=False)
class Dataset(BridgeEnvironment):
    """A prompt of a file, one reply, and reward functions as TRL's GRPOTrainer takes them.

    What: each episode draws a row. The return is the weighted sum of the reward functions. Rows are
    divided into a part for training and a held-out part, which evaluation uses; equal prompts are
    in one part.
    When to use: to train on prompts that you have, as with TRL, with every estimator and loss here.
    Mathematics:

        return = w_1 r_1(prompt, reply, columns) + ... + w_n r_n(prompt, reply, columns)

    A function that returns None for a row does not count there.

    Pitfalls: a function is called for one reply at a time. A function that raises, or returns a
    wrong length or NaN, drops the group. Prompts over the model's context truncate the episode.
    Reference: the interface of GRPOTrainer in TRL 1.16.
    Verified by: tests/environments/test_dataset.py.

    Args:
        data: a file (.jsonl, .csv, .parquet), or a folder saved by ``datasets``.
        rewards: "exact" (default), "contains" or "number", which compare with the column
            ``answer``; or "module.function" in a module with the line SLOT = "reward_functions".
            A function takes prompts, completions and all other columns as lists, and returns a
            list of numbers; it may be async.
        weights: a weight per reward function; () (default): 1 each.
        prompt_column: name of the column with the prompt: a text, or messages with roles. Columns
            ``system`` and ``prefill`` may add a system message and the beginning of the reply.
        answer_column: name of the column that reward functions receive as ``answer``.
        held_out: share of the prompts that training never sees.
        part: "train" (default) or "held_out".
        payoffs: the least and the greatest return; null (default): 0 and the sum of the weights
            for built-in rewards, and unknown for others.
        ask: a request after each prompt.
        call_seconds: limit of one call of a reward function; 0: the limit of the run.
    """

    data: str
    rewards: tuple[str, ...] = ("exact",)
    weights: tuple[float, ...] = ()
    prompt_column: str = "prompt"
    answer_column: str = "answer"
    held_out: Annotated[float, Field(ge=0, lt=1)] = 0.1
    part: Part = "train"
    payoffs: tuple[float, float] | None = None
    ask: str = ""
    call_seconds: Annotated[float, Field(ge=0)] = CALL_SECONDS

    name, size_option = "dataset", "part"
    roles, num_seats, max_turns, cooperative = ("solver",), 1, 1, True
    made_by: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.game_id = Path(self.data).name
        self.functions = [_reward_function(name) for name in self.rewards]
        short_names = tuple(name.rpartition(".")[2] for name in self.rewards)
        is_unique = len({*short_names}) == len(short_names)
        self.figures = short_names if is_unique else tuple(self.rewards)
        self.reward_weights = self.weights or (1.0,) * len(self.rewards)
        if not self.rewards or len(self.reward_weights) != len(self.rewards):
            raise ConfigError(
                f"environments 'dataset': {len(self.weights)} weights for {len(self.rewards)} "
                "rewards; write one weight for each reward function, and at least one."
            )
        low, high = (
            math.fsum(filter(sign, self.reward_weights))
            for sign in (lambda weight: weight < 0, lambda weight: weight > 0)
        )
        are_known = all("." not in name for name in self.rewards) and low < high
        self.set_payoffs(self.payoffs or ((low, high) if are_known else None))
        self._values: dict[tuple[int, str], list[float]] = {}  # of the rewards, by row and reply
        self.rows = self._part_of(read_rows(Path(self.data)))

    def _part_of(self, rows: Sequence[Any]) -> list[DatasetRow]:
        checked = [row_of(row, number, self.prompt_column) for number, row in enumerate(rows, 1)]
        for number, row in enumerate(checked, 1):
            self._check_answer(row, number)
        identities = {_identity(row) for row in checked}
        if len(identities) < len(checked):
            log.warning(
                "%s: %d of %d prompts occur more than once; equal ones are in one part.",
                self.game_id,
                len(checked) - len(identities),
                len(checked),
            )
        draws = Stream.from_seed(0).child("held out")
        is_held_out = self.part == "held_out"
        part = [
            row
            for row in checked
            if (draws.child(_identity(row)).uniform(0) < self.held_out) == is_held_out
        ]
        if not part:
            raise ConfigError(
                f"environments 'dataset': {quoted(self.data)} has {len(checked)} rows, and none in "
                f"the part {self.part!r}; write more rows, or another held_out than "
                f"{self.held_out:g}."
            )
        return part

    def _check_answer(self, row: DatasetRow, number: int) -> None:
        """Check the answer of a row, if a built-in reward function compares with it."""
        answer = row.columns.get(self.answer_column)
        is_usable = isinstance(answer, str | int | float) and _plain(answer) != ""
        if "number" in self.rewards:
            is_usable = is_usable and _last_number(_plain(answer)) is not None
        if not is_usable and any("." not in name for name in self.rewards):
            raise ConfigError(
                f"environments 'dataset': row {number} has {self.answer_column}={quoted(answer)}, "
                f"which {', '.join(self.rewards)} cannot compare with; write a text or a number, "
                "answer_column=NAME, or a reward function of your own."
            )

    def call(self, index: int, prompt: Any, completion: Any, columns: Mapping[str, Any]) -> Any:
        """Return what reward function ``index`` returns for one completion."""
        prompt, columns = copy.deepcopy((prompt, dict(columns)))  # a function may change them
        result = self.functions[index](prompts=[prompt], completions=[completion], **columns)
        return _wait_for(result) if inspect.isawaitable(result) else result

    def stored_values(self, number: int, reply: str) -> list[float]:
        """Return the list of values of a reply to a row; empty if they are not known yet."""
        if len(self._values) > MAX_STORED:
            self._values.clear()
        return self._values.setdefault((number, reply), [])

    def start_of(self, play: Any) -> str:
        """Return the identity of a row: its prompt."""
        return _identity(play.row)

    def starts(self) -> frozenset[str]:  # type: ignore[override]
        """Return the prompts of this part."""
        return frozenset(map(_identity, self.rows))

    def other_bank(self) -> dict[str, Any] | None:
        """Return options with the other part of the rows; None: nothing is held out."""
        options = (self.made_by or {}).get("options", {})
        other = "train" if self.part == "held_out" else "held_out"
        return {**options, "part": other} if self.held_out else None

    def reset(self, stream: Stream) -> DatasetPlay:
        """Return a new play."""
        return DatasetPlay(self, stream.child("start").integer(0, len(self.rows)))


def _wait_for(awaitable: Awaitable[Any]) -> Any:
    """Return the result of an async function, in a thread if this one runs an event loop."""
    results: list[Any] = []

    async def wait() -> None:
        try:
            results.append(await awaitable)
        except Exception as error:
            results.append(error)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(wait())
    else:  # as in a notebook
        thread = threading.Thread(target=lambda: asyncio.run(wait()), daemon=True)
        thread.start()
        thread.join()
    if isinstance(results[0], Exception):
        raise results[0]
    return results[0]


def _identity(row: DatasetRow) -> str:
    return json.dumps([*row.messages, row.prompt, row.prefill])


def _reward_function(name: str) -> Callable[..., Any]:
    if "." not in name:
        if name not in COMPARISONS:
            hint = "Functions of your own are named module.function."
            raise UnknownNameError("reward function of dataset", name, COMPARISONS, hint)
        return _by_comparison(name)
    function = load_function("reward_functions", name)
    required = {
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
    }
    if missing := sorted(required & {"completion_ids", "trainer_state"}):
        raise ConfigError(
            f"environments 'dataset': the reward function {name!r} needs {', '.join(missing)}, "
            "which exists only inside TRL's trainer; give the parameter a default."
        )
    return function


class DatasetPlay(BridgePlay):
    """A play with one row; its seed is the row's number."""

    rules: Dataset

    def begin(self) -> None:
        """Take the row."""
        self.row = self.rules.rows[self.seed]
        self.values = [math.nan] * len(self.rules.rewards)
        self.first_texts = _identity(self.row)

    def due(self) -> tuple[int, ...]:
        """Return the seat, or () after its reply."""
        return () if self.done else (0,)

    def legal(self, seat: int) -> None:
        """Return None: any text is a reply."""

    def observe(self, seat: int) -> Observation:
        """Return the messages of the row."""
        row = self.row
        return Observation(
            prompt=row.prompt,
            ask=self.rules.ask,
            key=self.first_texts,
            view=row.prompt,
            messages=row.messages,
            prefill=row.prefill,
        )

    def sample(self, seat: int, stream: Stream) -> str:
        """Return the answer of a random row."""
        row = self.rules.rows[stream.integer(0, len(self.rules.rows))]
        answer = row.columns.get(self.rules.answer_column)
        if answer is None:
            raise GameError(
                f"dataset: a row has no column {self.rules.answer_column!r} to draw a random reply "
                "from; write answer_column=NAME, or warmup.updates=0 and no random player."
            )
        return str(answer)

    def advance(self, replies: Mapping[int, str]) -> None:
        """Call the reward functions; a replay of the same reply takes their earlier values."""
        rules = self.rules
        stored = rules.stored_values(self.seed, replies[0])
        if not stored:
            stored += self._call_functions(replies[0])
        self.values = list(stored)
        products = zip(rules.reward_weights, self.values, strict=True)
        self.returns = (math.fsum(w * value for w, value in products if not math.isnan(value)),)
        self.done = True

    def _call_functions(self, reply: str) -> list[float]:
        """Return the value of each reward function; nan where it does not apply."""
        rules, row = self.rules, self.row
        prompt = row.columns[rules.prompt_column]
        text = row.prefill + reply
        completion = text if isinstance(prompt, str) else [{"role": "assistant", "content": text}]
        columns = {
            name: [value]
            for name, value in row.columns.items()
            if name not in (rules.prompt_column, "prompts", "completions")
        }
        if rules.answer_column in row.columns:
            columns["answer"] = [row.columns[rules.answer_column]]
        numbers: list[float] = []
        for index, function_name in enumerate(rules.rewards):
            name = f"dataset: the reward function {function_name!r}"
            result = rules.call(index, prompt, completion, columns)
            if not isinstance(result, Iterable) or isinstance(result, str | Mapping):
                raise GameError(f"{name} returned {quoted(result)}; return a list with a number.")
            values = list(result)
            if len(values) != 1:
                raise GameError(f"{name} returned {len(values)} values for one completion.")
            value = math.nan if values[0] is None else as_number(values[0], f"{name}: a value")
            numbers.append(value)
        return numbers

    def figures(self) -> dict[str, tuple[float, ...]]:
        """Return the value of each reward function."""
        return {name: (value,) for name, value in zip(self.rules.figures, self.values, strict=True)}

    def copy_library(self) -> bool:
        """Share the row, which never changes."""
        self.values = list(self.values)
        return True


dataset = Dataset
