"""Several policies in one run: their roles, training data, checkpoints, and refused configurations."""

import json
import shutil
from collections import Counter

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config import resolve, without_policy
from sparring.config.recipe import apply_overrides, to_yaml
from sparring.config.yaml_text import parse_yaml
from sparring.core.errors import CheckpointError, ConfigError, ModelError, UnknownNameError
from sparring.core.records import LEARNER, PUBLISHED, snapshot
from sparring.core.rng import Stream
from sparring.engine.exported_policy import export
from sparring.engine.local import LocalEngine
from sparring.engine.plan import describe, process_memory
from sparring.league.payoffs import Payoffs
from sparring.measure.exploitability import query_policy
from sparring.measure.info_states import enumerate_info_states
from sparring.measure.matches import play_matches
from sparring.models.samplers import in_process, prefix_cache
from sparring.play.players.random import RandomAgent
from sparring.play.spec import EpisodeSpec
from sparring.play.team import Team, play_teams
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round
from sparring.run.warmup import warm_up

SMALL_MODEL = {"hidden_size": 8, "layers": 1, "heads": 1}
ONE_POLICY = {
    "environments": [{"name": "signalling", "options": {"rounds": 0}, "illegal": {"rule": "random", "penalty": 0.1}}],
    "steps": 4,
    "threads": 1,
    "rollout": {"games_per_step": 16},
    "model": SMALL_MODEL,
    "learner": {"learning_rate": 0.01},
}
TWO_POLICIES = {
    **ONE_POLICY,
    "policies": {
        "leader": {"model": {"hidden_size": 16}},
        "helper": {"credit": {"name": "rae"}, "rollout": {"temperature": 0.5}},
    },
    "roles": {"sender": "leader", "receiver": "helper"},
}
FROZEN_HELPER = {**TWO_POLICIES, "policies": {"leader": None, "helper": {"frozen": True}}}


def make_engine(config, **changes):
    return LocalEngine(resolve({**config, **changes}))


def play_steps(engine, num_steps=1, state=None):
    state = state or RunState()
    for _ in range(num_steps):
        outcome = play_round(engine.config, engine, Methods.of(engine.config), state)
        state = outcome.state
    return outcome


def weights_vector(policy):
    return torch.cat([parameter.detach().flatten() for parameter in policy.model.network.parameters()])


def spec_of_episode(engine, *, seats=(LEARNER, LEARNER), trained=(True, True)):
    return EpisodeSpec(
        game=engine.environments[0][0],
        episode_id=0,
        group_id=0,
        deal=engine.root.child("d"),
        stream=engine.root.child("s"),
        seats=seats,
        trained=trained,
    )


def test_a_policy_overrides_sections_of_the_run():
    config = resolve(TWO_POLICIES)
    leader, helper = config.by_policy["leader"], config.by_policy["helper"]
    assert (leader.model.hidden_size, helper.model.hidden_size, leader.model.heads) == (16, 8, 1)
    assert (leader.credit.name, helper.credit.name) == ("mars", "rae")
    assert (leader.rollout.temperature, helper.rollout.temperature, helper.rollout.games_per_step) == (1.0, 0.5, 16)
    assert leader.learner.learning_rate == helper.learner.learning_rate == 0.01
    assert not leader.policies and list(config.by_policy) == ["leader", "helper"]
    assert list(resolve(ONE_POLICY).by_policy) == ["main"]


