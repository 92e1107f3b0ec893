"""Exported players: a policy, or a mixture of policies, and the file ``sparring.json``.

The file of a policy has its renderer, context and sampling. The file of a mixture has the weights
of its members; each member is a subfolder with the member's name. The file has version 2 if a
mixture has different weights for each of two sides, otherwise version 1.
"""

from __future__ import annotations

import math
import shlex
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from sparring.config.parts import (
    CountTo1M,
    PluginConfig,
    Positive,
    Strict,
    bound_agent,
    config_error,
)
from sparring.config.policies import LoraConfig
from sparring.core.errors import ModelError, SparringError, quoted
from sparring.core.files import disk_errors, file_digest, parse_json, write_json_atomic
from sparring.core.foreign_text import check_file_name
from sparring.core.records import PlayerRef, SamplingParams, bot
from sparring.play.players.base import Agent
from sparring.play.players.mixture import MemberMixture
from sparring.play.players.policy import policy

FILE = "sparring.json"
VERSIONS = (1, 2)
TINY = "tiny"  # ``model`` of a policy that is the tiny model
SUM_TOLERANCE = 1e-6  # largest error of the sum of a mixture's weights, which must be 1


class ExportedSampling(Strict):
    """Sampling parameters; see ``core.records.SamplingParams``."""

    max_new_tokens: CountTo1M
    temperature: float = Field(gt=0)
    top_p: float = Field(gt=0, le=1)
    top_k: int = Field(ge=0)


class ExportedPolicy(Strict):
    """A policy's file."""

    version: Literal[1] = 1
    kind: Literal["policy"] = "policy"
    model: str = Field(description="initial model: tiny, or a pretrained model's name")
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    lora: LoraConfig | None = Field(None, description="if the folder has only adapters")
    longest: CountTo1M | None = Field(None, description="conversation in tokens; null: the model's")
    renderer: PluginConfig
    context: PluginConfig
    sampling: ExportedSampling
    in_flight: Positive | None = None
    style: str = Field("full", description="wording of the environments in training")


def _check_sums(weights: dict[str, float]) -> dict[str, float]:
    for name, weight in weights.items():
        if not 0 < weight <= 1 + SUM_TOLERANCE:
            raise ValueError(
                f"the weight of {name} is {weight!r}; it must be above 0 and at most 1"
            )
    total = math.fsum(weights.values())
    if abs(total - 1) > SUM_TOLERANCE:
        raise ValueError(f"the weights of members sum to {total:.6g}; they must sum to 1")
    return weights


Weights = Annotated[
    dict[Annotated[str, AfterValidator(check_file_name)], float], AfterValidator(_check_sums)
]


class ExportedMixture(Strict):
    """A mixture's file."""

    version: Literal[1] = 1
    kind: Literal["mixture"] = "mixture"
    answer: str = Field(description="the run's answer that gave the weights")
    step: int = Field(ge=0, description="step of the checkpoint")
    members: Weights

    @property
    def weights(self) -> tuple[Weights, ...]:
        """The weights by side; here one mapping for all sides."""
        return (self.members,)


class ExportedSides(Strict):
    """The file of a mixture with weights for each of two sides."""

    version: Literal[2] = 2
    kind: Literal["mixture"] = "mixture"
    answer: str = Field(description="the run's answer that gave the weights")
    step: int = Field(ge=0, description="step of the checkpoint")
    sides: tuple[Weights, Weights] = Field(
        description="weights of the first and of the second side"
    )

    @property
    def weights(self) -> tuple[Weights, ...]:
        """The weights of each side."""
        return self.sides


AnyExportedMixture = ExportedMixture | ExportedSides
ExportedPlayer = ExportedPolicy | AnyExportedMixture
KINDS: dict[tuple[int, str], type[ExportedPlayer]] = {
    (1, "policy"): ExportedPolicy,
    (1, "mixture"): ExportedMixture,
    (2, "mixture"): ExportedSides,
}


def members_of(mixture: AnyExportedMixture) -> tuple[str, ...]:
    """Return the names of a mixture's members, each once."""
    return tuple(dict.fromkeys(name for weights in mixture.weights for name in weights))


def write_exported(folder: Path, player: ExportedPlayer) -> None:
    """Write the file into a folder.

    Raises:
        RunError: the folder cannot be written.
    """
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_json_atomic(folder / FILE, player.model_dump(mode="json"))


def read_exported(folder: Path) -> ExportedPlayer:
    """Return the content of a folder's file.

    Raises:
        ModelError: the folder or the file is missing, or the file is damaged or too new.
    """
    path = folder / FILE
    advice = "export the run again: sparring export RUN FOLDER"
    if not path.is_file():
        fault = f"has no {FILE}" if folder.is_dir() else "is not a folder"
        raise ModelError(f"{folder} {fault}, and so is not an exported player; {advice}.")
    try:
        data: Any = parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as JSON ({error}); {advice}.") from None
    version = data.get("version") if isinstance(data, dict) else None
    if type(version) is not int or version not in VERSIONS:
        readable_versions = " and ".join(map(str, VERSIONS))
        raise ModelError(
            f"{path} has version {quoted(version)}, and this Sparring reads versions "
            f"{readable_versions}; {advice}, or install a newer Sparring."
        )
    kind = KINDS.get((version, str(data.get("kind"))))
    if kind is None:
        expected_kinds = " or ".join(name for number, name in KINDS if number == version)
        raise ModelError(
            f"{path}: kind is {quoted(data.get('kind'))}; in version {version} it must be "
            f"{expected_kinds}. {advice[0].upper()}{advice[1:]}."
        )
    try:
        player = kind.model_validate(data)
    except ValidationError as error:
        explanation = config_error(error, lambda _: list(kind.model_fields), str(path))
        raise ModelError(f"{str(explanation).rstrip('.')}; {advice}.") from None
    if not isinstance(player, ExportedPolicy):
        _check_members(folder, player)
    return player


