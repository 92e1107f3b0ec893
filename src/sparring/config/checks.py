"""Checks across sections of a configuration: what methods need, and which process has which GPU.

Two processes on one GPU could run out of its memory, so this is an error unless
``scale.share_gpus`` is true.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sparring.config.parts import PluginConfig, bound_agent, check_requires, named_components
from sparring.config.plugins import registry
from sparring.config.plugins.registry import load_part, names_with_line_in_part
from sparring.config.sections import RunSections
from sparring.core.errors import ConfigError, MissingError, UnknownNameError
from sparring.core.records import MAIN, POLICY_KINDS, ref

MAX_PROMPTS_AT_ONCE = 10**6  # prompts of all episodes that run at the same time


def check_candidates(config: RunSections) -> None:
    """Check that candidates are judged, and that credit has the candidates that it compares."""
    candidates, credit = config.rollout.candidates, config.credit.bind("credit")
    if candidates.count == 1:
        if "candidates" in registry.required_services(credit):
            raise MissingError(
                f"credit: {config.credit.name!r} compares the candidates of a prompt, but "
                "there is only one; write rollout.candidates.count: 4 (2 or more)."
            )
        return
    num_prompts = min(config.rollout.in_flight, config.rollout.games_per_step) * candidates.count
    if num_prompts > MAX_PROMPTS_AT_ONCE:
        raise ConfigError(
            f"rollout.candidates.count: {candidates.count} replies in each of "
            f"{num_prompts // candidates.count} episodes at once are {num_prompts} prompts, more "
            f"than {MAX_PROMPTS_AT_ONCE}; lower it, or rollout.in_flight."
        )
    games_without_oracle = [
        section.display_name
        for section in config.environments
        if section.weight and section.oracle is None
    ]
    if candidates.by == "oracle" and games_without_oracle:
        raise MissingError(
            "rollout.candidates.by: an oracle judges candidates, but "
            f"{games_without_oracle[0]!r} has none; write oracle: {{name: minimax}} below the "
            "environment, or another of `sparring list oracles`."
        )
    read_scopes = {
        reward.name: reward.bind("rewards").plugin.declarations.READS for reward in config.rewards
    }
    if "candidates" in registry.required_services(credit):
        for option, component in named_components(credit).items():
            if read_scopes.get(component, "turn") != "turn":
                raise ConfigError(
                    f"credit: {credit.plugin.name!r} compares candidates by {component!r} "
                    f"(its option {option}), which reads several turns and cannot score a reply "
                    "that was not played; name best_action or regret."
                )
    if config.knowledge is not None:
        return
    if candidates.by == "rewards" and "turn" not in read_scopes.values():
        raise MissingError(
            f"rollout.candidates.count is {candidates.count}, but no reward of the run judges a "
            "single turn; add to rewards a line such as - {name: best_action}, or write "
            "rollout.candidates.by: oracle."
        )


def check_knowledge(config: RunSections) -> None:
    """Check that a run with knowledge has candidates and no replay."""
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
            f"{config.replay.name!r} learns from older episodes; leave replay out."
        )


CONTINUES_EPISODES = "continues episodes after other episodes of the same step have ended"


def check_fresh(config: RunSections) -> None:
    """Check that a run with fresh order has no method that needs pinned order.

    Raises:
        ValueError: the configuration has such a method.
    """
    rollout = config.rollout
    excluded_settings = (
        ("rollout.plan", rollout.plan.name, "none", CONTINUES_EPISODES),
        ("rollout.playouts", rollout.playouts, 0, CONTINUES_EPISODES),
        ("rollout.refills", rollout.refills, 0, "replaces episodes by others of the same step"),
        ("replay", config.replay.name, "none", "learns from episodes older than scale.lag allows"),
        (
            "league.learners",
            ", ".join(config.league.learners),
            "{}",
            "assigns the episodes of each step to learners",
        ),
    )
    for key, value, default, reason in excluded_settings:
        if value and value != default:
            raise ValueError(
                f"{key}={value} {reason}, but with scale.order=fresh no episode belongs to a step; "
                f"write {key}: {default}, or scale.order: pinned"
            )


CUDA, VLLM = "cuda", "vllm"


class GpuClaim(NamedTuple):
    """The GPUs that a group of processes uses."""

    owner: str
    gpus: tuple[int, ...]
    key: str  # configuration key that sets the GPUs


def uses_gpus(config: RunSections) -> bool:
    """Return whether any model of the run is on a GPU."""
    return any(policy.model.device.startswith(CUDA) for policy in config.by_policy.values())


def learner_gpus(config: RunSections) -> tuple[int, ...]:
    """Return the GPU number of each learner rank, if models are on GPUs."""
    return config.learner.gpus or tuple(range(config.learner.ranks))


def training_device(config: RunSections) -> str:
    """Return the device of a policy's model in the training process.

    Args:
        config: a run's configuration with only this policy.
    """
    device, gpus = config.model.device, config.learner.gpus
    return f"{CUDA}:{gpus[0]}" if device == CUDA and gpus else device


def check_gpus(config: RunSections) -> None:
    """Check that all GPUs are used, none is missing, and no two groups of processes share one.

    Raises:
        ConfigError: a GPU is unused, missing or used twice.
    """
    _check_learner_gpus(config)
    _check_worker_gpus(config)
    if config.scale.share_gpus:
        return
    claims = list(_gpu_claims(config))
    for index, claim in enumerate(claims):
        for other_claim in claims[:index]:
            common_gpus = sorted({*claim.gpus} & {*other_claim.gpus})
            if common_gpus:
                raise ConfigError(
                    f"GPU {common_gpus[0]} is used twice, by {other_claim.owner} "
                    f"({other_claim.key}) and by {claim.owner} ({claim.key}); "
                    f"choose different GPUs, such as {claim.key}={_free_gpus(claim, claims)}, or "
                    "write scale.share_gpus: true, if both fit."
                )


def _check_learner_gpus(config: RunSections) -> None:
    gpus, ranks = config.learner.gpus, config.learner.ranks
    for name, policy in config.by_policy.items():
        device = policy.model.device
        key = f"policies.{name}.model.device" if config.policies else "model.device"
        if gpus and not device.startswith(CUDA):
            raise ConfigError(
                f"learner.gpus={list(gpus)}, but {key}={device}; write {key}: cuda (tiny models "
                "run on the CPU), or leave learner.gpus out."
            )
        if device.startswith(f"{CUDA}:") and (gpus or ranks > 1):
            suffix = device.partition(":")[2]
            first_gpu = int(suffix) if suffix.isdecimal() else 0
            raise ConfigError(
                f"{key}={device} is one GPU, but learner.ranks={ranks} need one GPU each, named by "
                f"learner.gpus; write {key}: cuda and learner.gpus: "
                f"{list(gpus) or list(range(first_gpu, first_gpu + ranks))}."
            )


def _check_worker_gpus(config: RunSections) -> None:
    scale, replica_gpus = config.scale, sampler_gpus(config)
    has_gpu_work = uses_gpus(config) or replica_gpus is not None
    if (scale.gpus or scale.gpus_per_worker) and not has_gpu_work:
        key = "gpus_per_worker" if scale.gpus_per_worker else "gpus"
        raise ConfigError(
            f"scale.{key} assigns GPUs to workers, but their models use none "
            f"(model.device={config.model.device}); write model.device: cuda (tiny models run on "
            f"the CPU), or leave scale.{key} out."
        )
    if scale.fleet == "ray" and has_gpu_work and scale.gpus_per_worker is None:
        key = "sampler.device" if replica_gpus is not None else "model.device"
        gpus = "" if scale.address else " and scale.gpus: [1, 2] (numbers of GPUs)"
        raise ConfigError(
            f"{key}=cuda, but Ray assigns no GPU to workers; write scale.gpus_per_worker: 1 (or a "
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
            gpus += options.get("gpus") or [0]  # without numbers, each replica takes the first GPU
    return tuple(dict.fromkeys(gpus)) if has_replicas else None


def _gpu_claims(config: RunSections) -> Iterator[GpuClaim]:
    scale = config.scale
    if uses_gpus(config):
        yield GpuClaim("learners", _model_gpus(config), "learner.gpus")
    replica_gpus = sampler_gpus(config)
    if replica_gpus is not None:
        yield GpuClaim("replicas of vLLM", replica_gpus, "sampler.gpus")
    if scale.gpus:
        yield GpuClaim("workers", scale.gpus, "scale.gpus")
    elif scale.fleet == "processes" and (uses_gpus(config) or replica_gpus is not None):
        # each worker sees all GPUs and uses those of the training process
        model_gpus = _model_gpus(config) if uses_gpus(config) else ()
        yield GpuClaim("workers", (*model_gpus, *(replica_gpus or ())), "scale.gpus")


def _model_gpus(config: RunSections) -> tuple[int, ...]:
    gpus: set[int] = set()
    for policy in config.by_policy.values():
        device, _, suffix = policy.model.device.partition(":")
        if device == CUDA:
            gpus |= {int(suffix)} if suffix.isdecimal() else {*learner_gpus(config)}
    return tuple(sorted(gpus))


def _free_gpus(claim: GpuClaim, claims: list[GpuClaim]) -> str:
    taken_gpus = {gpu for other in claims if other is not claim for gpu in other.gpus}
    free_gpus = (gpu for gpu in range(len(taken_gpus) + len(claim.gpus)) if gpu not in taken_gpus)
    return str([gpu for _, gpu in zip(claim.gpus, free_gpus, strict=False)]).replace(" ", "")


POLICY, LAST, AVERAGE = "policy", "last", "average"
NON_MIXTURE_ANSWERS = (POLICY, LAST, AVERAGE)  # answers of a run that are not mixtures
MIXTURE = "mixture"  # name of the player plug-in that draws other players
LIVE, EMA = "live weights", "EMA weights"  # the learner's weights and their moving average


def check_needs(config: RunSections, plugin: registry.Plugin) -> None:
    """Check that a run has the verdicts, playouts or reference solutions that a reward needs."""
    if "playouts" in plugin.needs and not config.rollout.playouts:
        raise ConfigError(
            f"rewards: {plugin.name!r} needs playouts from every turn; write "
            "rollout.playouts: 4 (any number)."
        )
    games_without_oracle = [
        game.display_name for game in config.environments if game.weight and game.oracle is None
    ]
    if "verdicts" in plugin.needs and games_without_oracle:
        raise ConfigError(
            f"rewards: {plugin.name!r} needs an oracle for every trained game, "
            f"but {games_without_oracle[0]!r} has none; write oracle: {{name: minimax}} below the "
            "game, or another of `sparring list oracles`."
        )
    if "reference" not in plugin.needs:
        return
    games_with_reference = names_with_line_in_part("environments", "solver", "def reference(")
    games_without_reference = [
        game.display_name
        for game in config.environments
        if game.weight and game.name not in games_with_reference and not _has_reference(game.name)
    ]
    if games_without_reference:
        raise ConfigError(
            f"rewards: {plugin.name!r} needs a reference solution of every trained game, "
            f"but {games_without_reference[0]!r} has none; play "
            f"{', '.join(games_with_reference)}, or use the reward best_action with an oracle."
        )


def check_answer(answer: str, config: RunSections) -> str:
    """Check the answer of a run (the policy that is measured and exported), and return it.

    Args:
        answer: "policy", "last", "average", or a meta-solver with its options.
        config: the run's configuration.

    Raises:
        UnknownNameError: there is no such answer.
        ConfigError: the meta-solver's options are wrong, or the run has no EMA weights.
    """
    solver_name = answer.split()[0] if answer.split() else answer
    if answer == AVERAGE:
        for policy, decay in _ema_decays(config).items():
            if not decay:
                key = f"policies.{policy}.learner.average" if config.policies else "learner.average"
                raise ConfigError(
                    f"The answer {AVERAGE!r} needs EMA weights, but this run has none; train it "
                    f"with {key}=0.99, or choose the answer {POLICY!r}."
                )
    if answer in NON_MIXTURE_ANSWERS:
        return answer
    if not registry.is_known("league.meta_solvers", solver_name.partition(":")[0]):
        solvers = registry.names("league.meta_solvers")
        raise UnknownNameError("answer of a run", solver_name, {*NON_MIXTURE_ANSWERS, *solvers})
    PluginConfig.model_validate(answer).bind("league.meta_solvers")
    return answer


def measured_weights(
    config: RunSections, answer: str | None = None, policy: str | None = None
) -> str:
    """Return the weights of a run that are measured, played and exported, in words.

    Args:
        config: the run's configuration.
        answer: see ``check_answer``; None: the answer of the configuration.
        policy: the only measured policy; None: all policies of the answer.

    Returns:
        ``LIVE``, ``EMA``, or a longer text for several policies and for a mixture.
    """
    answer = config.league.answer if answer is None else answer
    if policy is None and answer not in NON_MIXTURE_ANSWERS:
        return f"mixture of members by {answer}"
    decays = {} if policy is None and answer == LAST else _ema_decays(config, policy)
    ema_policies = [name for name, decay in decays.items() if decay]
    live_policies = [name for name, decay in decays.items() if not decay]
    if not ema_policies or not live_policies:
        return EMA if ema_policies else LIVE
    return f"{EMA} of {', '.join(ema_policies)}, {LIVE} of {', '.join(live_policies)}"


def _ema_decays(config: RunSections, policy: str | None = None) -> dict[str, float]:
    by_policy = config.by_policy
    names = [policy] if policy else [MAIN] if config.league.learners else list(by_policy)
    return {name: by_policy[name].learner.average for name in names if not config.is_frozen(name)}


def check_league(config: RunSections) -> None:
    """Check the plug-ins of a league's learners, and its answer."""
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
    """Check the bots, opponents and demonstrators of a run; none may need a terminal."""
    for name, agent in config.bots.items():
        _check_player(config, f"bots.{name}", agent, config.bots)
    for index, agent in enumerate(config.evaluation.opponents):
        _check_player(config, f"evaluation.opponents.{index}", agent, None)
    if config.warmup.player is not None:
        _check_player(config, "warmup.player", config.warmup.player, None)


