"""Exported models and mixtures: their files, the model card, and the answer of a run."""

import stat

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from sparring.config import resolve
from sparring.config.checks import measured_weights
from sparring.core.errors import ConfigError, GameError, ModelError, UnknownNameError
from sparring.core.records import snapshot
from sparring.core.rng import Stream
from sparring.engine.exported_policy import CARD, export, export_mixture, first_prompt
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.league.payoffs import Payoffs, Results, RowKey
from sparring.measure.exact_figures import exact_figures_of
from sparring.measure.exploitability import evaluate_exploitability, query_policy, team_exploitability
from sparring.measure.info_states import (
    Query,
    TabularScorer,
    UniformScorer,
    enumerate_info_states,
    exact_values,
)
from sparring.play.players.exported import exported
from sparring.play.players.mixture import MemberMixture
from sparring.play.spec import EpisodeSpec
from sparring.play.team import play_teams
from sparring.run.evaluation import answer_of
from tests.hugging_face import hugging_face

BASE = {
    "environments": [{"name": "kuhn_poker"}],
    "threads": 1,
    "rollout": {"games_per_step": 16, "temperature": 0.8, "top_k": 5},
}


@pytest.fixture(scope="module")
def tiny_engine():
    return LocalEngine(resolve({**BASE, "model": {"hidden_size": 16, "layers": 1, "heads": 2}}))


@pytest.fixture(scope="module")
def engine_with_adapters(chat_folder):
    config = resolve({**BASE, "model": {"name": str(chat_folder), "lora": {"rank": 2}}, "renderer": {"name": "chat"}})
    engine = LocalEngine(config)
    for name, parameter in engine.model.network.named_parameters():
        if "lora_B" in name:
            parameter.data.fill_(0.1)
    return engine


def probabilities(model):
    with torch.no_grad():
        return model(torch.tensor([[1, 2, 3]])).logits.float().softmax(-1)


@pytest.mark.parametrize("dtype", [None, "float32", "bfloat16", "float16"])
def test_weights_are_exported_in_the_requested_dtype(tiny_engine, tmp_path, dtype):
    export(tiny_engine, tmp_path, step=3, dtype=dtype)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype="auto")
    assert model.dtype == getattr(torch, dtype or "float32")
    assert tiny_engine.model.network.dtype == torch.float32
    assert torch.allclose(
        probabilities(model),
        probabilities(hugging_face(tiny_engine.model.network)),
        atol=1e-2 if dtype in ("bfloat16", "float16") else 1e-7,
    )


def test_every_file_can_be_read_by_another_user(tiny_engine, tmp_path):
    export(tiny_engine, tmp_path / "new", step=3)
    files = [path for path in (tmp_path / "new").rglob("*") if path.is_file()]
    assert {"model.safetensors", "tokenizer.json", CARD} <= {path.name for path in files}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o644}


def test_the_prompt_in_the_card_is_that_of_training(tiny_engine, engine_with_adapters, tmp_path):
    for number, engine in enumerate((tiny_engine, engine_with_adapters)):
        folder = tmp_path / str(number)
        export(engine, folder, step=3)
        prompt = first_prompt(engine.policies["main"], engine.environments[0][0], [0, 1])
        assert all(f"    {line}" in (folder / CARD).read_text() for line in prompt.splitlines())
        ids = AutoTokenizer.from_pretrained(folder)(prompt, add_special_tokens=False)["input_ids"]
        state = engine.environments[0][0].reset(Stream.from_seed(0).child("card"))
        assert tuple(ids) == tuple(engine.policies["main"].renderer.initial(state.observe(0).text))


def test_the_card_states_the_context_strategy(tmp_path):
    config = {
        "environments": [{"name": "sokoban"}],
        "context": {"name": "markov"},
        "model": {"hidden_size": 8, "heads": 1},
    }
    engine = LocalEngine(resolve(config))
    export(engine, tmp_path, step=3)
    text = (tmp_path / CARD).read_text()
    assert "what Sparring's `context: {name: markov}` shows" in text and "in the same way" not in text
    state = engine.environments[0][0].reset(Stream.from_seed(0).child("card"))
    assert (
        first_prompt(engine.policies["main"], engine.environments[0][0], [0])
        == f"<begin> {state.observe(0).view} <ask>"
    )


