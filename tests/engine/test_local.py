"""The engine in one process: what is saved is what is restored, and nothing else is taken for it."""

import numpy as np
import pytest
import safetensors.torch
import torch

from sparring.config import resolve
from sparring.engine.local import LocalEngine
from sparring.errors import CheckpointError, ConfigError, ModelError
from sparring.league.starts import starts
from sparring.rollout.play import RolloutCounts
from sparring.run.step import Methods, play_round

SMALL = {"hidden_size": 8, "layers": 1, "heads": 1}


def config(**changes):
    base = {"games": [{"name": "kuhn_poker"}], "steps": 4, "threads": 1, "rollout": {"games_per_step": 8}, "model": SMALL}
    return resolve({**base, "credit": {"name": "gae"}, "losses": [{"name": "ppo_clip"}, {"name": "value_loss"}], **changes})


def trained(rounds=2, **changes):
    setting = config(learner={"average": 0.9}, **changes)
    engine = LocalEngine(setting)
    for step in range(rounds):
        play_round(setting, engine, Methods.of(setting), step, {})
        engine.take_member(f"past-{step + 1:06d}", keep=8)
    return engine


def write(folder, files):
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def test_what_is_saved_is_restored_bit_for_bit(tmp_path):
    engine = trained()
    files = engine.files()
    fresh = LocalEngine(engine.config)
    assert fresh.files() != files
    fresh.restore(write(tmp_path / "saved", files))
    assert fresh.files() == files
    assert fresh.members == engine.members == ("past-000001", "past-000002")
    assert fresh.learner.average.version == fresh.model.version == 2
    assert fresh.model.value_head.weight.abs().sum() > 0


def test_saving_and_restoring_take_nothing_from_the_engine(tmp_path):
    """A save in the middle leaves training as it is; weights restored are copies, not shared with the learner's."""
    engine, twin = trained(), trained()
    engine.restore(write(tmp_path / "saved", engine.files()))
    for each in (engine, twin):
        play_round(each.config, each, Methods.of(each.config), 2, {})
    assert engine.files() == twin.files()


def test_files_are_safetensors_and_json_alone():
    files = trained().files()
    names = {"engine.json", "model.safetensors", "average.safetensors", "optimizer.safetensors"}
    assert set(files) == names | {"past-000001.safetensors", "past-000002.safetensors"}
    tensors = safetensors.torch.load(files["model.safetensors"])
    assert {"value_head.weight", "value_head.bias"} < set(tensors)
    moments = safetensors.torch.load(files["optimizer.safetensors"])
    assert {name.partition(".")[2] for name in moments} == {"step", "exp_avg", "exp_avg_sq"}
    assert len(moments) == 3 * len(tensors)


@pytest.mark.parametrize(
    "name", ["engine.json", "model.safetensors", "average.safetensors", "optimizer.safetensors", "past-000001.safetensors"]
)
@pytest.mark.parametrize("damage", ["missing", "empty", "other"])
def test_a_damaged_file_is_said(tmp_path, name, damage):
    engine = trained()
    folder = write(tmp_path / "saved", engine.files())
    if damage == "missing":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(b"" if damage == "empty" else b"{}" if name == "engine.json" else b"x" * 40)
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        LocalEngine(engine.config).restore(folder)


def test_weights_of_another_model_are_refused(tmp_path):
    folder = write(tmp_path / "saved", trained().files())
    wider = config(learner={"average": 0.9}, model={**SMALL, "hidden_size": 16})
    with pytest.raises(ModelError, match="of another model"):
        LocalEngine(wider).restore(folder)


def test_past_selves_stay_what_they_were():
    engine = trained(rounds=1)
    member = {name: tensor.clone() for name, tensor in engine._past["past-000001"].tensors().items()}
    play_round(engine.config, engine, Methods.of(engine.config), 1, {})
    assert all(torch.equal(tensor, member[name]) for name, tensor in engine._past["past-000001"].tensors().items())
    assert any(not torch.equal(tensor, member[name]) for name, tensor in engine.model.tensors().items())


def test_beyond_keep_the_league_thins_out_in_the_middle_of_its_history():
    engine = LocalEngine(config())
    for step in range(1, 41):
        engine.take_member(f"past-{step:06d}", keep=5)
        assert len(engine.members) == min(step, 5)
        assert engine.members[-1] == f"past-{step:06d}"
    ages = [int(name.rsplit("-", 1)[1]) for name in engine.members]
    assert ages[0] == 1 and ages == sorted(ages)
    assert max(np.diff(ages)) <= 20
    assert set(engine.agents) == {*engine.members, "learner", "demonstrator"}
    engine.take_member("past-000041", keep=1)
    assert engine.members == ("past-000041",)


def test_the_published_policy_is_the_average_if_there_is_one():
    engine, plain = trained(), LocalEngine(config())
    assert engine.agent("policy").sampler.model is engine.learner.average
    assert plain.agent("policy").sampler.model is plain.model
    assert engine.agent("policy") is engine.agent("policy")


def test_agents_play_with_the_weights_of_now():
    """The learner's turns carry its version, and cached keys and values never outlive the weights they are from."""
    engine = trained(rounds=1)
    setting = engine.config
    specs = starts(
        0,
        games=engine.games,
        rollout=setting.rollout,
        matchmaker=setting.matchmaker.bind("league.matchmakers"),
        members=(),
        root=engine.root,
        progress=0.0,
    )
    first = engine.play(specs, RolloutCounts())
    play_round(setting, engine, Methods.of(setting), 1, {})
    second = engine.play(specs, RolloutCounts())
    fresh = LocalEngine(setting)
    fresh.model.load_tensors(engine.model.tensors())
    fresh.model.version = engine.model.version
    assert second == fresh.play(specs, RolloutCounts()) != first
    assert {turn.weights_version for episode in second for turn in episode.turns} == {2}


def test_bots_with_options_are_seated_by_their_name():
    config = resolve(
        {
            "games": [{"name": "tic_tac_toe", "illegal": {"rule": "random"}}],
            "threads": 1,
            "rollout": {"games_per_step": 4},
            "model": {"hidden_size": 8, "layers": 1, "heads": 1},
            "bots": {"weak": {"name": "minimax", "random_moves": 0.5}},
            "matchmaker": {"name": "mixed", "past": 0.0, "bots": {"weak": 1.0}},
        }
    )
    run = LocalEngine(config)
    outcome = play_round(config, run, Methods.of(config), 0, {})
    assert {agent for episode in outcome.episodes for agent in episode.agents} == {"learner", "bot-weak"}
    assert run.agent("bot-weak").random_moves == 0.5
    with pytest.raises(ConfigError, match="random_moves"):
        resolve({"games": [{"name": "tic_tac_toe"}], "bots": {"weak": {"name": "minimax", "random_moves": "often"}}})


def test_a_tiny_model_beyond_the_memory_is_refused_before_it_is_made():
    with pytest.raises(ModelError, match=r"tiny has .* M parameters and needs about .* GiB.*model.hidden_size"):
        LocalEngine(config(model={"hidden_size": 65536, "layers": 10_000, "heads": 1}))