def test_the_resolved_configuration_of_policies_is_read_back_equal():
    config = resolve(TWO_POLICIES)
    parsed_config = parse_yaml(to_yaml(config), "x")
    assert resolve(parsed_config) == config
    assert resolve(apply_overrides(parsed_config, ["model.hidden_size=32"])).by_policy["helper"].model.hidden_size == 8
    assert (
        resolve({**TWO_POLICIES, "model": {**SMALL_MODEL, "hidden_size": 32}}).by_policy["helper"].model.hidden_size
        == 32
    )
    assert (
        "policies" not in resolve(ONE_POLICY).model_dump(mode="json")
        and "roles" not in resolve(ONE_POLICY).environments[0].model_dump()
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policies": {"leader": {"frozn": True}}}, r"key of policies.leader 'frozn'. Did you mean 'frozen'"),
        (
            {"policies": {"leader": {"rollout": {"games_per_step": 8}}}},
            "key of policies.leader.rollout 'games_per_step'",
        ),
        (
            {"policies": {"leader": {"credit": "mers"}}, "roles": {}},
            "policies.leader: Unknown advantage estimator 'mers'",
        ),
        (
            {"policies": {"leader": {"losses": [{"name": "value_loss"}]}}, "roles": {}},
            "policies.leader: losses:",
        ),
        ({"policies": {"a/b": {}}}, "'a/b' is not a file name"),
        ({"policies": 3}, "policies: Input should be a valid dictionary, got 3"),
        ({"policies": {"leader": {"frozen": True}}, "roles": {}}, "every policy is frozen"),
        (
            {"roles": {"sender": "leder"}},
            "gives the role 'sender' to 'leder', which is not a policy of this run; its policies are leader, helper",
        ),
        ({"policies": {}}, "its policies are none; write them below `policies`"),
    ],
)
def test_a_wrong_configuration_is_refused_with_one_line(changes, message):
    with pytest.raises(ConfigError, match=message) as error:
        resolve({**TWO_POLICIES, **changes})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        (
            {"sender": "leader"},
            r"the role 'receiver' of 'signalling' has no policy. Its roles are sender, receiver; write roles: \{receiver: leader\}",
        ),
        (
            {"sender": "leader", "receiver": "leader"},
            "policies.helper: the policy plays no role; write one of sender, receiver",
        ),
        (
            {"sender": "leader", "receiver": "helper", "recever": "helper"},
            "role in `roles` 'recever'. Did you mean 'receiver'",
        ),
    ],
)
def test_roles_and_policies_fit_each_other(roles, message):
    with pytest.raises(ConfigError, match=message):
        make_engine(TWO_POLICIES, roles=roles)


def test_an_environment_may_assign_its_own_roles():
    kuhn = {"name": "kuhn_poker", "roles": {"first": "helper", "second": "leader"}}
    engine = make_engine(
        TWO_POLICIES, environments=[{"name": "leduc_poker"}, kuhn], roles={"first": "leader", "second": "helper"}
    )
    assert [engine.seats(game) for game, _ in engine.environments] == [
        (("leader", True), ("helper", True)),
        (("helper", True), ("leader", True)),
    ]
    with pytest.raises(UnknownNameError, match="role in `roles` 'frst'"):
        make_engine(
            TWO_POLICIES,
            environments=[{"name": "kuhn_poker", "roles": {"frst": "leader"}}],
            roles={"first": "leader", "second": "helper"},
        )


@given(st.text(), st.sets(st.text(min_size=1)))
def test_the_policy_is_removed_from_a_metric_name(metric, policies):
    name = without_policy(metric, policies)
    assert metric.endswith(name)
    assert name == metric or (metric.removesuffix(name).removesuffix("/") in policies and name)


def test_each_policy_learns_only_from_turns_of_its_seats():
    engine = make_engine(TWO_POLICIES)
    weights_before = {name: weights_vector(policy) for name, policy in engine.policies.items()}
    episodes = engine.play([spec_of_episode(engine)]).episodes
    assert episodes[0].players == (LEARNER.for_policy("leader"), LEARNER.for_policy("helper")) and episodes[
        0
    ].trained == (True, True)
    batches = {name: engine.batch(episodes, progress=0.0, policy=name) for name in engine.learners}
    for seat, (name, batch) in enumerate(batches.items()):
        assert set(batch.turns.seat.tolist()) == {seat} and batch.policy == name
        assert batch.turns.agent_names == (f"learner-{name}",)
    credit = Methods.of(engine.config).credit["helper"](batches["helper"].turns, {}, progress=0.0)
    engine.learn(batches["helper"], credit, step=0, progress=0.0)
    assert torch.equal(weights_vector(engine.policies["leader"]), weights_before["leader"])
    assert not torch.equal(weights_vector(engine.policies["helper"]), weights_before["helper"])
    assert engine.policies["helper"].params.temperature == 0.5 and engine.policies["leader"].params.temperature == 1.0


