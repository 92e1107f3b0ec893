"""A policy that was exported, or a mixture of such policies."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path
from typing import Any

from sparring.config_parts import bound_agent
from sparring.players.base import Agent
from sparring.players.exported_files import (
    TINY,
    ExportedPolicy,
    Mixed,
    members_of,
    read_exported,
)
from sparring.players.members import MemberMixture
from sparring.players.policy import policy
from sparring.refs import PlayerRef, bot
from sparring.system.files import file_digest, parse_json
from sparring.types import SamplingParams


class ExportedMembers(MemberMixture):
    """An exported mixture, whose members are exported policies.

    Args:
        folder: of the mixture.
        said: its file.
    """

    name = "exported"

    def __init__(self, folder: Path, said: Mixed) -> None:
        refs = {
            name: bot(f"exported {shlex.quote(f'folder={folder / name}')}")
            for name in members_of(said)
        }
        self._names = {who: name for name, who in refs.items()}
        first, *second = (
            {refs[name]: weight for name, weight in own.items()} for own in said.weights
        )
        super().__init__(first, cache(lambda who: bound_agent(who.name)()), (), *second)

    def called(self, player: PlayerRef) -> str:
        """Return what a member is called: the name of its folder."""
        return self._names.get(player, str(player))


def exported(*, folder: str) -> Agent:
    """A folder that ``sparring export`` wrote: a policy, or a mixture of a run's members.

    What: the model plays as it did in its run: the same prompts, the same sampling. Of a mixture
    one member is drawn for each play and team, as of the player ``mixture``; where the run has
    solved its population for each of two sides, by the weights of the side.
    When to use: to play with, measure or meet what another run has learnt, on any machine, without
    the run's folder; ``policies`` with ``frozen: true`` is for a policy that sits beside one that
    is trained.
    Pitfalls: a tiny model knows the words of its own environments alone, in their brief wording. A
    mixture loads all its members; those that are adapters share their pretrained model. One with
    weights for each side plays where there are two sides alone.

    Args:
        folder: that ``sparring export RUN FOLDER`` wrote; with ``--answer nash`` it is a mixture.

    Raises:
        ModelError: the folder holds no exported player, or one that is damaged, of another version,
            or without a member or its weights.
    """
    path = Path(folder).expanduser()
    said = read_exported(path)
    if not isinstance(said, ExportedPolicy):
        return ExportedMembers(path, said)
    model = _model(path, said)
    sampling = said.sampling
    return policy(
        sampler=_sampler(model),
        renderer=said.renderer.bind("render")(model.tokenizer),
        params=SamplingParams(
            max_new_tokens=sampling.max_new_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
        ),
        name=path.name,
        context=said.context.bind("context"),
        in_flight=said.in_flight,
    )


def is_mixture(folder: str) -> bool:
    """Return whether a folder has a mixture.

    Raises:
        ModelError: as for ``exported``.
    """
    return not isinstance(read_exported(Path(folder).expanduser()), ExportedPolicy)


def style_of(folder: str) -> str:
    """Return the wording of the environments that a player was trained on.

    Raises:
        ModelError: as for ``exported``.
    """
    return _policies(folder)[0][1].style


def words_of(folder: str) -> frozenset[str] | None:
    """Return the words that a tiny model knows; None: any.

    Raises:
        ModelError: as for ``exported``.
    """
    path, said = _policies(folder)[0]
    if said.model != TINY:
        return None
    return frozenset(parse_json((path / "tokenizer.json").read_bytes())["model"]["vocab"])


def identity_of(folder: str) -> dict[str, str]:
    """Return the digests of all files that the play of a player depends on.

    Raises:
        ModelError: as for ``exported``.
    """
    root = Path(folder).expanduser()
    folders = dict.fromkeys([root, *(path for path, _ in _policies(folder))])
    files = sorted(path for one in folders for path in one.iterdir() if path.is_file())
    return {str(path.relative_to(root)): file_digest(path) for path in files}


def _policies(folder: str) -> list[tuple[Path, ExportedPolicy]]:
    """Return the policies of a folder: one, or the members of a mixture."""
    path = Path(folder).expanduser()
    said = read_exported(path)
    if isinstance(said, ExportedPolicy):
        return [(path, said)]
    members = [(path / name, read_exported(path / name)) for name in members_of(said)]
    return [(where, one) for where, one in members if isinstance(one, ExportedPolicy)]


def _model(folder: Path, said: ExportedPolicy) -> Any:
    """Return the model of a policy's folder."""
    from sparring.models.load import saved_model  # torch: only where a policy plays

    tiny = said.model == TINY
    return saved_model(
        folder,
        base=said.model if said.lora is not None else None,
        lora=said.lora.model_dump() if said.lora is not None else None,
        dtype=said.dtype,
        device="cpu" if tiny else "auto",
        longest=said.longest,
    )


def _sampler(model: Any) -> Any:
    """Return what samples a model's replies."""
    from sparring.registry import bind

    return bind("samplers", "in_process")(model)
