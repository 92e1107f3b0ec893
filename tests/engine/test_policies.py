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

SMALL = {"hidden_size": 8, "layers": 1, "heads": 1}
BASE = {
    "environments": [{"name": "signalling", "options": {"rounds": 0}, "illegal": {"rule": "random", "penalty": 0.1}}],
    "steps": 4,
    "threads": 1,
    "rollout": {"games_per_step": 16},
    "model": SMALL,
    "learner": {"learning_rate": 0.01},
}
TWO = {
    **BASE,
    "policies": {
        "leader": {"model": {"hidden_size": 16}},
        "helper": {"credit": {"name": "rae"}, "rollout": {"temperature": 0.5}},
    },
    "roles": {"sender": "leader", "receiver": "helper"},
}
FROZEN = {**TWO, "policies": {"leader": None, "helper": {"frozen": True}}}


def engine(config, **changes):
    return LocalEngine(resolve({**config, **changes}))


def rounds(run, count=1, state=None):
    state = state or RunState()
    for _ in range(count):
        outcome = play_round(run.config, run, Methods.of(run.config), state)
        state = outcome.state
    return outcome


def weights(policy):
    return torch.cat([p.detach().flatten() for p in policy.model.network.parameters()])


def spec(run, *, seats=(LEARNER, LEARNER), trained=(True, True)):
    return EpisodeSpec(
        game=run.environments[0][0],
        episode_id=0,
        group_id=0,
        deal=run.root.child("d"),
        stream=run.root.child("s"),
        seats=seats,
        trained=trained,
    )


def test_a_policy_overrides_sections_of_the_run():
    config = resolve(TWO)
    leader, helper = config.by_policy["leader"], config.by_policy["helper"]
    assert (leader.model.hidden_size, helper.model.hidden_size, leader.model.heads) == (16, 8, 1)
    assert (leader.credit.name, helper.credit.name) == ("mars", "rae")
    assert (leader.rollout.temperature, helper.rollout.temperature, helper.rollout.games_per_step) == (1.0, 0.5, 16)
    assert leader.learner.learning_rate == helper.learner.learning_rate == 0.01
    assert not leader.policies and list(config.by_policy) == ["leader", "helper"]
    assert list(resolve(BASE).by_policy) == ["main"]