def test_a_step_updates_all_policies_and_names_their_metrics():
    engine = make_engine(TWO_POLICIES)
    outcome = play_steps(engine, 2)
    assert {policy.model.version for policy in engine.policies.values()} == {2}
    assert {
        f"{name}/{key}" for name in TWO_POLICIES["policies"] for key in ("loss", "advantage_std", "gradient_norm")
    } < set(outcome.metrics)
    assert "loss" not in outcome.metrics and "return/signalling/sender" in outcome.metrics
    assert outcome.metrics["leader/logprob_difference_max"] < 1e-4 > outcome.metrics["helper/logprob_difference_max"]
    assert (
        outcome.state.json("credit-helper") and outcome.state.json("credit") == {}
    )  # the helper learns with rae, which stores running means; mars stores nothing


def test_one_named_policy_equals_a_run_without_names(saved):
    without_names, with_name = (
        make_engine(ONE_POLICY),
        make_engine({**ONE_POLICY, "policies": {"main": None}, "roles": {"sender": "main", "receiver": "main"}}),
    )
    outcomes = [play_steps(engine, 2) for engine in (without_names, with_name)]
    assert outcomes[0].metrics == outcomes[1].metrics
    assert outcomes[0].episodes == outcomes[1].episodes
    files = [saved(engine) for engine in (without_names, with_name)]
    assert json.loads(files[1].pop("engine.json"))["policies"]["main"] == json.loads(files[0].pop("engine.json"))
    assert files[0] == files[1]


def test_the_initial_weights_of_a_policy_do_not_depend_on_others():
    engine, other_engine = (
        make_engine(TWO_POLICIES),
        make_engine(
            TWO_POLICIES,
            policies={"helper": TWO_POLICIES["policies"]["helper"], "leader": {"model": {"hidden_size": 32}}},
        ),
    )
    assert torch.equal(weights_vector(engine.policies["helper"]), weights_vector(other_engine.policies["helper"]))
    engine_with_equal_models = make_engine(TWO_POLICIES, policies={"leader": None, "helper": None})
    assert not torch.equal(
        weights_vector(engine_with_equal_models.policies["leader"]),
        weights_vector(engine_with_equal_models.policies["helper"]),
    )


def test_a_frozen_policy_plays_and_never_changes(saved):
    engine = make_engine(FROZEN_HELPER, warmup={"updates": 1, "games": 4}, league={"every": 1})
    weights_before = weights_vector(engine.policies["helper"]).clone()
    warm_up(engine.config, engine)
    outcome = play_steps(engine, 2)
    assert torch.equal(weights_vector(engine.policies["helper"]), weights_before) and engine.learners == ("leader",)
    assert {episode.trained for episode in outcome.episodes} == {(True, False)}
    assert not any(name.startswith("helper/") for name in outcome.metrics)
    assert set(saved(engine)) == {"engine.json", "leader-model.safetensors", "leader-optimizer.safetensors"}
    with pytest.raises(ModelError, match="'helper' is frozen"):
        engine.policies["helper"].trained  # noqa: B018


def test_a_side_with_only_frozen_policies_is_not_trained():
    kuhn = {"environments": [{"name": "kuhn_poker"}], "roles": {"first": "leader", "second": "helper"}}
    engine = make_engine({**FROZEN_HELPER, **kuhn}, matchmaker={"name": "mixed", "past": 0.0, "bots": {"random": 1.0}})
    outcome = play_steps(engine)
    assert {(episode.agents, episode.trained) for episode in outcome.episodes} == {
        (("learner-leader", "bot-random"), (True, False))
    }


def test_a_snapshot_has_all_policies_and_is_dropped_with_all():
    engine = make_engine(TWO_POLICIES, league={"every": 1}, matchmaker={"name": "mixed", "past": 1.0})
    state = play_steps(engine).state
    engine.take_member(snapshot(1))
    outcome = play_steps(engine, 1, state)
    assert engine.members == (snapshot(1),)
    assert Counter(player for episode in outcome.episodes for player in episode.agents).keys() == {
        *("learner-leader", "learner-helper", "past-leader-000001", "past-helper-000001")
    }
    for episode in outcome.episodes:
        assert all(
            reference.for_policy("main") == LEARNER if is_trained else reference.kind == "snapshot"
            for reference, is_trained in zip(episode.players, episode.trained, strict=True)
        )
    engine.drop_member(snapshot(1))
    assert engine.members == () and not any(policy.past for policy in engine.policies.values())
    for name in ("past-000001", "past-leader-000001", "learner-nobody"):
        with pytest.raises(UnknownNameError, match=name):
            engine.agent(name)