def test_the_card_has_the_metadata_of_the_hub_and_the_figures(tiny_engine, engine_with_adapters, tmp_path):
    export(tiny_engine, tmp_path / "tiny", step=3, figures={"nash_conv/kuhn_poker": 0.12345})
    _, metadata, text = (tmp_path / "tiny" / CARD).read_text().split("---\n", 2)
    fields = yaml.safe_load(metadata)
    assert fields["library_name"] == "transformers" and fields["pipeline_tag"] == "text-generation"
    assert {"sparring", "self-play", tiny_engine.environments[0][0].name} <= {*fields["tags"]}
    assert "| `nash_conv/kuhn_poker` | 0.1235 |" in text and "3 steps" in text
    export(engine_with_adapters, tmp_path / "adapter", step=3, adapter=True)
    _, metadata, text = (tmp_path / "adapter" / CARD).read_text().split("---\n", 2)
    assert yaml.safe_load(metadata)["library_name"] == "peft" and "## Figures" not in text


def test_the_code_of_the_card_runs(tiny_engine, tmp_path, monkeypatch, capsys):
    export(tiny_engine, tmp_path / "model", step=3)
    monkeypatch.chdir(tmp_path)
    exec((tmp_path / "model" / CARD).read_text().split("```python\n")[1].split("```")[0], {})
    assert len(capsys.readouterr().out.split()) <= 2


def test_sampling_settings_are_those_of_training(tiny_engine, tmp_path):
    export(tiny_engine, tmp_path, step=3)
    generation = GenerationConfig.from_pretrained(tmp_path)
    assert (generation.do_sample, generation.temperature, generation.top_k, generation.max_new_tokens) == (
        True,
        0.8,
        5,
        2,
    )
    assert generation.eos_token_id == list(tiny_engine.policies["main"].renderer.stop_ids)


def test_exported_adapters_give_the_policy_on_the_base_model(engine_with_adapters, chat_folder, tmp_path):
    from peft import PeftModel

    export(engine_with_adapters, tmp_path / "adapter", step=3, adapter=True)
    export(engine_with_adapters, tmp_path / "merged", step=3)
    base_model = AutoModelForCausalLM.from_pretrained(chat_folder)
    base_probabilities = probabilities(base_model)
    with_adapter = probabilities(PeftModel.from_pretrained(base_model, tmp_path / "adapter").eval())
    merged = probabilities(AutoModelForCausalLM.from_pretrained(tmp_path / "merged"))
    assert torch.allclose(with_adapter, merged, atol=1e-6)
    assert not torch.allclose(with_adapter, base_probabilities, atol=1e-6)
    assert "PeftModel" in (tmp_path / "adapter" / CARD).read_text()
    assert not (tmp_path / "adapter" / "model.safetensors").exists()


def test_a_mixture_of_adapters_shares_their_base(engine_with_adapters, tmp_path):
    members = {snapshot(step): 0.5 for step in (1, 2)}
    for factor, member in enumerate(members, start=1):
        for name, parameter in engine_with_adapters.model.network.named_parameters():
            if "lora_B" in name:
                parameter.data.fill_(0.1 * factor)
        engine_with_adapters.take_member(member)
    mixture = MemberMixture(members, engine_with_adapters.agent)
    expected = [
        probabilities(engine_with_adapters.policies["main"].past[member.step].model.network) for member in members
    ]
    assert not torch.allclose(*expected, atol=1e-5)
    for adapter in (True, False):
        folder = tmp_path / str(adapter)
        export_mixture(engine_with_adapters, folder, mixture, step=2, answer="uniform", adapter=adapter)
        model = exported(folder=str(folder))
        agents = [model.agent(member_ref) for member_ref in model.members]
        for agent, member_probabilities in zip(agents, expected, strict=True):
            assert torch.allclose(probabilities(agent.sampler.model.network), member_probabilities, atol=1e-6)
        bases = [
            next(parameter for name, parameter in agent.sampler.model.network.named_parameters() if "embed" in name)
            for agent in agents
        ]
        assert (bases[0].data_ptr() == bases[1].data_ptr()) == adapter
        assert (folder / "past-000001" / "model.safetensors").exists() != adapter
    adapter_file = tmp_path / "True" / "past-000001" / "adapter_model.safetensors"
    tensors = load_file(adapter_file)
    save_file({name: tensor[:1] for name, tensor in tensors.items()}, adapter_file)
    with pytest.raises(ModelError, match="adapters of another model"):
        exported(folder=str(adapter_file.parent))
    adapter_file.write_bytes(b"?")
    with pytest.raises(ModelError, match="cannot be read"):
        exported(folder=str(adapter_file.parent))
    adapter_file.unlink()
    with pytest.raises(ModelError, match=r"has no adapter_model.safetensors; export the run again"):
        exported(folder=str(adapter_file.parent))