def test_the_resolved_configuration_of_policies_is_read_back_equal():
    config = resolve(TWO)
    restored = parse_yaml(to_yaml(config), "x")
    assert resolve(restored) == config
    assert resolve(apply_overrides(restored, ["model.hidden_size=32"])).by_policy["helper"].model.hidden_size == 8
    assert resolve({**TWO, "model": {**SMALL, "hidden_size": 32}}).by_policy["helper"].model.hidden_size == 32
    assert (
        "policies" not in resolve(BASE).model_dump(mode="json")
        and "roles" not in resolve(BASE).environments[0].model_dump()
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
        resolve({**TWO, **changes})
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
        engine(TWO, roles=roles)


def test_an_environment_may_assign_its_own_roles():
    kuhn = {"name": "kuhn_poker", "roles": {"first": "helper", "second": "leader"}}
    run = engine(TWO, environments=[{"name": "leduc_poker"}, kuhn], roles={"first": "leader", "second": "helper"})
    assert [run.seats(game) for game, _ in run.environments] == [
        (("leader", True), ("helper", True)),
        (("helper", True), ("leader", True)),
    ]
    with pytest.raises(UnknownNameError, match="role in `roles` 'frst'"):
        engine(
            TWO,
            environments=[{"name": "kuhn_poker", "roles": {"frst": "leader"}}],
            roles={"first": "leader", "second": "helper"},
        )


@given(st.text(), st.sets(st.text(min_size=1)))
def test_the_policy_is_removed_from_a_metric_name(metric, policies):
    name = without_policy(metric, policies)
    assert metric.endswith(name)
    assert name == metric or (metric.removesuffix(name).removesuffix("/") in policies and name)


def test_each_policy_learns_only_from_turns_of_its_seats():
    run = engine(TWO)
    weights_before = {name: weights(policy) for name, policy in run.policies.items()}
    episodes = run.play([spec(run)]).episodes
    assert episodes[0].players == (LEARNER.of("leader"), LEARNER.of("helper")) and episodes[0].trained == (True, True)
    batches = {name: run.batch(episodes, progress=0.0, policy=name) for name in run.learners}
    for seat, (name, batch) in enumerate(batches.items()):
        assert set(batch.turns.seat.tolist()) == {seat} and batch.policy == name
        assert batch.turns.agent_names == (f"learner-{name}",)
    credit = Methods.of(run.config).credit["helper"](batches["helper"].turns, {}, progress=0.0)
    run.learn(batches["helper"], credit, step=0, progress=0.0)
    assert torch.equal(weights(run.policies["leader"]), weights_before["leader"])
    assert not torch.equal(weights(run.policies["helper"]), weights_before["helper"])
    assert run.policies["helper"].params.temperature == 0.5 and run.policies["leader"].params.temperature == 1.0


def test_a_step_updates_all_policies_and_names_their_metrics():
    run = engine(TWO)
    outcome = rounds(run, 2)
    assert {policy.model.version for policy in run.policies.values()} == {2}
    assert {f"{name}/{key}" for name in TWO["policies"] for key in ("loss", "advantage_std", "gradient_norm")} < set(
        outcome.metrics
    )
    assert "loss" not in outcome.metrics and "return/signalling/sender" in outcome.metrics
    assert outcome.metrics["leader/logprob_difference_max"] < 1e-4 > outcome.metrics["helper/logprob_difference_max"]
    assert (
        outcome.state.json("credit-helper") and outcome.state.json("credit") == {}
    )  # rae has a running state, mars has none


def test_one_named_policy_equals_a_run_without_names(saved):
    without_names, with_name = (
        engine(BASE),
        engine({**BASE, "policies": {"main": None}, "roles": {"sender": "main", "receiver": "main"}}),
    )
    outcomes = [rounds(run, 2) for run in (without_names, with_name)]
    assert outcomes[0].metrics == outcomes[1].metrics
    assert outcomes[0].episodes == outcomes[1].episodes
    files = [saved(run) for run in (without_names, with_name)]
    assert json.loads(files[1].pop("engine.json"))["policies"]["main"] == json.loads(files[0].pop("engine.json"))
    assert files[0] == files[1]


def test_the_initial_weights_of_a_policy_do_not_depend_on_others():
    run, other_run = (
        engine(TWO),
        engine(TWO, policies={"helper": TWO["policies"]["helper"], "leader": {"model": {"hidden_size": 32}}}),
    )
    assert torch.equal(weights(run.policies["helper"]), weights(other_run.policies["helper"]))
    twins = engine(TWO, policies={"leader": None, "helper": None})
    assert not torch.equal(weights(twins.policies["leader"]), weights(twins.policies["helper"]))


def test_a_frozen_policy_plays_and_never_changes(saved):
    run = engine(FROZEN, warmup={"updates": 1, "games": 4}, league={"every": 1})
    weights_before = weights(run.policies["helper"]).clone()
    warm_up(run.config, run)
    outcome = rounds(run, 2)
    assert torch.equal(weights(run.policies["helper"]), weights_before) and run.learners == ("leader",)
    assert {episode.trained for episode in outcome.episodes} == {(True, False)}
    assert not any(name.startswith("helper/") for name in outcome.metrics)
    assert set(saved(run)) == {"engine.json", "leader-model.safetensors", "leader-optimizer.safetensors"}
    with pytest.raises(ModelError, match="'helper' is frozen"):
        run.policies["helper"].trained  # noqa: B018


def test_a_side_with_only_frozen_policies_is_not_trained():
    kuhn = {"environments": [{"name": "kuhn_poker"}], "roles": {"first": "leader", "second": "helper"}}
    run = engine({**FROZEN, **kuhn}, matchmaker={"name": "mixed", "past": 0.0, "bots": {"random": 1.0}})
    outcome = rounds(run)
    assert {(episode.agents, episode.trained) for episode in outcome.episodes} == {
        (("learner-leader", "bot-random"), (True, False))
    }


def test_a_snapshot_has_all_policies_and_is_dropped_with_all():
    run = engine(TWO, league={"every": 1}, matchmaker={"name": "mixed", "past": 1.0})
    state = rounds(run).state
    run.take_member(snapshot(1))
    outcome = rounds(run, 1, state)
    assert run.members == (snapshot(1),)
    assert Counter(player for e in outcome.episodes for player in e.agents).keys() == {
        *("learner-leader", "learner-helper", "past-leader-000001", "past-helper-000001")
    }
    for episode in outcome.episodes:
        assert all(
            who.of("main") == LEARNER if trained else who.kind == "snapshot"
            for who, trained in zip(episode.players, episode.trained, strict=True)
        )
    run.drop_member(snapshot(1))
    assert run.members == () and not any(policy.past for policy in run.policies.values())
    for name in ("past-000001", "past-leader-000001", "learner-nobody"):
        with pytest.raises(UnknownNameError, match=name):
            run.agent(name)


def test_all_policies_of_a_run_are_one_player_in_the_payoff_book():
    run = engine(TWO)
    episodes = run.play([spec(run)]).episodes
    book = Payoffs().after(episodes, {"signalling": (0, 0)})
    assert {(row.player, row.opponent, row.seat) for row in book.rows} == {(LEARNER, LEARNER, 0), (LEARNER, LEARNER, 1)}


def test_a_player_without_a_policy_name_is_the_team_of_policies():
    run = engine(TWO)
    game = run.environments[0][0]
    team, single_policies = run.agent(PUBLISHED), {name: run.agent(PUBLISHED.of(name)) for name in run.policies}
    assert (
        isinstance(team, Team)
        and team.agent_of_seat(game, 0) is single_policies["leader"]
        and team.agent_of_seat(game, 1) is single_policies["helper"]
    )
    states = enumerate_info_states(game)
    rows = {name: query_policy(agent, states)[0] for name, agent in single_policies.items()}
    for number, (query, row) in enumerate(zip(states.queries, query_policy(team, states)[0], strict=True)):
        expected = rows["leader" if query.seat == 0 else "helper"][number]
        assert np.allclose(row, expected, atol=1e-6)
    episodes = play_teams([spec(run, seats=("policy", "policy"), trained=(False, False))], {"policy": team})
    assert episodes[0].agents == ("policy", "policy") and {turn.agent for turn in episodes[0].turns} == {"policy"}
    report = play_matches(game, team, RandomAgent("random"), games_per_seat=2, stream=Stream.from_seed(0))
    assert len(report.seats) == 2


def test_export_needs_a_policy_name_and_shows_the_prompt_of_its_seat(tmp_path):
    run = engine(TWO)
    with pytest.raises(
        ConfigError, match="The run has the policies leader, helper; say which to write: --policy leader"
    ):
        export(run, tmp_path / "x", step=1)
    with pytest.raises(UnknownNameError, match=r"policy of this run 'helpr'. Did you mean 'helper'"):
        export(run, tmp_path / "x", step=1, policy="helpr")
    for name, words in (("leader", "signalling sender"), ("helper", "signalling receiver")):
        export(run, tmp_path / name, step=1, policy=name)
        assert words in (tmp_path / name / "README.md").read_text()
        sizes = json.loads((tmp_path / name / "config.json").read_text())
        assert sizes["n_embd"] == {"leader": 16, "helper": 8}[name]


def test_a_frozen_policy_may_be_an_exported_model_with_its_tokenizer(tmp_path, saved):
    first = engine(BASE, environments=[{"name": "signalling", "options": {"rounds": 0, "types": 3, "signals": 3}}])
    export(first, tmp_path / "model", step=1)
    config = {
        **TWO,
        "policies": {"leader": None, "helper": {"frozen": True, "model": {"name": str(tmp_path / "model")}}},
    }
    run = engine(config)
    leader, helper = (run.policies[name].model.tokenizer for name in ("leader", "helper"))
    assert len(leader) != len(helper)
    rounds(run)
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    run.save(folder)
    engine(config).restore(folder)
    with torch.no_grad():
        next(first.model.network.parameters()).add_(0.1)
    export(first, tmp_path / "model", step=2)
    with pytest.raises(ModelError, match=r"is no longer the model that the run played with in"):
        engine(config).restore(folder)


def test_the_plan_counts_every_model():
    plan, plan_of_one = (describe(resolve(config)) for config in (TWO, BASE))
    models = plan["model"]["policies"]
    assert models["helper"]["parameters"] == plan_of_one["model"]["parameters"] < models["leader"]["parameters"]
    assert plan["model"]["parameters"] == sum(model["parameters"] for model in models.values())
    assert plan["policies"]["helper"]["credit"] == "rae"
    parts_of_each = [process_memory(config)["training process"].parts for config in resolve(TWO).by_policy.values()]
    parts_of_both = process_memory(resolve(TWO))["training process"].parts
    largest = max(part["activations_and_logits"] for part in parts_of_each)
    assert parts_of_both["activations_and_logits"] == largest > 0  # policies are updated one after the other
    assert parts_of_both["program"] == parts_of_each[0]["program"] and parts_of_both["weights"] == sum(
        part["weights"] for part in parts_of_each
    )
    parts = describe(resolve(FROZEN))
    assert parts["model"]["policies"]["helper"]["frozen"] and "needs" in parts


def test_every_policy_is_saved_restored_and_continues_equal(tmp_path, saved):
    setting = {"learner": {"learning_rate": 0.01, "average": 0.9}, "league": {"every": 1}}
    run, twin = engine(TWO, **setting), engine(TWO, **setting)
    for each_run in (run, twin):
        state = rounds(each_run, 2).state
        each_run.take_member(snapshot(2))
    folder = tmp_path / "saved"
    folder.mkdir()
    run.save(folder)
    fresh = engine(TWO, **setting)
    fresh.restore(folder)
    names = [
        f"{name}-{file_kind}.safetensors" for name in TWO["policies"] for file_kind in ("model", "optimizer", "average")
    ]
    assert set(saved(fresh)) == {
        "engine.json",
        *names,
        "past-leader-000002.safetensors",
        "past-helper-000002.safetensors",
    }
    assert saved(fresh) == saved(run)
    for each_run in (fresh, twin):
        rounds(each_run, 1, state)
    assert saved(fresh) == saved(twin)


def test_the_checkpoint_of_another_set_of_policies_is_refused(tmp_path):
    folder = tmp_path / "saved"
    folder.mkdir()
    engine(TWO).save(folder)
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        engine(BASE).restore(folder)
    meta = json.loads((folder / "engine.json").read_text())
    meta["policies"]["helper"]["members"] = {"past-leader-000001": 1}
    (folder / "engine.json").write_text(json.dumps(meta))
    with pytest.raises(
        CheckpointError, match="names a snapshot 'past-leader-000001'; names must look like past-helper-000040"
    ):
        engine(TWO).restore(folder)


def test_a_policy_without_turns_is_not_updated():
    forfeit = [{"name": "signalling", "options": {"rounds": 0}, "illegal": {"rule": "forfeit"}}]
    run = engine({**TWO, "policies": {"leader": {"frozen": True}, "helper": None}}, environments=forfeit)
    weights_before = weights(run.policies["helper"]).clone()
    outcome = rounds(run)
    assert not outcome.episodes or {len(episode.turns) for episode in outcome.episodes} <= {1, 2}
    silent = [episode for episode in outcome.episodes if len(episode.turns) == 1]
    batch = run.batch(silent, progress=0.0)
    credit = Methods.of(run.config).credit["helper"](batch.turns, {}, progress=0.0)
    assert silent and not len(batch.turns.reward)
    weights_after = weights(run.policies["helper"]).clone()
    assert run.learn(batch, credit, step=0, progress=0.0) == {} and torch.equal(
        weights(run.policies["helper"]), weights_after
    )
    assert len(weights_before) == len(weights_after)


def chat(folder, **policies):
    return engine(
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


def addresses(policy, *, trained):
    return {p.data_ptr() for p in policy.model.network.parameters() if p.requires_grad == trained}


@pytest.mark.parametrize(
    "other", [{"model": {"lora": {"rank": 4}}}, {"frozen": True}, {"frozen": True, "model": {"lora": None}}]
)
def test_an_untrained_base_model_is_in_memory_once(chat_folder, other):
    run = chat(chat_folder, leader={}, helper=other)
    leader, helper = run.policies["leader"], run.policies["helper"]
    base_addresses = addresses(leader, trained=False)
    assert base_addresses and base_addresses <= addresses(helper, trained=False)
    assert not addresses(leader, trained=True) & addresses(helper, trained=True)
    assert len(addresses(helper, trained=True)) == (0 if helper.frozen else len(addresses(leader, trained=True)))
    parameters_before = {
        name: [p.clone() for p in policy.model.network.parameters()] for name, policy in run.policies.items()
    }
    rounds(run)
    for name, policy in run.policies.items():
        for parameter_before, parameter in zip(parameters_before[name], policy.model.network.parameters(), strict=True):
            assert parameter.requires_grad or torch.equal(parameter_before, parameter)
    assert any(
        not torch.equal(parameter_before, parameter)
        for parameter_before, parameter in zip(
            parameters_before["leader"], leader.model.network.parameters(), strict=True
        )
    )


def test_fully_trained_models_share_no_memory(chat_folder):
    run = chat(chat_folder, leader={}, helper={"model": {"lora": None}})
    addresses_of_each = [
        addresses(policy, trained=True) | addresses(policy, trained=False) for policy in run.policies.values()
    ]
    assert not addresses_of_each[0] & addresses_of_each[1]


def test_adapters_give_equal_replies_with_and_without_other_adapters(chat_folder):
    single_adapter, two_adapters = (
        chat(chat_folder, main={}, helper={"frozen": True}),
        chat(chat_folder, main={}, helper={}),
    )
    states = enumerate_info_states(single_adapter.environments[0][0])
    for run in (single_adapter, two_adapters):
        assert addresses(run.policies["main"], trained=False)
    rows = [
        [
            row
            for q, row in zip(states.queries, run.agent(PUBLISHED).action_logprobs(states.queries), strict=True)
            if q.seat == 0
        ]
        for run in (single_adapter, two_adapters)
    ]
    assert all(np.array_equal(a, b) for a, b in zip(*rows, strict=True))
    models = [run.policies["main"].model.tensors() for run in (single_adapter, two_adapters)]
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])


