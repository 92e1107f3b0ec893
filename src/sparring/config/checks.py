"""Checks across the sections of a configuration: needs of methods, and GPUs of processes.

Two processes on one GPU would fill its memory and end the run, so this is an error unless
``scale.share_gpus`` is true.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sparring.config.parts import PluginConfig, bound_agent, check_requires, named_components
from sparring.config.plugins import registry
from sparring.config.plugins.registry import load_part, offering
from sparring.config.sections import RunSections
from sparring.core.errors import ConfigError, MissingError, UnknownNameError
from sparring.core.records import MAIN, OWN, ref

MAX_PROMPTS = 10**6  # replies requested at once


def check_candidates(config: RunSections) -> None:
    """Raise an error for candidates without a judge, and for credit that lacks candidates."""
    candidates, credit = config.rollout.candidates, config.credit.bind("credit")
    if candidates.count == 1:
        if "candidates" in registry.required_services(credit):
            raise MissingError(
                f"credit: {config.credit.name!r} compares the candidates of a prompt, and "
                "there is only one; write rollout.candidates.count: 4 (2 or more)."
            )
        return
    prompts = min(config.rollout.in_flight, config.rollout.games_per_step) * candidates.count
    if prompts > MAX_PROMPTS:
        raise ConfigError(
            f"rollout.candidates.count: {candidates.count} replies in each of "
            f"{prompts // candidates.count} episodes at once are {prompts} prompts, more than "
            f"{MAX_PROMPTS}; lower it, or rollout.in_flight."
        )
    unjudged = [
        section.known_as
        for section in config.environments
        if section.weight and section.oracle is None
    ]
    if candidates.by == "oracle" and unjudged:
        raise MissingError(
            f"rollout.candidates.by: the oracle is to judge, and {unjudged[0]!r} has none; "
            "write oracle: {name: minimax} below the environment, or another of `sparring "
            "list oracles`."
        )
    reads = {
        reward.name: reward.bind("rewards").plugin.declarations.READS for reward in config.rewards
    }
    if "candidates" in registry.required_services(credit):
        for option, component in named_components(credit).items():
            if reads.get(component, "turn") != "turn":
                raise ConfigError(
                    f"credit: {credit.plugin.name!r} compares candidates by {component!r} "
                    f"(its option {option}), which reads more than one turn and so cannot score a "
                    "reply that was not played; name best_action or regret."
                )
    if config.knowledge is not None:
        return
    if candidates.by == "rewards" and "turn" not in reads.values():
        raise MissingError(
            f"rollout.candidates.count is {candidates.count}, and no reward of the run judges a "
            "turn by itself; add to rewards a line such as - {name: best_action}, or write "
            "rollout.candidates.by: oracle."
        )


def check_knowledge(config: RunSections) -> None:
    """Raise an error for knowledge without candidates, or with replay."""
    name = config.knowledge.name if config.knowledge is not None else ""
    for policy in config.by_policy.values():
        candidates = policy.rollout.candidates
        if candidates.count == 1 or candidates.commit != "random":
            raise MissingError(
                f"knowledge: {name!r} judges the candidates of a prompt after the episodes; write "
                "rollout.candidates: {count: 3, commit: random}."
            )
    if config.knowledge is not None:
        bound = config.knowledge.bind("knowledge")
        option = bound.plugin.declarations.EMBEDDING
        if option is not None and option in bound.options:
            PluginConfig.model_validate(bound.options[option]).bind("knowledge.embeddings")
    if config.replay.name != "none":
        raise ConfigError(
            f"knowledge: {name!r} judges episodes in the step that plays them, and replay "
            f"{config.replay.name!r} learns from older ones; leave replay out."
        )


WAVES = "continues episodes after other episodes of the same step have ended"


def check_fresh(config: RunSections) -> None:
    """Raise an error for methods that need pinned order.

    Raises:
        ValueError: the configuration has such a method.
    """
    rollout = config.rollout
    needs = (
        ("rollout.plan", rollout.plan.name, "none", WAVES),
        ("rollout.playouts", rollout.playouts, 0, WAVES),
        ("rollout.refills", rollout.refills, 0, "replaces episodes by others of the same step"),
        ("replay", config.replay.name, "none", "learns from episodes older than scale.lag allows"),
        (
            "league.learners",
            ", ".join(config.league.learners),
            "{}",
            "assigns the episodes of each step to learners",
        ),
    )
    for key, value, default, reason in needs:
        if value and value != default:
            raise ValueError(
                f"{key}={value} {reason}, and with scale.order=fresh no episode belongs to a step; "
                f"write {key}: {default}, or scale.order: pinned"
            )


CUDA, VLLM = "cuda", "vllm"


class GpuClaim(NamedTuple):
    """GPUs of this machine that a group of processes uses."""

    owner: str
    gpus: tuple[int, ...]
    key: str  # configuration key that sets them


def uses_gpus(config: RunSections) -> bool:
    """Return whether any model of the run is on a GPU."""
    return any(policy.model.device.startswith(CUDA) for policy in config.by_policy.values())


def learner_gpus(config: RunSections) -> tuple[int, ...]:
    """Return the GPU of each learner, for models on GPUs."""
    return config.learner.gpus or tuple(range(config.learner.ranks))


def training_device(config: RunSections) -> str:
    """Return the device of a policy's model in the training process.

    Args:
        config: of a run with only this policy.
    """
    device, gpus = config.model.device, config.learner.gpus
    return f"{CUDA}:{gpus[0]}" if device == CUDA and gpus else device


def check_gpus(config: RunSections) -> None:
    """Raise an error for unused GPUs, missing GPUs and GPUs claimed twice.

    Raises:
        ConfigError: such a GPU exists.
    """
    _check_learners(config)
    _check_workers(config)
    if config.scale.share_gpus:
        return
    claims = list(_gpu_claims(config))
    for index, claim in enumerate(claims):
        for other in claims[:index]:
            shared = sorted({*claim.gpus} & {*other.gpus})
            if shared:
                raise ConfigError(
                    f"GPU {shared[0]} is given twice, to {other.owner} ({other.key}) and to "
                    f"{claim.owner} ({claim.key}); give each their own, such as {claim.key}="
                    f"{_free_gpus(claim, claims)}, or write scale.share_gpus: true, if both fit."
                )


def _check_learners(config: RunSections) -> None:
    gpus, ranks = config.learner.gpus, config.learner.ranks
    for name, policy in config.by_policy.items():
        device = policy.model.device
        key = f"policies.{name}.model.device" if config.policies else "model.device"
        if gpus and not device.startswith(CUDA):
            raise ConfigError(
                f"learner.gpus={list(gpus)} and {key}={device}; write {key}: cuda (tiny models run "
                "on the CPU), or leave learner.gpus out."
            )
        if device.startswith(f"{CUDA}:") and (gpus or ranks > 1):
            suffix = device.partition(":")[2]
            begin = int(suffix) if suffix.isdecimal() else 0
            raise ConfigError(
                f"{key}={device} is one GPU, and each of learner.ranks={ranks} takes one, as "
                f"learner.gpus says; write {key}: cuda and learner.gpus: "
                f"{list(gpus) or list(range(begin, begin + ranks))}."
            )


def _check_workers(config: RunSections) -> None:
    scale, vllm = config.scale, sampler_gpus(config)
    has_gpu_work = uses_gpus(config) or vllm is not None
    if (scale.gpus or scale.gpus_per_worker) and not has_gpu_work:
        key = "gpus_per_worker" if scale.gpus_per_worker else "gpus"
        raise ConfigError(
            f"scale.{key} gives workers GPUs, and no model of theirs uses one "
            f"(model.device={config.model.device}); write model.device: cuda (tiny models run on "
            f"the CPU), or leave scale.{key} out."
        )
    if scale.fleet == "ray" and has_gpu_work and scale.gpus_per_worker is None:
        key = "sampler.device" if vllm is not None else "model.device"
        gpus = "" if scale.address else " and scale.gpus: [1, 2] (numbers of GPUs)"
        raise ConfigError(
            f"{key}=cuda, and Ray gives its workers no GPU; write scale.gpus_per_worker: 1 (or a "
            f"share such as 0.5){gpus}, or leave {key} at cpu."
        )


def sampler_gpus(config: RunSections) -> tuple[int, ...] | None:
    """Return the GPUs of vLLM replicas in the training process; None: no replica uses a GPU."""
    gpus: list[int] = []
    has_replicas = False
    for policy in config.by_policy.values():
        if policy.sampler.name != VLLM:
            continue
        options: Mapping[str, Any] = policy.sampler.bind("samplers").options
        if options.get("device") == CUDA:
            has_replicas = True
            gpus += options.get("gpus") or [0]  # without numbers each takes the first GPU
    return tuple(dict.fromkeys(gpus)) if has_replicas else None


def _gpu_claims(config: RunSections) -> Iterator[GpuClaim]:
    scale = config.scale
    if uses_gpus(config):
        yield GpuClaim("learners", _model_gpus(config), "learner.gpus")
    vllm = sampler_gpus(config)
    if vllm is not None:
        yield GpuClaim("replicas of vLLM", vllm, "sampler.gpus")
    if scale.gpus:
        yield GpuClaim("workers", scale.gpus, "scale.gpus")
    elif scale.fleet == "processes" and (uses_gpus(config) or vllm is not None):
        # each worker sees all GPUs and uses those of the training process
        model_gpus = _model_gpus(config) if uses_gpus(config) else ()
        yield GpuClaim("workers", (*model_gpus, *(vllm or ())), "scale.gpus")


def _model_gpus(config: RunSections) -> tuple[int, ...]:
    gpus: set[int] = set()
    for policy in config.by_policy.values():
        device, _, suffix = policy.model.device.partition(":")
        if device == CUDA:
            gpus |= {int(suffix)} if suffix.isdecimal() else {*learner_gpus(config)}
    return tuple(sorted(gpus))


def _free_gpus(claim: GpuClaim, claims: list[GpuClaim]) -> str:
    """Return as many free GPU numbers as a claim has."""
    taken_gpus = {gpu for other in claims if other is not claim for gpu in other.gpus}
    free = (gpu for gpu in range(len(taken_gpus) + len(claim.gpus)) if gpu not in taken_gpus)
    return str([gpu for _, gpu in zip(claim.gpus, free, strict=False)]).replace(" ", "")


POLICY, LAST, AVERAGE = "policy", "last", "average"
PLAIN = (POLICY, LAST, AVERAGE)  # answers of a run other than mixtures
MIXTURE = "mixture"  # a player that draws other players
LIVE, EMA = "live weights", "EMA weights"  # the learner's weights and their moving average


def check_needs(config: RunSections, plugin: registry.Plugin) -> None:
    """Raise an error for a reward whose verdicts, playouts or references are missing."""
    if "playouts" in plugin.needs and not config.rollout.playouts:
        raise ConfigError(
            f"rewards: {plugin.name!r} needs playouts from every turn; write "
            "rollout.playouts: 4 (any number)."
        )
    unjudged = [
        game.known_as for game in config.environments if game.weight and game.oracle is None
    ]
    if "verdicts" in plugin.needs and unjudged:
        raise ConfigError(
            f"rewards: {plugin.name!r} needs an oracle for every game trained on, "
            f"and {unjudged[0]!r} has none; write oracle: {{name: minimax}} below the game, or "
            "another of `sparring list oracles`."
        )
    if "reference" not in plugin.needs:
        return
    solved = offering("environments", "solver", "def reference(")
    unsolved = [
        game.known_as
        for game in config.environments
        if game.weight and game.name not in solved and not _has_reference(game.name)
    ]
    if unsolved:
        raise ConfigError(
            f"rewards: {plugin.name!r} needs a reference solution of every game trained on, "
            f"and {unsolved[0]!r} has none; play {', '.join(solved)}, or use the reward "
            "best_action with an oracle."
        )


def check_answer(answer: str, config: RunSections) -> str:
    """Return the name of a run's answer, if it is valid.

    Args:
        answer: "policy", "last", "average", or a meta-solver with its options.
        config: of the run.

    Raises:
        UnknownNameError: there is no such answer.
        ConfigError: the meta-solver's options are wrong, or the run has no average.
    """
    name = answer.split()[0] if answer.split() else answer
    if answer == AVERAGE:
        for policy, decay in _decays(config).items():
            if not decay:
                key = f"policies.{policy}.learner.average" if config.policies else "learner.average"
                raise ConfigError(
                    f"The answer {AVERAGE!r} is the average of the weights, and this run keeps "
                    f"none; train it with {key}=0.99, or take the answer {POLICY!r}."
                )
    if answer in PLAIN:
        return answer
    if not registry.known("league.meta_solvers", name.partition(":")[0]):
        solvers = registry.names("league.meta_solvers")
        raise UnknownNameError("answer of a run", name, {*PLAIN, *solvers})
    PluginConfig.model_validate(answer).bind("league.meta_solvers")
    return answer


def measured_weights(
    config: RunSections, answer: str | None = None, policy: str | None = None
) -> str:
    """Return in words which weights of a run are measured, played and exported.

    Args:
        config: of the run.
        answer: see ``check_answer``; None: the configuration's.
        policy: the only measured policy, as published; None: all that answer.

    Returns:
        ``LIVE``, ``EMA``, or a longer text for several policies and for a mixture.
    """
    answer = config.league.answer if answer is None else answer
    if policy is None and answer not in PLAIN:
        return f"mixture of members by {answer}"
    decays = {} if policy is None and answer == LAST else _decays(config, policy)
    averaged = [name for name, decay in decays.items() if decay]
    live = [name for name, decay in decays.items() if not decay]
    if not averaged or not live:
        return EMA if averaged else LIVE
    return f"{EMA} of {', '.join(averaged)}, {LIVE} of {', '.join(live)}"


def _decays(config: RunSections, policy: str | None = None) -> dict[str, float]:
    """Return ``learner.average`` of each trained policy in the answer, or of one policy."""
    by_policy = config.by_policy
    names = [policy] if policy else [MAIN] if config.league.learners else list(by_policy)
    return {name: by_policy[name].learner.average for name in names if not config.is_frozen(name)}


def check_league(config: RunSections) -> None:
    """Bind the plug-ins of a league's learners, and check its answer."""
    league = config.league
    for name, learner in league.learners.items():
        try:
            for slot, plugin in (
                ("league.matchmakers", learner.matchmaker),
                ("league.schedules", learner.schedule),
            ):
                if plugin is not None:
                    plugin.bind(slot)
        except ConfigError as error:
            error.args = (f"league.learners.{name}: {error}",)
            raise
    check_answer(league.answer, config)