def _check_player(
    config: RunSections, key: str, agent: PluginConfig, bots: Mapping[str, PluginConfig] | None
) -> None:
    """Check that a player needs no terminal, and that a mixture has only known players.

    ``bots`` are the run's bots; None: a mixture may not name bots and players of the run.
    """
    bound_player = agent.bind("players")
    _check_not_terminal(bound_player)
    if agent.name != MIXTURE:
        return
    mixture = bound_player()
    for text in mixture.run_players:
        player = ref(text)
        if bots is None:
            raise ConfigError(
                f"{key}: {text!r} is a player of the run, which evaluation cannot play; name "
                "the mixture in bots, or leave the player out."
            )
        if player.kind == "demonstrator":
            raise ConfigError(f"{key}: {text!r} is for the warm-up; write random.")
        if player.kind in POLICY_KINDS and player.name and player.name not in config.by_policy:
            raise UnknownNameError(f"policy in {key}", player.name, config.by_policy)
    for text in mixture.bots:
        member = bots[text].bind("players") if bots and text in bots else bound_agent(text)
        if member.plugin.name == MIXTURE:
            raise ConfigError(
                f"{key}: {text!r} is itself a mixture; write its players into this one."
            )
        _check_not_terminal(member)


def is_mixture_player(agent: PluginConfig) -> bool:
    """Return whether a player is a mixture, which draws another player per episode and team.

    Raises:
        SparringError: the player's options are wrong, or its folder cannot be read.
    """
    bound_player = agent.bind("players")
    is_mixture = bound_player.plugin.declarations.is_mixture
    return agent.name == MIXTURE or (is_mixture is not None and is_mixture(**bound_player.options))