def test_export_of_several_policies_needs_a_name(tmp_path):
    model_options = {"hidden_size": 8, "layers": 1, "heads": 1}
    config = {
        **BASE,
        "policies": {"leader": {"model": model_options}, "helper": {"model": {**model_options, "hidden_size": 16}}},
        "roles": {"first": "leader", "second": "helper"},
    }
    engine = LocalEngine(resolve(config))
    engine.take_member(snapshot(1))
    mixture = MemberMixture({snapshot(1): 1.0}, engine.agent)
    with pytest.raises(ConfigError, match="--policy leader"):
        export_mixture(engine, tmp_path / "none", mixture, step=1, answer="nash")
    export_mixture(engine, tmp_path / "one", mixture, step=1, answer="nash", policy="helper")
    exported_model = exported(folder=str(tmp_path / "one"))
    assert exported_model.agent(*exported_model.members).sampler.model.width == 16
    with pytest.raises(UnknownNameError, match="snapshot of this run"):
        export(engine, tmp_path / "two", step=1, policy="helper", member=snapshot(7))


def test_members_of_several_learners_are_exported_with_their_models(tmp_path):
    league = {"every": 1, "learners": {"main": {}, "counter": {}}}
    engine = LocalEngine(resolve({**BASE, "league": league}))
    members = [snapshot(1), snapshot(1, "counter")]
    for member in members:
        engine.take_member(member)
    for index, name in enumerate(engine.learners):
        engine.policies[name].past[1].model.network.lm_head.weight.data.fill_(0.1 * (1 + index))
    mixture = MemberMixture(dict.fromkeys(members, 0.5), engine.agent)
    export_mixture(engine, tmp_path / "all", mixture, step=1, answer="nash")
    model = exported(folder=str(tmp_path / "all"))
    heads = [model.agent(member_ref).sampler.model.network.lm_head.weight for member_ref in model.members]
    assert [float(head.flatten()[0]) for head in heads] == pytest.approx([0.1, 0.2])
    with pytest.raises(ConfigError, match="past-counter-000001 is a snapshot of counter; leave --policy out"):
        export_mixture(engine, tmp_path / "one", mixture, step=1, answer="nash", policy="main")


def test_a_side_of_several_policies_is_refused_with_their_names(tmp_path):
    config = {
        **BASE,
        "environments": [{"name": "team_matrix", "options": {"members": 2}}],
        "policies": {"left": {}, "right": {}},
    }
    roles = {"a1": "left", "a2": "right", "b1": "left", "b2": "left"}
    engine = LocalEngine(resolve({**config, "roles": roles}))
    engine.take_member(snapshot(1))
    pair_of_mixtures = MemberMixture({snapshot(1): 1.0}, engine.agent, second={snapshot(1): 1.0})
    with pytest.raises(ConfigError, match=r"The first side has several policies: left, right.*--policy left"):
        export_mixture(engine, tmp_path / "none", pair_of_mixtures, step=1, answer="nash")
    export_mixture(engine, tmp_path / "one", pair_of_mixtures, step=1, answer="nash", policy="right")
    assert (tmp_path / "one" / "past-000001").is_dir()


def test_exporting_adapters_of_a_full_model_is_refused(tiny_engine, tmp_path):
    with pytest.raises(ModelError, match="has no adapters"):
        export(tiny_engine, tmp_path, step=3, adapter=True)


# the answer of a run: its policy, its last weights, or a mixture of the league's members
GAME = make_game("kuhn_poker")
STATES = enumerate_info_states(GAME)
MEMBERS = [snapshot(step) for step in (1, 2, 3)]
BASE_ANSWER = {
    "name": "answers",
    "steps": 2,
    "threads": 1,
    "environments": [{"name": "kuhn_poker"}],
    "rollout": {"games_per_step": 8},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "league": {"every": 1, "plays": 4},
    "learner": {"average": 0.9},
    "warmup": {"updates": 0},
}


def random_tables(states, count):
    rows = st.lists(st.floats(0.0, 1.0), min_size=len(states), max_size=len(states))
    return st.lists(rows, min_size=count, max_size=count)


def tabular_scorer(states, rows, legal=1.0):
    rows_by_state = {}
    for query, share in zip(states.queries, rows, strict=True):
        rows_by_state[query.seat, query.key] = dict(
            zip(query.legal_actions, (legal * share, legal * (1 - share)), strict=True)
        )
    return TabularScorer(rows_by_state)


