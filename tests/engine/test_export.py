"""Exported models: what others load, and what the card tells them."""

import stat

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from sparring.config import resolve
from sparring.core.errors import ConfigError, ModelError, UnknownNameError
from sparring.core.refs import snapshot
from sparring.core.rng import Stream
from sparring.engine.export import CARD, export, export_mixture, first_prompt
from sparring.engine.local import LocalEngine
from sparring.play.players.exported import exported
from sparring.play.players.mixture import MemberMixture
from tests.hugging_face import hugging_face

BASE = {"environments": [{"name": "kuhn_poker"}], "threads": 1, "rollout": {"games_per_step": 16, "temperature": 0.8, "top_k": 5}}


@pytest.fixture(scope="module")
def tiny():
    return LocalEngine(resolve({**BASE, "model": {"hidden_size": 16, "layers": 1, "heads": 2}}))


@pytest.fixture(scope="module")
def adapted(chat_folder):
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
def test_weights_come_in_the_type_asked_for_and_the_run_keeps_its_own(tiny, tmp_path, dtype):
    export(tiny, tmp_path, step=3, dtype=dtype)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, dtype="auto")
    assert loaded.dtype == getattr(torch, dtype or "float32")
    assert tiny.model.network.dtype == torch.float32
    assert torch.allclose(probabilities(loaded), probabilities(hugging_face(tiny.model.network)), atol=1e-2 if dtype in ("bfloat16", "float16") else 1e-7)


def test_every_file_can_be_read_by_another_user(tiny, tmp_path):
    export(tiny, tmp_path / "new", step=3)
    files = [path for path in (tmp_path / "new").rglob("*") if path.is_file()]
    assert {"model.safetensors", "tokenizer.json", CARD} <= {path.name for path in files}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o644}


def test_the_prompt_of_the_card_is_what_was_trained_on(tiny, adapted, tmp_path):
    for number, engine in enumerate((tiny, adapted)):
        folder = tmp_path / str(number)
        export(engine, folder, step=3)
        prompt = first_prompt(engine.policies["main"], engine.environments[0][0], [0, 1])
        assert all(f"    {line}" in (folder / CARD).read_text() for line in prompt.splitlines())
        ids = AutoTokenizer.from_pretrained(folder)(prompt, add_special_tokens=False)["input_ids"]
        state = engine.environments[0][0].reset(Stream.from_seed(0).child("card"))
        assert tuple(ids) == tuple(engine.policies["main"].renderer.initial(state.observe(0).text))


def test_the_card_says_what_was_seen_of_the_past(tmp_path):
    config = {"environments": [{"name": "sokoban"}], "context": {"name": "markov"}, "model": {"hidden_size": 8, "heads": 1}}
    engine = LocalEngine(resolve(config))
    export(engine, tmp_path, step=3)
    text = (tmp_path / CARD).read_text()
    assert "what Sparring's `context: {name: markov}` shows" in text and "in the same way" not in text
    state = engine.environments[0][0].reset(Stream.from_seed(0).child("card"))
    assert first_prompt(engine.policies["main"], engine.environments[0][0], [0]) == f"<begin> {state.observe(0).view} <ask>"


def test_the_card_has_what_the_hub_reads_and_the_figures_of_these_weights(tiny, adapted, tmp_path):
    export(tiny, tmp_path / "tiny", step=3, figures={"nash_conv/kuhn_poker": 0.12345})
    _, front, text = (tmp_path / "tiny" / CARD).read_text().split("---\n", 2)
    fields = yaml.safe_load(front)
    assert fields["library_name"] == "transformers" and fields["pipeline_tag"] == "text-generation"
    assert {"sparring", "self-play", tiny.environments[0][0].name} <= {*fields["tags"]}
    assert "| `nash_conv/kuhn_poker` | 0.1235 |" in text and "3 steps" in text
    export(adapted, tmp_path / "adapter", step=3, adapter=True)
    _, front, text = (tmp_path / "adapter" / CARD).read_text().split("---\n", 2)
    assert yaml.safe_load(front)["library_name"] == "peft" and "## Figures" not in text


def test_the_code_of_the_card_runs(tiny, tmp_path, monkeypatch, capsys):
    export(tiny, tmp_path / "model", step=3)
    monkeypatch.chdir(tmp_path)
    exec((tmp_path / "model" / CARD).read_text().split("```python\n")[1].split("```")[0], {})
    assert len(capsys.readouterr().out.split()) <= 2


def test_sampling_settings_are_those_of_training(tiny, tmp_path):
    export(tiny, tmp_path, step=3)
    found = GenerationConfig.from_pretrained(tmp_path)
    assert (found.do_sample, found.temperature, found.top_k, found.max_new_tokens) == (True, 0.8, 5, 2)
    assert found.eos_token_id == list(tiny.policies["main"].renderer.stop_ids)


def test_adapters_alone_give_the_policy_on_the_base_model(adapted, chat_folder, tmp_path):
    from peft import PeftModel

    export(adapted, tmp_path / "adapter", step=3, adapter=True)
    export(adapted, tmp_path / "merged", step=3)
    base = AutoModelForCausalLM.from_pretrained(chat_folder)
    plain = probabilities(base)
    with_adapter = probabilities(PeftModel.from_pretrained(base, tmp_path / "adapter").eval())
    merged = probabilities(AutoModelForCausalLM.from_pretrained(tmp_path / "merged"))
    assert torch.allclose(with_adapter, merged, atol=1e-6)
    assert not torch.allclose(with_adapter, plain, atol=1e-6)
    assert "PeftModel" in (tmp_path / "adapter" / CARD).read_text()
    assert not (tmp_path / "adapter" / "model.safetensors").exists()


