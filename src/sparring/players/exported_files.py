"""What ``sparring export`` writes beside the weights, so that the folder can be seated: one file.

``sparring.json`` of a policy says how it is asked and sampled; of a mixture it has the weights of
its members, each of which is a policy's folder of that name in the same folder. A mixture with
weights for each of two sides has version 2; all else is written, and read, as version 1.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from sparring import names
from sparring.config.policies import LoraConfig
from sparring.config_parts import PluginConfig, Positive, Some, Strict, config_error
from sparring.errors import ModelError, SparringError, quoted
from sparring.system.files import disk_errors, parse_json, write_json_atomic

FILE = "sparring.json"
VERSIONS = (1, 2)
TINY = "tiny"
ONE = 1e-6  # how far the sum of a mixture's weights may be from 1


class Sampling(Strict):
    """How replies are drawn; see ``types.SamplingParams``."""

    max_new_tokens: Some
    temperature: float = Field(gt=0)
    top_p: float = Field(gt=0, le=1)
    top_k: int = Field(ge=0)


class ExportedPolicy(Strict):
    """A policy's file."""

    version: Literal[1] = 1
    kind: Literal["policy"] = "policy"
    model: str = Field(description="that it was trained from: tiny, or a pretrained one's name")
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    lora: LoraConfig | None = Field(None, description="where the folder has adapters alone")
    longest: Some | None = Field(None, description="conversation in tokens, if not the model's")
    renderer: PluginConfig
    context: PluginConfig
    sampling: Sampling
    in_flight: Positive | None = None
    style: str = Field("full", description="wording of the environments that it was trained on")


def _distribution(weights: dict[str, float]) -> dict[str, float]:
    """Return the weights of members, if they are a distribution.

    Raises:
        ValueError: they are not.
    """
    for name, weight in weights.items():
        if not 0 < weight <= 1 + ONE:
            raise ValueError(
                f"the weight of {name} is {weight!r}; it must be above 0 and at most 1"
            )
    total = math.fsum(weights.values())
    if abs(total - 1) > ONE:
        raise ValueError(f"the weights of members sum to {total:.6g}; they must sum to 1")
    return weights


Weights = Annotated[
    dict[Annotated[str, AfterValidator(names.file_name)], float], AfterValidator(_distribution)
]


class ExportedMixture(Strict):
    """A mixture's file."""

    version: Literal[1] = 1
    kind: Literal["mixture"] = "mixture"
    answer: str = Field(description="of the run, which gave the weights")
    step: int = Field(ge=0, description="of the checkpoint")
    members: Weights

    @property
    def weights(self) -> tuple[Weights, ...]:
        """The weights, by side: here one mapping for all of them."""
        return (self.members,)


class ExportedSides(Strict):
    """The file of a mixture with weights for each of two sides."""

    version: Literal[2] = 2
    kind: Literal["mixture"] = "mixture"
    answer: str = Field(description="of the run, which gave the weights")
    step: int = Field(ge=0, description="of the checkpoint")
    sides: tuple[Weights, Weights] = Field(description="of the first side, and of the second")

    @property
    def weights(self) -> tuple[Weights, ...]:
        """The weights of each side."""
        return self.sides


Mixed = ExportedMixture | ExportedSides
Exported = ExportedPolicy | Mixed
KINDS: dict[tuple[int, str], type[Exported]] = {
    (1, "policy"): ExportedPolicy,
    (1, "mixture"): ExportedMixture,
    (2, "mixture"): ExportedSides,
}


def members_of(mixture: Mixed) -> tuple[str, ...]:
    """Return the names of a mixture's members, each once."""
    return tuple(dict.fromkeys(name for own in mixture.weights for name in own))


def write_exported(folder: Path, one: Exported) -> None:
    """Write the file into a folder.

    Raises:
        RunError: the folder cannot be written.
    """
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_json_atomic(folder / FILE, one.model_dump(mode="json"))


def read_exported(folder: Path) -> Exported:
    """Return what the file of a folder says.

    Raises:
        ModelError: there is no such folder or file, it is damaged, or of another version.
    """
    path = folder / FILE
    again = "export the run again: sparring export RUN FOLDER"
    if not path.is_file():
        what = f"has no {FILE}" if folder.is_dir() else "is no folder"
        raise ModelError(f"{folder} {what}, and so is no exported player; {again}.")
    try:
        data: Any = parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as JSON ({error}); {again}.") from None
    version = data.get("version") if isinstance(data, dict) else None
    if type(version) is not int or version not in VERSIONS:
        read = " and ".join(map(str, VERSIONS))
        raise ModelError(
            f"{path} has version {quoted(version)}, and this Sparring reads versions {read}; "
            f"{again}, or install a newer Sparring."
        )
    kind = KINDS.get((version, str(data.get("kind"))))
    if kind is None:
        there = " or ".join(name for number, name in KINDS if number == version)
        raise ModelError(
            f"{path}: kind is {quoted(data.get('kind'))}; in version {version} it must be {there}. "
            f"{again[0].upper()}{again[1:]}."
        )
    try:
        found = kind.model_validate(data)
    except ValidationError as error:
        wrong = config_error(error, lambda _: list(kind.model_fields), str(path))
        raise ModelError(f"{str(wrong).rstrip('.')}; {again}.") from None
    if not isinstance(found, ExportedPolicy):
        _check_members(folder, found)
    return found


def _check_members(folder: Path, mixture: Mixed) -> None:
    """Check that each member of a mixture is there, and is a policy.

    Raises:
        ModelError: one is not.
    """
    for name in members_of(mixture):
        try:
            member = read_exported(folder / name)
        except SparringError as error:
            raise ModelError(f"The mixture in {folder}, member {name}: {error}") from None
        if not isinstance(member, ExportedPolicy):
            raise ModelError(
                f"The mixture in {folder}: its member {name} is a mixture again; export the run "
                "again: sparring export RUN FOLDER."
            )