def check_bots(config: RunSections) -> None:
    """Bind the opponents and demonstrators of a run; raise an error for players at a terminal."""
    for name, agent in config.bots.items():
        _check_player(config, f"bots.{name}", agent, config.bots)
    for number, agent in enumerate(config.evaluation.opponents):
        _check_player(config, f"evaluation.opponents.{number}", agent, None)
    if config.warmup.player is not None:
        _check_player(config, "warmup.player", config.warmup.player, None)


def _check_player(
    config: RunSections, where: str, agent: PluginConfig, bots: Mapping[str, PluginConfig] | None
) -> None:
    """Raise an error for a player at a terminal, or a mixture of unknown players.

    ``bots`` are the run's bots; None: the mixture may name neither bots nor players of the run.
    """
    bound = agent.bind("players")
    _check_not_terminal(bound)
    if agent.name != MIXTURE:
        return
    mixture = bound()
    for text in mixture.run_players:
        player = ref(text)
        if bots is None:
            raise ConfigError(
                f"{where}: {text!r} is a player of the run, which evaluation cannot play; name "
                "the mixture in bots, or leave the player out."
            )
        if player.kind == "demonstrator":
            raise ConfigError(f"{where}: {text!r} is for the warm-up; write random.")
        if player.kind in OWN and player.name and player.name not in config.by_policy:
            raise UnknownNameError(f"policy in {where}", player.name, config.by_policy)
    for text in mixture.bots:
        member = bots[text].bind("players") if bots and text in bots else bound_agent(text)
        if member.plugin.name == MIXTURE:
            raise ConfigError(
                f"{where}: {text!r} is itself a mixture; write its players into this one."
            )
        _check_not_terminal(member)