def test_all_policies_of_a_run_are_one_player_in_the_payoff_book():
    engine = make_engine(TWO_POLICIES)
    episodes = engine.play([spec_of_episode(engine)]).episodes
    book = Payoffs().with_episodes(episodes, {"signalling": (0, 0)})
    assert {(row.player, row.opponent, row.seat) for row in book.rows} == {(LEARNER, LEARNER, 0), (LEARNER, LEARNER, 1)}


def test_a_player_without_a_policy_name_is_the_team_of_policies():
    engine = make_engine(TWO_POLICIES)
    game = engine.environments[0][0]
    team, agents = engine.agent(PUBLISHED), {name: engine.agent(PUBLISHED.for_policy(name)) for name in engine.policies}
    assert (
        isinstance(team, Team)
        and team.agent_of_seat(game, 0) is agents["leader"]
        and team.agent_of_seat(game, 1) is agents["helper"]
    )
    states = enumerate_info_states(game)
    rows = {name: query_policy(agent, states)[0] for name, agent in agents.items()}
    for index, (query, row) in enumerate(zip(states.queries, query_policy(team, states)[0], strict=True)):
        expected = rows["leader" if query.seat == 0 else "helper"][index]
        assert np.allclose(row, expected, atol=1e-6)
    episodes = play_teams(
        [spec_of_episode(engine, seats=("policy", "policy"), trained=(False, False))], {"policy": team}
    )
    assert episodes[0].agents == ("policy", "policy") and {turn.agent for turn in episodes[0].turns} == {"policy"}
    report = play_matches(game, team, RandomAgent("random"), games_per_seat=2, stream=Stream.from_seed(0))
    assert len(report.seats) == 2


def test_export_needs_a_policy_name_and_shows_the_prompt_of_its_seat(tmp_path):
    engine = make_engine(TWO_POLICIES)
    with pytest.raises(
        ConfigError, match="The run has the policies leader, helper; name the one to write, such as --policy leader"
    ):
        export(engine, tmp_path / "x", step=1)
    with pytest.raises(UnknownNameError, match=r"policy of this run 'helpr'. Did you mean 'helper'"):
        export(engine, tmp_path / "x", step=1, policy="helpr")
    for name, prompt in (("leader", "signalling sender"), ("helper", "signalling receiver")):
        export(engine, tmp_path / name, step=1, policy=name)
        assert prompt in (tmp_path / name / "README.md").read_text()
        model_config = json.loads((tmp_path / name / "config.json").read_text())
        assert model_config["n_embd"] == {"leader": 16, "helper": 8}[name]


def test_a_frozen_policy_may_be_an_exported_model_with_its_tokenizer(tmp_path, saved):
    exported_engine = make_engine(
        ONE_POLICY, environments=[{"name": "signalling", "options": {"rounds": 0, "types": 3, "signals": 3}}]
    )
    export(exported_engine, tmp_path / "model", step=1)
    config = {
        **TWO_POLICIES,
        "policies": {"leader": None, "helper": {"frozen": True, "model": {"name": str(tmp_path / "model")}}},
    }
    engine = make_engine(config)
    leader, helper = (engine.policies[name].model.tokenizer for name in ("leader", "helper"))
    assert len(leader) != len(helper)
    play_steps(engine)
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    engine.save(folder)
    make_engine(config).restore(folder)
    with torch.no_grad():
        next(exported_engine.model.network.parameters()).add_(0.1)
    export(exported_engine, tmp_path / "model", step=2)
    with pytest.raises(ModelError, match=r"is no longer the model that the run played with in"):
        make_engine(config).restore(folder)