def expected_return(first_policy, second_policy):
    """Return the exact expected return of seat 0 with the first policy against the second."""
    first_probabilities, second_probabilities = (
        query_policy(first_policy, STATES)[0],
        query_policy(second_policy, STATES)[0],
    )
    joint = [
        first_probabilities[n] if query.seat == 0 else second_probabilities[n] for n, query in enumerate(STATES.queries)
    ]
    return exact_values(STATES, joint).returns[0]


@settings(deadline=None, max_examples=40)
@given(random_tables(STATES, 4), st.lists(st.floats(0.05, 1.0), min_size=3, max_size=3))
def test_the_combined_policy_has_the_return_of_the_mixture(rows, weights):
    scorers = [tabular_scorer(STATES, row) for row in rows]
    shares = np.array(weights) / sum(weights)
    mixture = MemberMixture(
        dict(zip(MEMBERS, shares.tolist(), strict=True)), dict(zip(MEMBERS, scorers[:3], strict=True)).get
    )
    mean = sum(share * expected_return(scorer, scorers[3]) for share, scorer in zip(shares, scorers, strict=False))
    assert expected_return(mixture, scorers[3]) == pytest.approx(mean, abs=1e-9)
    mean = sum(share * expected_return(scorers[3], scorer) for share, scorer in zip(shares, scorers, strict=False))
    assert expected_return(scorers[3], mixture) == pytest.approx(mean, abs=1e-9)


def test_the_combined_policy_by_hand():
    """In seat 0 one member always passes and the other bets, so after pass and bet only the passing member is possible."""
    calls, folds = [0.0] * len(STATES), [1.0] * len(STATES)
    first_member, second_member = (
        tabular_scorer(STATES, folds),
        tabular_scorer(STATES, calls),
    )  # the first action of each state is pass
    mixture = MemberMixture(
        {MEMBERS[0]: 0.25, MEMBERS[1]: 0.75}, {MEMBERS[0]: first_member, MEMBERS[1]: second_member}.get
    )
    for query, row in zip(STATES.queries, mixture.action_logprobs(STATES.queries), strict=True):
        is_later_state = bool(query.actions)
        assert np.exp(row) == pytest.approx([1, 0] if is_later_state else [0.25, 0.75])


def test_a_mixture_of_equal_members_equals_the_member():
    mixture = MemberMixture({MEMBERS[0]: 1.0, MEMBERS[1]: 0.0}, lambda _: UniformScorer())
    assert list(mixture.shares()) == MEMBERS[:1]
    mixture_of_equals = MemberMixture({MEMBERS[0]: 0.3, MEMBERS[1]: 0.7}, lambda _: UniformScorer())
    expected_nash_conv = evaluate_exploitability(GAME, STATES, UniformScorer()).nash_conv
    for agent in (mixture, mixture_of_equals):
        assert evaluate_exploitability(GAME, STATES, agent).nash_conv == pytest.approx(expected_nash_conv)


def test_teams_that_share_a_draw_have_no_exact_figures_of_a_mixture():
    game = make_game("team_matrix", options={"members": 2})
    states = enumerate_info_states(game)
    mixture = MemberMixture({MEMBERS[0]: 0.5, MEMBERS[1]: 0.5}, lambda _: UniformScorer())
    with pytest.raises(GameError, match="share its draw"):
        evaluate_exploitability(game, states, mixture)
    assert evaluate_exploitability(game, states, UniformScorer()).teams is not None


def test_an_unreachable_state_uses_the_mixture_weights():
    passes = tabular_scorer(STATES, [1.0] * len(STATES))
    mixture = MemberMixture({MEMBERS[0]: 0.5, MEMBERS[1]: 0.5}, lambda _: passes)
    assert all(np.isfinite(row).any() and not np.isnan(row).any() for row in mixture.action_logprobs(STATES.queries))


def engine_with_members(config):
    engine = LocalEngine(resolve(config))
    for member in MEMBERS:
        engine.take_member(member)
    return engine


@pytest.fixture(scope="module")
def engine():
    return engine_with_members(BASE_ANSWER)


def cyclic_payoff_book():
    rows = {}
    for row, member in enumerate(MEMBERS):
        for column, opponent in enumerate(MEMBERS):
            if row != column:
                sign = 1 if (row - column) % 3 == 1 else -1  # a cycle
                rows[RowKey("kuhn_poker", 0, member, opponent)] = Results(
                    games=10, wins=5 + 5 * sign, losses=5 - 5 * sign, returns=10.0 * sign
                )
    return Payoffs(rows)