def is_mixture_player(agent: PluginConfig) -> bool:
    """Return whether a player draws another player for each episode and team.

    Raises:
        SparringError: its options are wrong, or its folder cannot be read.
    """
    bound = agent.bind("players")
    is_mixture = bound.plugin.declarations.is_mixture
    return agent.name == MIXTURE or (is_mixture is not None and is_mixture(**bound.options))


def _check_not_terminal(player: registry.BoundPlugin) -> None:
    if "terminal" in player.needs:
        raise ConfigError(
            f"player {player.plugin.name!r} needs a person at a terminal, which a run does not "
            "have; play against it with `sparring play`."
        )


def check_losses(config: RunSections) -> None:
    """Raise an error if no loss trains the policy, or a loss fits a critic that credit ignores."""
    losses = [loss.bind("losses").plugin for loss in config.losses]
    if not any(loss.declarations.TRAINS for loss in losses):
        names = ", ".join(loss.name for loss in losses)
        raise ConfigError(
            f"losses: nothing trains the policy, as {names} cannot do so; add a line such as "
            "- {name: ppo_clip}."
        )
    if config.scale.lag and not any(loss.declarations.CORRECTS for loss in losses):
        raise MissingError(
            f"scale.lag={config.scale.lag}: episodes come from older weights, and no loss corrects "
            f"for that ({', '.join(loss.name for loss in losses)}); add to losses the line "
            "- {name: truncated_is}, or take ppo_clip."
        )
    fitting = [loss.name for loss in losses if "values" in loss.needs]
    credit = config.credit.bind("credit")
    if fitting and "critic" not in registry.required_services(credit):
        raise ConfigError(
            f"losses: {fitting[0]!r} fits a critic, and credit {config.credit.name!r} does "
            "not read it; leave the loss out, or write credit: {name: gae}."
        )
    check_requires(
        credit, [loss.name for loss in losses], [reward.name for reward in config.rewards]
    )