def _check_members(folder: Path, mixture: AnyExportedMixture) -> None:
    for name in members_of(mixture):
        try:
            member = read_exported(folder / name)
        except SparringError as error:
            raise ModelError(f"The mixture in {folder}, member {name}: {error}") from None
        if not isinstance(member, ExportedPolicy):
            raise ModelError(
                f"The mixture in {folder}: its member {name} is itself a mixture; export the run "
                "again: sparring export RUN FOLDER."
            )


class ExportedMembers(MemberMixture):
    """An exported mixture, whose members are exported policies.

    Args:
        folder: the folder of the mixture.
        mixture: the content of its file.
    """

    name = "exported"

    def __init__(self, folder: Path, mixture: AnyExportedMixture) -> None:
        refs = {
            name: bot(f"exported {shlex.quote(f'folder={folder / name}')}")
            for name in members_of(mixture)
        }
        self._names = {player: name for name, player in refs.items()}
        first_side, *second_side = (
            {refs[name]: weight for name, weight in weights.items()} for weights in mixture.weights
        )
        agent_of = cache(lambda player: bound_agent(player.name)())
        super().__init__(first_side, agent_of, (), *second_side)

    def label(self, player: PlayerRef) -> str:
        """Return the name of a member, which is the name of its folder."""
        return self._names.get(player, str(player))


def exported(*, folder: str) -> Agent:
    """A folder that ``sparring export`` wrote: a policy, or a mixture of a run's members.

    What: the model plays as in its run, with the same prompts and the same sampling. From a mixture
    one member is drawn for each episode and team, as for the player ``mixture``. If the file has
    weights for each of two sides, the draw uses the weights of the team's side.
    When to use: to measure the policy of another run, or to play against it, on any machine and
    without the run's folder. Within a run use ``policies`` with ``frozen: true``.
    Pitfalls: a tiny model knows only the words of its own environments, in their brief wording. A
    mixture loads all its members; LoRA adapters share their pretrained model. A mixture with
    weights for each side plays only environments with two sides.

    Args:
        folder: the FOLDER of ``sparring export RUN FOLDER``; a mixture with ``--answer nash``.

    Raises:
        ModelError: the folder is not an exported player, or is damaged, has another version, or
            lacks a member or the weights of a model.
    """
    path = Path(folder).expanduser()
    player = read_exported(path)
    if not isinstance(player, ExportedPolicy):
        return ExportedMembers(path, player)
    model = _load_model(path, player)
    sampling = player.sampling
    return policy(
        sampler=_make_sampler(model),
        renderer=player.renderer.bind("render")(model.tokenizer),
        params=SamplingParams(
            max_new_tokens=sampling.max_new_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
        ),
        name=path.name,
        context=player.context.bind("context"),
        in_flight=player.in_flight,
    )


def is_mixture(folder: str) -> bool:
    """Return whether the player of a folder is a mixture.

    Raises:
        ModelError: as for ``exported``.
    """
    return not isinstance(read_exported(Path(folder).expanduser()), ExportedPolicy)


def style_of(folder: str) -> str:
    """Return the wording of environments that a player was trained on.

    Raises:
        ModelError: as for ``exported``.
    """
    return _policies(folder)[0][1].style


def words_of(folder: str) -> frozenset[str] | None:
    """Return the words that a tiny model knows; None if the model knows any word.

    Raises:
        ModelError: as for ``exported``.
    """
    path, policy_file = _policies(folder)[0]
    if policy_file.model != TINY:
        return None
    return frozenset(parse_json((path / "tokenizer.json").read_bytes())["model"]["vocab"])


def identity_of(folder: str) -> dict[str, str]:
    """Return the digests of all files that the play of a player depends on.

    Raises:
        ModelError: as for ``exported``.
    """
    root = Path(folder).expanduser()
    folders = dict.fromkeys([root, *(path for path, _ in _policies(folder))])
    files = sorted(path for subfolder in folders for path in subfolder.iterdir() if path.is_file())
    return {str(path.relative_to(root)): file_digest(path) for path in files}


def _policies(folder: str) -> list[tuple[Path, ExportedPolicy]]:
    path = Path(folder).expanduser()
    player = read_exported(path)
    if isinstance(player, ExportedPolicy):
        return [(path, player)]
    members = [(path / name, read_exported(path / name)) for name in members_of(player)]
    return [(path, member) for path, member in members if isinstance(member, ExportedPolicy)]


def _load_model(folder: Path, policy_file: ExportedPolicy) -> Any:
    from sparring.models.load import load_saved_model  # torch is loaded only if a policy plays

    is_tiny = policy_file.model == TINY
    return load_saved_model(
        folder,
        base=policy_file.model if policy_file.lora is not None else None,
        lora=policy_file.lora.model_dump() if policy_file.lora is not None else None,
        dtype=policy_file.dtype,
        device="cpu" if is_tiny else "auto",
        longest=policy_file.longest,
    )


def _make_sampler(model: Any) -> Any:
    from sparring.config.plugins.registry import bind

    return bind("samplers", "in_process")(model)