def test_the_plan_counts_every_model():
    plan, plan_of_one = (describe(resolve(config)) for config in (TWO_POLICIES, ONE_POLICY))
    models = plan["model"]["policies"]
    assert models["helper"]["parameters"] == plan_of_one["model"]["parameters"] < models["leader"]["parameters"]
    assert plan["model"]["parameters"] == sum(model["parameters"] for model in models.values())
    assert plan["policies"]["helper"]["credit"] == "rae"
    parts_of_each = [
        process_memory(config)["training process"].parts for config in resolve(TWO_POLICIES).by_policy.values()
    ]
    parts_of_both = process_memory(resolve(TWO_POLICIES))["training process"].parts
    largest_part = max(parts["activations_and_logits"] for parts in parts_of_each)
    assert parts_of_both["activations_and_logits"] == largest_part > 0  # policies are updated in sequence
    assert parts_of_both["program"] == parts_of_each[0]["program"] and parts_of_both["weights"] == sum(
        parts["weights"] for parts in parts_of_each
    )
    frozen_plan = describe(resolve(FROZEN_HELPER))
    assert frozen_plan["model"]["policies"]["helper"]["frozen"] and "needs" in frozen_plan


def test_every_policy_is_saved_restored_and_continues_equal(tmp_path, saved):
    changes = {"learner": {"learning_rate": 0.01, "average": 0.9}, "league": {"every": 1}}
    engine, twin_engine = make_engine(TWO_POLICIES, **changes), make_engine(TWO_POLICIES, **changes)
    for each_engine in (engine, twin_engine):
        state = play_steps(each_engine, 2).state
        each_engine.take_member(snapshot(2))
    folder = tmp_path / "saved"
    folder.mkdir()
    engine.save(folder)
    restored_engine = make_engine(TWO_POLICIES, **changes)
    restored_engine.restore(folder)
    names = [
        f"{name}-{file_kind}.safetensors"
        for name in TWO_POLICIES["policies"]
        for file_kind in ("model", "optimizer", "average")
    ]
    assert set(saved(restored_engine)) == {
        "engine.json",
        *names,
        "past-leader-000002.safetensors",
        "past-helper-000002.safetensors",
    }
    assert saved(restored_engine) == saved(engine)
    for each_engine in (restored_engine, twin_engine):
        play_steps(each_engine, 1, state)
    assert saved(restored_engine) == saved(twin_engine)


def test_the_checkpoint_of_another_set_of_policies_is_refused(tmp_path):
    folder = tmp_path / "saved"
    folder.mkdir()
    make_engine(TWO_POLICIES).save(folder)
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        make_engine(ONE_POLICY).restore(folder)
    engine_data = json.loads((folder / "engine.json").read_text())
    engine_data["policies"]["helper"]["members"] = {"past-leader-000001": 1}
    (folder / "engine.json").write_text(json.dumps(engine_data))
    with pytest.raises(
        CheckpointError, match="names a snapshot 'past-leader-000001'; names must look like past-helper-000040"
    ):
        make_engine(TWO_POLICIES).restore(folder)


def test_a_policy_without_turns_is_not_updated():
    environments = [{"name": "signalling", "options": {"rounds": 0}, "illegal": {"rule": "forfeit"}}]
    engine = make_engine(
        {**TWO_POLICIES, "policies": {"leader": {"frozen": True}, "helper": None}}, environments=environments
    )
    weights_before = weights_vector(engine.policies["helper"]).clone()
    outcome = play_steps(engine)
    assert not outcome.episodes or {len(episode.turns) for episode in outcome.episodes} <= {1, 2}
    episodes_without_turns = [episode for episode in outcome.episodes if len(episode.turns) == 1]
    batch = engine.batch(episodes_without_turns, progress=0.0)
    credit = Methods.of(engine.config).credit["helper"](batch.turns, {}, progress=0.0)
    assert episodes_without_turns and not len(batch.turns.reward)
    weights_after = weights_vector(engine.policies["helper"]).clone()
    assert engine.learn(batch, credit, step=0, progress=0.0) == {} and torch.equal(
        weights_vector(engine.policies["helper"]), weights_after
    )
    assert len(weights_before) == len(weights_after)


def make_chat_engine(folder, **policies):
    return make_engine(
        {
            "environments": [
                {"name": "signalling", "options": {"rounds": 0, "style": "full"}, "illegal": {"rule": "random"}}
            ],
            "threads": 1,
            "rollout": {"games_per_step": 4, "max_new_tokens": 4},
            "renderer": {"name": "chat"},
            "model": {"name": str(folder), "lora": {"rank": 2}},
            "learner": {"learning_rate": 0.05},
            "policies": policies,
            "roles": dict(zip(("sender", "receiver"), policies, strict=True)),
        }
    )