def test_the_named_answers(engine):
    assert (
        answer_of(engine, cyclic_payoff_book(), "policy").name == "policy"
        and answer_of(engine, cyclic_payoff_book(), "last").name == "learner"
    )
    assert list(answer_of(engine, cyclic_payoff_book(), "nash").members.values()) == pytest.approx([1 / 3] * 3)
    assert list(answer_of(engine, cyclic_payoff_book(), "uniform").members) == MEMBERS
    assert list(answer_of(engine, cyclic_payoff_book(), "delta_uniform delta=0.99").members) == MEMBERS[-1:]
    assert answer_of(LocalEngine(resolve(BASE_ANSWER)), Payoffs(), "nash").name == "policy"  # without league members


def test_the_description_names_the_measured_weights():
    describe = measured_weights
    assert describe(resolve(BASE_ANSWER)) == describe(resolve(BASE_ANSWER), "average") == "EMA weights"
    assert describe(resolve(BASE_ANSWER), "last") == describe(resolve({**BASE_ANSWER, "learner": {}})) == "live weights"
    assert describe(resolve({**BASE_ANSWER, "league": {"every": 1, "answer": "nash"}})) == "mixture of members by nash"
    policies = {"leader": {"learner": {"average": 0.9}}, "helper": {"learner": {"average": 0.0}}}
    two_policies = resolve({**BASE_ANSWER, "policies": policies, "roles": {"first": "leader", "second": "helper"}})
    assert describe(two_policies) == "EMA weights of leader, live weights of helper"
    assert (
        describe(two_policies, policy="leader") == "EMA weights"
        and describe(two_policies, policy="helper") == "live weights"
    )
    config_with_frozen_weights = resolve(
        {
            **BASE_ANSWER,
            "policies": {"leader": {}, "helper": {"frozen": True}},
            "roles": {"first": "leader", "second": "helper"},
        }
    )
    assert (
        describe(config_with_frozen_weights) == "EMA weights"
        and describe(config_with_frozen_weights, policy="helper") == "live weights"
    )


def test_the_answer_average_needs_ema_weights(engine):
    assert (
        answer_of(engine, cyclic_payoff_book(), "average")
        is answer_of(engine, cyclic_payoff_book(), "policy")
        is not answer_of(engine, cyclic_payoff_book(), "last")
    )
    assert resolve({**BASE_ANSWER, "league": {"every": 1, "answer": "average"}}).league.answer == "average"
    with pytest.raises(ConfigError, match=r"this run has none; train it with learner\.average=0\.99, or"):
        resolve({**BASE_ANSWER, "learner": {}, "league": {"every": 1, "answer": "average"}})
    two_policies = {
        "policies": {"leader": {"learner": {"average": 0.9}}, "helper": {"learner": {"average": 0.0}}},
        "roles": {"first": "leader", "second": "helper"},
    }
    with pytest.raises(ConfigError, match=r"policies\.helper\.learner\.average=0\.99"):
        resolve({**BASE_ANSWER, **two_policies, "league": {"every": 1, "answer": "average"}})
    two_policies["policies"]["helper"] = {"frozen": True}
    assert resolve({**BASE_ANSWER, **two_policies, "league": {"every": 1, "answer": "average"}})


def test_a_mixture_notes_pairs_without_games(engine):
    assert answer_of(engine, cyclic_payoff_book(), "nash").notes == ()
    (note,) = answer_of(engine, Payoffs(), "nash").notes
    assert (
        note.startswith("3 of 3 pairs of members have never met")
        and answer_of(engine, Payoffs(), "uniform").notes == ()
    )


def test_each_episode_and_team_draws_a_member(engine):
    members = [
        member for seats in draw_members(GAME, answer_of(engine, cyclic_payoff_book(), "nash"), 60) for member in seats
    ]
    counts = [members.count(member) for member in MEMBERS]
    assert min(counts) > 20 and sum(counts) == 120


@pytest.mark.parametrize("answer", ["nahs", "", "delta_uniform alpha=1"])
def test_an_unknown_answer_is_refused(answer):
    with pytest.raises((UnknownNameError, ConfigError)):
        resolve({**BASE_ANSWER, "league": {**BASE_ANSWER["league"], "answer": answer}})


TEAM_GAME = make_game("team_matrix", options={"game": "rock_paper_scissors", "members": 2})
TEAM_STATES = enumerate_info_states(TEAM_GAME)
KUHN_OF_THREE = make_game("kuhn_poker", options={"players": 3})


def mixture_of_sides(scorers, first_weights, second_weights):
    members = MEMBERS[: len(scorers)]
    sides = [dict(zip(members, weights, strict=True)) for weights in (first_weights, second_weights)]
    return MemberMixture(sides[0], dict(zip(members, scorers, strict=True)).get, second=sides[1])