def check_sharding(config: RunSections) -> None:
    """Raise an error for sharding with adapters or a reward model."""
    setting = f"learner.sharding={config.learner.sharding}"
    instead = "leave learner.sharding at none"
    if config.learner.sharding == "none":
        return
    if config.model.lora is not None:
        raise ConfigError(
            f"{setting}: a model with adapters (model.lora) trains few weights, which cannot be "
            f"split; {instead}, or write model.lora: null."
        )
    if "process" in registry.required_services(config.credit.bind("credit")):
        raise ConfigError(
            f"{setting}: credit {config.credit.name!r} trains a reward model beside the policy, "
            f"which is not split; {instead}, or take another estimator."
        )


def check_playouts(config: RunSections) -> None:
    """Raise an error for an estimator that lacks playouts, or reads scaled rewards.

    Values are returns in the game's units, so the rewards that credit reads must have them too.
    """
    credit = config.credit.bind("credit")
    if "playouts" not in registry.required_services(credit):
        return
    if not config.rollout.playouts:
        raise MissingError(
            f"credit: {config.credit.name!r} reads playouts from every turn; write "
            "rollout.playouts: 4 (any number)."
        )
    scaled = next(
        (section.known_as for section in config.environments if section.scale != 1.0), None
    )
    if scaled is not None or config.outcome_weight != 1.0:
        where = f"the scale of {scaled!r}" if scaled is not None else "outcome_weight"
        raise ConfigError(
            f"credit: {config.credit.name!r} compares returns in the game's units with the "
            f"rewards of turns, and {where} changes these; leave it at 1."
        )


def _has_reference(game: str) -> bool:
    """Return whether a game has a solver that gives reference solutions."""
    solver = (
        load_part("environments", game, "solver") if registry.known("environments", game) else None
    )
    return solver is not None and hasattr(solver.module, "reference")