# league members that are adapters over one base model: their turns form one batch, with the same bytes as one by one
CONFIG = {
    "threads": 1,
    "environments": [{"name": "kuhn_poker", "options": {"style": "full"}, "illegal": {"rule": "random"}}],
    "model": {"lora": {"rank": 2}},
    "renderer": {"name": "chat"},
    "rollout": {"max_new_tokens": 4},
}


def engine_base(folder, *members, **changes):
    config = {**CONFIG, **changes}
    run = LocalEngine(resolve({**config, "model": {**config["model"], "name": str(folder)}}))
    for step in members:
        run.take_member(snapshot(step))
        with torch.no_grad():
            for number, weight in enumerate(run.model.parameters()):
                weight.add_(0.01 * (1 + number % 3))
        run.model.version += 1
    return run


def specs(run, players, count=12):
    game, root = run.environments[0][0], Stream.from_seed(3)
    return [
        EpisodeSpec(game=game, episode_id=n, group_id=n, deal=root.child(n), stream=root.child("play").child(n), seats=(LEARNER, players[n % len(players)])[:: 1 - 2 * (n % 2)], trained=(True, False))
        for n in range(count)
    ]  # fmt: skip


def replies(outcome):
    return [episode.turns for episode in outcome.episodes]


@pytest.fixture
def calls(monkeypatch):
    sizes, original_join = [], prefix_cache.BaseWeights.join

    def join(self, members):
        sizes.append(sorted(len(member.adapters) for member in members))
        return original_join(self, members)

    monkeypatch.setattr(prefix_cache.BaseWeights, "join", join)
    return sizes