def equilibrium_scorer(calls, bluffs_and_calls):
    """Return an equilibrium of Kuhn poker with these probabilities: seat 0 calls with Q, seat 1 calls and bluffs."""
    bets = {  # probability to bet or call, by card and earlier actions
        "0": 0, "1": 0, "2": 0, "0pb": 0, "1pb": calls, "2pb": 1,
        "0p": bluffs_and_calls, "1p": 0, "2p": 1, "0b": 0, "1b": bluffs_and_calls, "2b": 1,
    }  # fmt: skip
    return tabular_scorer(STATES, [1 - bets[query.key] for query in STATES.queries])


def test_the_equilibrium_of_kuhn_poker_is_a_mixture_for_each_side():
    """In equilibrium seat 0 calls with Q with probability 1/3 and seat 1 bluffs and calls with 1/3; each is 1/3 of one member."""
    members = [equilibrium_scorer(1, 0), equilibrium_scorer(0, 1)]
    report = evaluate_exploitability(GAME, STATES, mixture_of_sides(members, [1 / 3, 2 / 3], [2 / 3, 1 / 3]))
    assert report.nash_conv == pytest.approx(0, abs=1e-12) and report.values == pytest.approx((-1 / 18, 1 / 18))
    for weights in ([1 / 3, 2 / 3], [2 / 3, 1 / 3]):  # the same mixture for both sides is no equilibrium
        assert evaluate_exploitability(GAME, STATES, mixture_of_sides(members, weights, weights)).nash_conv > 0.05
    report_of_swapped_sides = evaluate_exploitability(
        GAME, STATES, mixture_of_sides(members, [2 / 3, 1 / 3], [1 / 3, 2 / 3])
    )
    assert report_of_swapped_sides.nash_conv > 0.05


SHARES = st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3).filter(lambda shares: sum(shares) > 0.1)


@settings(max_examples=20)
@given(random_tables(STATES, 3), SHARES, SHARES)
def test_a_pair_of_mixtures_equals_the_mixture_of_each_side(rows, weights_of_side_0, weights_of_side_1):
    members = [tabular_scorer(STATES, row) for row in rows]
    weights_of_side_0, weights_of_side_1 = (
        [share / sum(weights) for share in weights] for weights in (weights_of_side_0, weights_of_side_1)
    )
    single_mixtures = [
        query_policy(mixture_of_sides(members, weights, weights), STATES)[0]
        for weights in (weights_of_side_0, weights_of_side_1)
    ]
    table = {
        (query.seat, query.key): dict(zip(query.legal_actions, single_mixtures[query.seat][n], strict=True))
        for n, query in enumerate(STATES.queries)
    }
    report_of_pair = evaluate_exploitability(
        GAME, STATES, mixture_of_sides(members, weights_of_side_0, weights_of_side_1)
    )
    report_of_table = evaluate_exploitability(GAME, STATES, TabularScorer(table))
    assert report_of_pair.gains == pytest.approx(
        report_of_table.gains, abs=1e-9
    ) and report_of_pair.values == pytest.approx(report_of_table.values, abs=1e-9)


@settings(max_examples=20)
@given(random_tables(STATES, 3), random_tables(TEAM_STATES, 3), SHARES)
def test_a_pair_with_equal_weights_equals_one_mixture_bit_for_bit(rows, team_rows, shares):
    weights = [share / sum(shares) for share in shares]
    for game, states, policy_rows in ((GAME, STATES, rows), (TEAM_GAME, TEAM_STATES, team_rows)):
        members = [tabular_scorer(states, row, 0.9) for row in policy_rows]
        by_side = mixture_of_sides(members, weights, weights)
        single_mixture = MemberMixture(dict(zip(MEMBERS, weights, strict=True)), by_side.agent)
        assert [row.tobytes() for row in by_side.action_logprobs(states.queries)] == [
            row.tobytes() for row in single_mixture.action_logprobs(states.queries)
        ]
        assert exact_figures_of(game, states, by_side) == exact_figures_of(game, states, single_mixture)