def _check_not_terminal(player: registry.BoundPlugin) -> None:
    if "terminal" in player.needs:
        raise ConfigError(
            f"player {player.plugin.name!r} needs a person at a terminal, which a run does not "
            "have; play against it with `sparring play`."
        )


def check_losses(config: RunSections) -> None:
    """Check that the losses train the policy, and fit a critic only if credit uses it."""
    losses = [loss.bind("losses").plugin for loss in config.losses]
    if not any(loss.declarations.TRAINS for loss in losses):
        names = ", ".join(loss.name for loss in losses)
        raise ConfigError(
            f"losses: {names} cannot train the policy alone; add a line such as "
            "- {name: ppo_clip}."
        )
    if config.scale.lag and not any(loss.declarations.CORRECTS for loss in losses):
        raise MissingError(
            f"scale.lag={config.scale.lag}: episodes come from older weights, but no loss corrects "
            f"for that ({', '.join(loss.name for loss in losses)}); add to losses the line "
            "- {name: truncated_is}, or write ppo_clip."
        )
    critic_losses = [loss.name for loss in losses if "values" in loss.needs]
    credit = config.credit.bind("credit")
    if critic_losses and "critic" not in registry.required_services(credit):
        raise ConfigError(
            f"losses: {critic_losses[0]!r} fits a critic, but credit {config.credit.name!r} does "
            "not use it; leave the loss out, or write credit: {name: gae}."
        )
    check_requires(
        credit, [loss.name for loss in losses], [reward.name for reward in config.rewards]
    )