def test_joint_batches_give_the_bytes_of_single_members(chat_folder, calls, monkeypatch):
    run = engine_base(chat_folder, 1, 2, 3)
    players = [snapshot(1), snapshot(2), snapshot(3)]
    joint_replies = replies(run.play(specs(run, players)))
    assert max(map(len, calls)) == 4, "the learner and three snapshots"
    assert len({turn.agent for turns in joint_replies for turn in turns}) == 4
    few_members = engine_base(chat_folder, 1, 2, 3)
    few_specs = specs(few_members, players)
    assert replies(few_members.play(few_specs[:5])) + replies(few_members.play(few_specs[5:])) == joint_replies, (
        "nor do they depend on who is beside"
    )
    calls.clear()
    monkeypatch.setattr(in_process, "member_of", lambda model: None)
    separate_engine = engine_base(chat_folder, 1, 2, 3)
    assert replies(separate_engine.play(specs(separate_engine, players))) == joint_replies
    assert not calls


def test_policies_over_one_base_are_sampled_in_one_batch(chat_folder, calls):
    policies = {"leader": {}, "base": {"frozen": True, "model": {"lora": None}}}
    run = engine_base(chat_folder, 1, policies=policies, roles={"first": "leader", "second": "base"})
    run.play(specs(run, [snapshot(1).of("leader"), LEARNER.of("base")]))
    assert calls and all(base == 0 < other for base, other in calls), (
        "the base itself, beside the leader or its snapshot"
    )


def test_fully_trained_models_are_sampled_separately(chat_folder, calls):
    run = engine_base(chat_folder, 1, model={"lora": None})
    run.play(specs(run, [snapshot(1)], 4))
    assert not calls


def engine_frozen(folder, **model):
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
    first_run = engine_frozen(chat_folder, lora={"rank": 2})
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    first_run.save(folder)
    moved_folder = shutil.copytree(chat_folder, tmp_path / "moved")
    engine_frozen(moved_folder, lora={"rank": 2}).restore(folder)  # the same weights in another folder
    weights = safetensors.torch.load_file(moved_folder / "model.safetensors")
    name = sorted(weights)[0]
    weights[name].view(-1)[-1] += 0.001
    safetensors.torch.save_file(weights, moved_folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        ModelError,
        match=r"is no longer the model that the adapters in .* were trained on: its frozen weights have SHA-256",
    ):
        engine_frozen(moved_folder, lora={"rank": 2}).restore(folder)


def test_a_model_without_adapters_has_no_digest(chat_folder, saved):
    full_model_run = engine_frozen(chat_folder)
    assert full_model_run.model.frozen_digest == ""
    assert b"base" not in saved(full_model_run)["engine.json"]