def test_teams_draw_by_the_weights_of_their_side_by_hand():
    """Team 0 draws rock and team 1 paper: scissors would gain 2 for team 0, and team 1 already has its best response."""
    rock, paper = ([1, 1], [1, 0])
    members = [
        tabular_scorer(TEAM_STATES, [*choices, *choices], legal) for choices, legal in ((rock, 1.0), (paper, 0.5))
    ]
    figures = exact_figures_of(TEAM_GAME, TEAM_STATES, mixture_of_sides(members, [1, 0], [0, 1]))
    assert figures.figures["team_exploitability/team_matrix"] == pytest.approx((2 + 0) / 2)
    assert figures.values == pytest.approx((-1, -1, 1, 1))
    report = team_exploitability(
        TEAM_STATES, TEAM_GAME.teams, [query_policy(member, TEAM_STATES)[0] for member in members], [[1, 0], [0, 1]]
    )
    assert report.joint == pytest.approx((2, 0)) and report.values == pytest.approx((-1, 1))
    assert figures.figures["illegal_mass/team_matrix"] == pytest.approx((0 + 0.5) / 2)
    assert figures.figures["illegal_mass_reached/team_matrix"] == pytest.approx((0 + 0.5) / 2)


def draw_members(game, agent, plays, **fields):
    root = Stream.from_seed(0)
    specs = [
        EpisodeSpec(
            game=game,
            episode_id=number,
            group_id=number,
            deal=root.child(number),
            stream=root.child(number),
            seats=("agent",) * game.num_seats,
            trained=(False,) * game.num_seats,
        )
        for number in range(plays)
    ]
    members = []
    original_agent_of = agent._agent_of
    agent._agent_of = lambda member: members.append(member) or original_agent_of(member)
    play_teams(specs, {"agent": agent}, **fields)
    members = members[len(agent.members) :]  # each member is loaded once before the first episode
    return [tuple(members[number * game.num_seats : (number + 1) * game.num_seats]) for number in range(plays)]


@pytest.fixture(scope="module")
def engine_of_three_games():
    config = {
        "name": "sides",
        "steps": 2,
        "threads": 1,
        "environments": [
            {"name": "kuhn_poker", "weight": 3},
            {"name": "leduc_poker"},
            {"name": "team_matrix", "weight": 0, "options": {"members": 2}},
        ],
        "rollout": {"games_per_step": 8},
        "model": {"hidden_size": 8, "layers": 1, "heads": 1},
        "league": {"every": 1},
        "warmup": {"updates": 0},
    }
    return engine_with_members(config)


def test_each_seat_draws_by_its_side_and_a_team_draws_once(engine_of_three_games):
    agent = MemberMixture(
        {MEMBERS[0]: 0.25, MEMBERS[1]: 0.75}, engine_of_three_games.agent, second={MEMBERS[1]: 0.5, MEMBERS[2]: 0.5}
    )
    members_of_play = draw_members(engine_of_three_games.environments[0][0], agent, 400)
    shares = [[sum(seats[seat] == member for seats in members_of_play) / 400 for member in MEMBERS] for seat in (0, 1)]
    assert shares[0] == pytest.approx([0.25, 0.75, 0], abs=0.06) and shares[1] == pytest.approx([0, 0.5, 0.5], abs=0.06)
    assert agent.members == {MEMBERS[0]: 0.125, MEMBERS[1]: 0.625, MEMBERS[2]: 0.25}
    assert (
        str(agent)
        == "0.250 past-000001, 0.750 past-000002 in the first side; 0.500 past-000002, 0.500 past-000003 in the second"
    )
    agent = MemberMixture({MEMBERS[0]: 1.0}, engine_of_three_games.agent, second={MEMBERS[1]: 0.5, MEMBERS[2]: 0.5})
    members_of_play = draw_members(engine_of_three_games.environments[2][0], agent, 40)
    assert all(a == b == MEMBERS[0] and c == d for a, b, c, d in members_of_play) and {
        seats[2] for seats in members_of_play
    } == set(MEMBERS[1:])


def test_a_pair_with_equal_weights_draws_the_members_of_one_mixture(engine_of_three_games):
    weights = {MEMBERS[0]: 0.25, MEMBERS[1]: 0.75}
    single_mixture, by_side = (
        MemberMixture(weights, engine_of_three_games.agent),
        MemberMixture(weights, engine_of_three_games.agent, second=weights),
    )
    assert draw_members(GAME, single_mixture, 50) == draw_members(GAME, by_side, 50)


def test_a_pair_of_mixtures_is_refused_for_three_sides(engine_of_three_games):
    agent = mixture_of_sides([UniformScorer(), UniformScorer()], [1, 0], [0, 1])
    message = "kuhn_poker: this mixture has weights for two sides, and the environment has 3; take one policy"
    with pytest.raises(GameError, match=message):
        agent.mixture_of_seat(KUHN_OF_THREE, 0)
    with pytest.raises(GameError, match=message):
        evaluate_exploitability(KUHN_OF_THREE, enumerate_info_states(KUHN_OF_THREE), agent)
    with pytest.raises(GameError, match=message):
        draw_members(KUHN_OF_THREE, agent, 1)
    with pytest.raises(GameError, match=r"sudoku: .* and the environment has 1"):
        agent.mixture_of_seat(make_game("sudoku"), 0)
    assert MemberMixture({MEMBERS[0]: 1.0}, engine_of_three_games.agent).mixture_of_seat(KUHN_OF_THREE, 2).shares() == {
        MEMBERS[0]: 1.0
    }