def parameter_addresses(policy, *, is_trained):
    return {
        parameter.data_ptr() for parameter in policy.model.network.parameters() if parameter.requires_grad == is_trained
    }


@pytest.mark.parametrize(
    "helper_section", [{"model": {"lora": {"rank": 4}}}, {"frozen": True}, {"frozen": True, "model": {"lora": None}}]
)
def test_a_base_model_that_is_not_trained_is_in_memory_once(chat_folder, helper_section):
    engine = make_chat_engine(chat_folder, leader={}, helper=helper_section)
    leader, helper = engine.policies["leader"], engine.policies["helper"]
    base_addresses = parameter_addresses(leader, is_trained=False)
    assert base_addresses and base_addresses <= parameter_addresses(helper, is_trained=False)
    assert not parameter_addresses(leader, is_trained=True) & parameter_addresses(helper, is_trained=True)
    assert len(parameter_addresses(helper, is_trained=True)) == (
        0 if helper.frozen else len(parameter_addresses(leader, is_trained=True))
    )
    parameters_before = {
        name: [parameter.clone() for parameter in policy.model.network.parameters()]
        for name, policy in engine.policies.items()
    }
    play_steps(engine)
    for name, policy in engine.policies.items():
        for parameter_before, parameter in zip(parameters_before[name], policy.model.network.parameters(), strict=True):
            assert parameter.requires_grad or torch.equal(parameter_before, parameter)
    assert any(
        not torch.equal(parameter_before, parameter)
        for parameter_before, parameter in zip(
            parameters_before["leader"], leader.model.network.parameters(), strict=True
        )
    )


def test_fully_trained_models_share_no_memory(chat_folder):
    engine = make_chat_engine(chat_folder, leader={}, helper={"model": {"lora": None}})
    addresses_of_each = [
        parameter_addresses(policy, is_trained=True) | parameter_addresses(policy, is_trained=False)
        for policy in engine.policies.values()
    ]
    assert not addresses_of_each[0] & addresses_of_each[1]


def test_adapters_give_equal_replies_with_and_without_other_adapters(chat_folder):
    single_adapter, two_adapters = (
        make_chat_engine(chat_folder, main={}, helper={"frozen": True}),
        make_chat_engine(chat_folder, main={}, helper={}),
    )
    states = enumerate_info_states(single_adapter.environments[0][0])
    for engine in (single_adapter, two_adapters):
        assert parameter_addresses(engine.policies["main"], is_trained=False)
    rows = [
        [
            row
            for query, row in zip(states.queries, engine.agent(PUBLISHED).action_logprobs(states.queries), strict=True)
            if query.seat == 0
        ]
        for engine in (single_adapter, two_adapters)
    ]
    assert all(np.array_equal(single_row, other_row) for single_row, other_row in zip(*rows, strict=True))
    models = [engine.policies["main"].model.tensors() for engine in (single_adapter, two_adapters)]
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])


# League members that are adapters over one base model: their turns form one batch, with the same bytes as separate
# batches.
ADAPTER_MEMBERS = {
    "threads": 1,
    "environments": [{"name": "kuhn_poker", "options": {"style": "full"}, "illegal": {"rule": "random"}}],
    "model": {"lora": {"rank": 2}},
    "renderer": {"name": "chat"},
    "rollout": {"max_new_tokens": 4},
}


def make_engine_with_members(folder, *member_steps, **changes):
    config = {**ADAPTER_MEMBERS, **changes}
    engine = LocalEngine(resolve({**config, "model": {**config["model"], "name": str(folder)}}))
    for step in member_steps:
        engine.take_member(snapshot(step))
        with torch.no_grad():
            for index, weight in enumerate(engine.model.parameters()):
                weight.add_(0.01 * (1 + index % 3))
        engine.model.version += 1
    return engine