def check_sharding(config: RunSections) -> None:
    """Check that sharding is off for a model with adapters or a reward model."""
    setting = f"learner.sharding={config.learner.sharding}"
    advice = "leave learner.sharding at none"
    if config.learner.sharding == "none":
        return
    if config.model.lora is not None:
        raise ConfigError(
            f"{setting}: a model with adapters (model.lora) trains few weights, which cannot be "
            f"split; {advice}, or write model.lora: null."
        )
    if "process" in registry.required_services(config.credit.bind("credit")):
        raise ConfigError(
            f"{setting}: credit {config.credit.name!r} trains a reward model beside the policy, "
            f"which is not split; {advice}, or take another estimator."
        )


def check_playouts(config: RunSections) -> None:
    """Check that an estimator that needs playouts has them, and that rewards are not scaled.

    Playouts give returns in the game's units, so rewards must have the same units.
    """
    credit = config.credit.bind("credit")
    if "playouts" not in registry.required_services(credit):
        return
    if not config.rollout.playouts:
        raise MissingError(
            f"credit: {config.credit.name!r} needs playouts from every turn; write "
            "rollout.playouts: 4 (any number)."
        )
    scaled_game = next(
        (section.display_name for section in config.environments if section.scale != 1.0), None
    )
    if scaled_game is not None or config.outcome_weight != 1.0:
        key = f"the scale of {scaled_game!r}" if scaled_game is not None else "outcome_weight"
        raise ConfigError(
            f"credit: {config.credit.name!r} compares returns in the game's units with the "
            f"rewards of turns, but {key} scales the rewards; leave it at 1."
        )


def _has_reference(game: str) -> bool:
    solver = (
        load_part("environments", game, "solver")
        if registry.is_known("environments", game)
        else None
    )
    return solver is not None and hasattr(solver.module, "reference")