def test_the_side_of_a_query_is_its_seat_or_its_team():
    agent = mixture_of_sides([equilibrium_scorer(1, 0), UniformScorer()], [0, 1], [1, 0])
    query = Query(game="any", seat=1, key="1b", observations=("",), actions=(), legal_actions=("pass", "bet"))
    assert np.exp(agent.action_logprobs([query])[0]) == pytest.approx([1, 0])  # a member of the second side
    for teams, expected in (((0, 0, 1, 1), [0.5, 0.5]), ((0, 1, 0, 1), [1, 0]), ((0, 0), [1, 0])):
        (row,) = agent.action_logprobs(
            [
                Query(
                    game="any",
                    seat=1,
                    key="1b",
                    observations=("",),
                    actions=(),
                    legal_actions=("pass", "bet"),
                    teams=teams,
                )
            ]
        )
        assert np.exp(row) == pytest.approx(expected)
    assert TEAM_STATES.queries[0].teams == (0, 0, 1, 1) and STATES.queries[0].teams == (0, 1)


def rows_of_sides(payoffs, environment="kuhn_poker", second_seat=1):
    """Return book rows in which member i of side 0 earns payoffs[i][j] from member j of side 1."""
    rows = {}
    for row, player in enumerate(MEMBERS[: len(payoffs)]):
        for column, opponent in enumerate(MEMBERS[: len(payoffs)]):
            payoff = payoffs[row][column]
            if payoff is not None:
                rows[RowKey(environment, 0, player, opponent)] = Results(games=10, draws=10, returns=10 * payoff)
                rows[RowKey(environment, second_seat, opponent, player)] = Results(
                    games=10, draws=10, returns=-10 * payoff
                )
    return rows


def test_the_answer_has_separate_weights_of_each_side(engine_of_three_games):
    """The weighted mean of two games (3/4 and 1/4) is [[3, 0], [1, 2]] with p = 1/4 and q = 1/2; a third member always loses."""
    kuhn = rows_of_sides([[4, 0, 8], [0, 2, 8], [-9, -9, 0]])
    leduc = rows_of_sides([[0, 0, 8], [4, 2, 8], [-9, -9, 0]], "leduc_poker")
    book = Payoffs({**kuhn, **leduc, **rows_of_sides([[-50] * 3] * 3, "team_matrix", 2)})  # held out
    answer = answer_of(engine_of_three_games, book, "nash", apart=True)
    assert answer.sides[0] == pytest.approx({MEMBERS[0]: 0.25, MEMBERS[1]: 0.75})
    assert answer.sides[1] == pytest.approx({MEMBERS[0]: 0.5, MEMBERS[1]: 0.5}) and answer.notes == ()
    joint_answer = answer_of(engine_of_three_games, book, "nash")
    # as whole players the second earns 1/2 from the first
    assert len(joint_answer.sides) == 1 and joint_answer.members == {MEMBERS[1]: 1.0}


@given(
    st.lists(st.lists(st.floats(-5, 5), min_size=3, max_size=3), min_size=3, max_size=3),
    st.sampled_from(["nash", "correlated", "uniform", "projected_replicator"]),
)
@settings(max_examples=20)
def test_the_weights_of_each_side_are_a_distribution(engine_of_three_games, payoffs, solver):
    answer = answer_of(engine_of_three_games, Payoffs(rows_of_sides(payoffs)), solver, apart=True)
    for weights in answer.sides:
        assert sum(weights.values()) == pytest.approx(1) and all(0 < share <= 1 + 1e-9 for share in weights.values())
        assert set(weights) <= set(MEMBERS)


def test_pairs_without_games_in_their_sides_are_counted(engine_of_three_games):
    kuhn = rows_of_sides([[0, 1, None], [1, 0, 1], [1, 1, None]])
    leduc = rows_of_sides([[0, 1, None], [1, 0, 1], [1, 1, None]], "leduc_poker")
    (note,) = answer_of(engine_of_three_games, Payoffs({**kuhn, **leduc}), "nash", apart=True).notes
    assert note.startswith("2 of 9 pairs of members have never met")
    assert answer_of(engine_of_three_games, Payoffs(), "uniform", apart=True).notes == ()