def specs_against(engine, players, num_episodes=12):
    game, root = engine.environments[0][0], Stream.from_seed(3)
    return [
        EpisodeSpec(game=game, episode_id=number, group_id=number, deal=root.child(number), stream=root.child("play").child(number), seats=(LEARNER, players[number % len(players)])[:: 1 - 2 * (number % 2)], trained=(True, False))
        for number in range(num_episodes)
    ]  # fmt: skip


def turns_of_episodes(outcome):
    return [episode.turns for episode in outcome.episodes]


@pytest.fixture
def joint_batch_sizes(monkeypatch):
    batch_sizes, original_join = [], prefix_cache.BaseWeights.join

    def join(self, members):
        batch_sizes.append(sorted(len(member.adapters) for member in members))
        return original_join(self, members)

    monkeypatch.setattr(prefix_cache.BaseWeights, "join", join)
    return batch_sizes


def test_joint_batches_give_the_bytes_of_single_members(chat_folder, joint_batch_sizes, monkeypatch):
    engine = make_engine_with_members(chat_folder, 1, 2, 3)
    players = [snapshot(1), snapshot(2), snapshot(3)]
    joint_replies = turns_of_episodes(engine.play(specs_against(engine, players)))
    assert max(map(len, joint_batch_sizes)) == 4, "the learner and three snapshots"
    assert len({turn.agent for turns in joint_replies for turn in turns}) == 4
    split_engine = make_engine_with_members(chat_folder, 1, 2, 3)
    few_specs = specs_against(split_engine, players)
    assert (
        turns_of_episodes(split_engine.play(few_specs[:5])) + turns_of_episodes(split_engine.play(few_specs[5:]))
        == joint_replies
    ), "replies do not depend on the other episodes of a batch"
    joint_batch_sizes.clear()
    monkeypatch.setattr(in_process, "member_of", lambda model: None)
    separate_engine = make_engine_with_members(chat_folder, 1, 2, 3)
    assert turns_of_episodes(separate_engine.play(specs_against(separate_engine, players))) == joint_replies
    assert not joint_batch_sizes


def test_policies_over_one_base_are_sampled_in_one_batch(chat_folder, joint_batch_sizes):
    policies = {"leader": {}, "base": {"frozen": True, "model": {"lora": None}}}
    engine = make_engine_with_members(chat_folder, 1, policies=policies, roles={"first": "leader", "second": "base"})
    engine.play(specs_against(engine, [snapshot(1).for_policy("leader"), LEARNER.for_policy("base")]))
    assert joint_batch_sizes and all(
        num_base_adapters == 0 < num_adapters for num_base_adapters, num_adapters in joint_batch_sizes
    ), "each batch has the base model without adapters and the leader or its snapshot"


def test_fully_trained_models_are_sampled_separately(chat_folder, joint_batch_sizes):
    engine = make_engine_with_members(chat_folder, 1, model={"lora": None})
    engine.play(specs_against(engine, [snapshot(1)], 4))
    assert not joint_batch_sizes


def make_frozen_engine(folder, **model):
    return LocalEngine(
        resolve(
            {
                "threads": 1,
                "environments": [{"name": "kuhn_poker", "options": {"style": "full"}}],
                "model": {"name": str(folder), **model},
                "renderer": {"name": "chat"},
                "rollout": {"max_new_tokens": 6},
            }
        )
    )


def test_a_changed_base_model_under_adapters_is_refused(chat_folder, tmp_path):
    first_engine = make_frozen_engine(chat_folder, lora={"rank": 2})
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    first_engine.save(folder)
    moved_folder = shutil.copytree(chat_folder, tmp_path / "moved")
    make_frozen_engine(moved_folder, lora={"rank": 2}).restore(folder)  # equal weights in a different folder
    weights = safetensors.torch.load_file(moved_folder / "model.safetensors")
    name = sorted(weights)[0]
    weights[name].view(-1)[-1] += 0.001
    safetensors.torch.save_file(weights, moved_folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        ModelError,
        match=r"is no longer the model that the adapters in .* were trained on: its frozen weights have SHA-256",
    ):
        make_frozen_engine(moved_folder, lora={"rank": 2}).restore(folder)


def test_a_model_without_adapters_has_no_digest(chat_folder, saved):
    engine = make_frozen_engine(chat_folder)
    assert engine.model.frozen_digest == ""
    assert b"base" not in saved(engine)["engine.json"]