def test_a_mixture_of_adapters_shares_their_base(adapted, tmp_path):
    """Each member as adapters alone, or merged: both say what the run's member says."""
    members = {snapshot(step): 0.5 for step in (1, 2)}
    for number, member in enumerate(members, start=1):
        for name, parameter in adapted.model.network.named_parameters():
            if "lora_B" in name:
                parameter.data.fill_(0.1 * number)
        adapted.take_member(member)
    mixture = MemberMixture(members, adapted.agent)
    wanted = [probabilities(adapted.policies["main"].past[member.step].model.network) for member in members]
    assert not torch.allclose(*wanted, atol=1e-5)
    for adapter in (True, False):
        folder = tmp_path / str(adapter)
        export_mixture(adapted, folder, mixture, step=2, answer="uniform", adapter=adapter)
        found = exported(folder=str(folder))
        agents = [found.agent(who) for who in found.members]
        for agent, rows in zip(agents, wanted, strict=True):
            assert torch.allclose(probabilities(agent.sampler.model.network), rows, atol=1e-6)
        bases = [next(p for n, p in agent.sampler.model.network.named_parameters() if "embed" in n) for agent in agents]
        assert (bases[0].data_ptr() == bases[1].data_ptr()) == adapter
        assert (folder / "past-000001" / "model.safetensors").exists() != adapter
    weights = tmp_path / "True" / "past-000001" / "adapter_model.safetensors"
    tensors = load_file(weights)
    save_file({name: tensor[:1] for name, tensor in tensors.items()}, weights)
    with pytest.raises(ModelError, match="adapters of another model"):
        exported(folder=str(weights.parent))
    weights.write_bytes(b"?")
    with pytest.raises(ModelError, match="cannot be read"):
        exported(folder=str(weights.parent))
    weights.unlink()
    with pytest.raises(ModelError, match=r"has no adapter_model.safetensors; export the run again"):
        exported(folder=str(weights.parent))


def test_of_several_policies_one_is_named(tmp_path):
    model = {"hidden_size": 8, "layers": 1, "heads": 1}
    config = {**BASE, "policies": {"leader": {"model": model}, "helper": {"model": {**model, "hidden_size": 16}}}, "roles": {"first": "leader", "second": "helper"}}
    engine = LocalEngine(resolve(config))
    engine.take_member(snapshot(1))
    mixture = MemberMixture({snapshot(1): 1.0}, engine.agent)
    with pytest.raises(ConfigError, match="--policy leader"):
        export_mixture(engine, tmp_path / "none", mixture, step=1, answer="nash")
    export_mixture(engine, tmp_path / "one", mixture, step=1, answer="nash", policy="helper")
    found = exported(folder=str(tmp_path / "one"))
    assert found.agent(*found.members).sampler.model.width == 16
    with pytest.raises(UnknownNameError, match="snapshot of this run"):
        export(engine, tmp_path / "two", step=1, policy="helper", member=snapshot(7))


def test_members_of_several_learners_are_each_written_as_what_they_are(tmp_path):
    league = {"every": 1, "learners": {"main": {}, "counter": {}}}
    engine = LocalEngine(resolve({**BASE, "league": league}))
    members = [snapshot(1), snapshot(1, "counter")]
    for member in members:
        engine.take_member(member)
    for place, name in enumerate(engine.learners):
        engine.policies[name].past[1].model.network.lm_head.weight.data.fill_(0.1 * (1 + place))
    mixture = MemberMixture(dict.fromkeys(members, 0.5), engine.agent)
    export_mixture(engine, tmp_path / "all", mixture, step=1, answer="nash")
    found = exported(folder=str(tmp_path / "all"))
    heads = [found.agent(who).sampler.model.network.lm_head.weight for who in found.members]
    assert [float(head.flatten()[0]) for head in heads] == pytest.approx([0.1, 0.2])
    with pytest.raises(ConfigError, match="past-counter-000001 is a snapshot of counter; leave --policy out"):
        export_mixture(engine, tmp_path / "one", mixture, step=1, answer="nash", policy="main")


def test_a_side_of_several_policies_says_which_are_there(tmp_path):
    config = {**BASE, "environments": [{"name": "team_matrix", "options": {"members": 2}}], "policies": {"left": {}, "right": {}}}
    roles = {"a1": "left", "a2": "right", "b1": "left", "b2": "left"}
    engine = LocalEngine(resolve({**config, "roles": roles}))
    engine.take_member(snapshot(1))
    mixture = MemberMixture({snapshot(1): 1.0}, engine.agent, second={snapshot(1): 1.0})
    with pytest.raises(ConfigError, match=r"In the first side play the policies left, right.*--policy left"):
        export_mixture(engine, tmp_path / "none", mixture, step=1, answer="nash")
    export_mixture(engine, tmp_path / "one", mixture, step=1, answer="nash", policy="right")
    assert (tmp_path / "one" / "past-000001").is_dir()


def test_without_adapters_there_are_none_to_write(tiny, tmp_path):
    with pytest.raises(ModelError, match="has no adapters"):
        export(tiny, tmp_path, step=3, adapter=True)
