"""The engine in one process: what is saved is what is restored, and nothing else is taken for it."""

import pytest
import safetensors.torch
import torch

from sparring.config import resolve
from sparring.core import files as files_module
from sparring.core.errors import CheckpointError, ConfigError, ModelError, UnknownNameError
from sparring.core.refs import LEARNER, PUBLISHED, bot, ref, snapshot
from sparring.engine.local import LocalEngine
from sparring.league.seating import starts
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round

SMALL = {"hidden_size": 8, "layers": 1, "heads": 1}


def config(**changes):
    base = {"environments": [{"name": "kuhn_poker"}], "steps": 4, "threads": 1, "rollout": {"games_per_step": 8}, "model": SMALL}
    return resolve({**base, "credit": {"name": "gae"}, "losses": [{"name": "ppo_clip"}, {"name": "value_loss"}], **changes})


def trained(rounds=2, **changes):
    setting = config(learner={"average": 0.9}, **changes)
    engine = LocalEngine(setting)
    for step in range(rounds):
        play_round(setting, engine, Methods.of(setting), RunState(step=step))
        engine.take_member(snapshot(step + 1))
    return engine


def write(folder, engine):
    folder.mkdir(exist_ok=True)
    engine.save(folder)
    return folder


def test_what_is_saved_is_restored_bit_for_bit(tmp_path, saved):
    engine = trained()
    files = saved(engine)
    fresh = LocalEngine(engine.config)
    assert saved(fresh) != files
    fresh.restore(write(tmp_path / "saved", engine))
    assert saved(fresh) == files
    assert fresh.members == engine.members == (snapshot(1), snapshot(2))
    assert fresh.learner.average.model.version == fresh.model.version == 2
    assert fresh.model.value_head.weight.abs().sum() > 0


def test_saving_and_restoring_take_nothing_from_the_engine(tmp_path, saved):
    """A save in the middle leaves training as it is; weights restored are copies, not shared with the learner's."""
    engine, twin = trained(), trained()
    engine.restore(write(tmp_path / "saved", engine))
    for each in (engine, twin):
        play_round(each.config, each, Methods.of(each.config), RunState(step=2))
    assert saved(engine) == saved(twin)


def test_files_are_safetensors_and_json_alone(saved):
    files = saved(trained())
    names = {"engine.json", "model.safetensors", "average.safetensors", "optimizer.safetensors"}
    assert set(files) == names | {"past-000001.safetensors", "past-000002.safetensors"}
    tensors = safetensors.torch.load(files["model.safetensors"])
    assert {"value_head.weight", "value_head.bias"} < set(tensors)
    moments = safetensors.torch.load(files["optimizer.safetensors"])
    assert {name.partition(".")[2] for name in moments} == {"step", "exp_avg", "exp_avg_sq"}
    assert len(moments) == 3 * len(tensors)


@pytest.mark.parametrize("name", ["engine.json", "model.safetensors", "average.safetensors", "optimizer.safetensors", "past-000001.safetensors"])
@pytest.mark.parametrize("damage", ["missing", "empty", "other"])
def test_a_damaged_file_is_said(tmp_path, name, damage):
    engine = trained()
    folder = write(tmp_path / "saved", engine)
    if damage == "missing":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(b"" if damage == "empty" else b"{}" if name == "engine.json" else b"x" * 40)
    with pytest.raises(CheckpointError, match=r"cannot be (loaded|taken back)") as caught:
        LocalEngine(engine.config).restore(folder)
    assert str(folder) in str(caught.value) and (not name.startswith("past") or "member past-000001" in str(caught.value))


def test_weights_of_another_model_are_refused(tmp_path):
    folder = write(tmp_path / "saved", trained())
    wider = config(learner={"average": 0.9}, model={**SMALL, "hidden_size": 16})
    with pytest.raises(ModelError, match="of another model"):
        LocalEngine(wider).restore(folder)


def test_past_selves_stay_what_they_were():
    engine = trained(rounds=1)
    member = {name: tensor.clone() for name, tensor in engine.policies["main"].past[1].model.tensors().items()}
    play_round(engine.config, engine, Methods.of(engine.config), RunState(step=1))
    assert all(torch.equal(tensor, member[name]) for name, tensor in engine.policies["main"].past[1].model.tensors().items())
    assert any(not torch.equal(tensor, member[name]) for name, tensor in engine.model.tensors().items())


def test_a_reference_means_a_player_and_one_that_is_not_there_is_refused():
    engine = trained()
    for player in (LEARNER, PUBLISHED, snapshot(1), bot("random"), ref("random")):
        assert engine.agent(player) is engine.agent(str(player)) is engine.agent(player)
    engine.drop_member(snapshot(1))
    assert engine.members == (snapshot(2),) and "past-000001" not in engine.agents
    for name in ("past-000001", "person-me", "bot-randm"):
        with pytest.raises(UnknownNameError, match=name.removeprefix("bot-")):
            engine.agent(name)


def test_the_published_policy_is_the_average_if_there_is_one():
    engine, plain = trained(), LocalEngine(config())
    assert engine.agent("policy").sampler.model is engine.learner.average.model
    assert plain.agent("policy").sampler.model is plain.model
    assert engine.agent("policy") is engine.agent("policy")


def test_agents_play_with_the_weights_of_now():
    """The learner's turns carry its version, and cached keys and values never outlive the weights they are from."""
    engine = trained(rounds=1)
    setting = engine.config
    specs = starts(
        0, games=engine.environments, rollout=setting.rollout, matchmaker=setting.matchmaker.bind("league.matchmakers"), members=(), root=engine.root,
        progress=0.0,
    )
    first = engine.play(specs).episodes
    play_round(setting, engine, Methods.of(setting), RunState(step=1))
    second = engine.play(specs).episodes
    fresh = LocalEngine(setting)
    fresh.model.load_tensors(engine.model.tensors())
    fresh.model.version = engine.model.version
    assert second == fresh.play(specs).episodes != first
    assert {turn.weights_version for episode in second for turn in episode.turns} == {2}


def test_bots_with_options_are_seated_by_their_name():
    config = resolve(
        {
            "environments": [{"name": "tic_tac_toe", "illegal": {"rule": "random"}}], "threads": 1, "rollout": {"games_per_step": 4},
            "model": {"hidden_size": 8, "layers": 1, "heads": 1}, "bots": {"weak": {"name": "minimax", "random_moves": 0.5}},
            "matchmaker": {"name": "mixed", "past": 0.0, "bots": {"weak": 1.0}},
        }
    )
    run = LocalEngine(config)
    outcome = play_round(config, run, Methods.of(config), RunState())
    assert {agent for episode in outcome.episodes for agent in episode.agents} == {"learner", "bot-weak"}
    assert run.agent("bot-weak").random_moves == 0.5
    with pytest.raises(ConfigError, match="random_moves"):
        resolve({"environments": [{"name": "tic_tac_toe"}], "bots": {"weak": {"name": "minimax", "random_moves": "often"}}})


def test_a_tiny_model_beyond_the_memory_is_refused_before_it_is_made():
    with pytest.raises(ModelError, match=r"tiny has .* M parameters and needs about .* GiB.*model.hidden_size"):
        LocalEngine(config(model={"hidden_size": 65536, "layers": 10_000, "heads": 1}))


def test_a_past_self_is_written_once(tmp_path, monkeypatch):
    """What the checkpoint before holds is linked; it is the same file, and of the same content as written anew."""
    engine, folders = trained(), []
    for number in range(3):
        folders.append(tmp_path / str(number))
        folders[-1].mkdir()
        engine.save(folders[-1], folders[-2] if number else None)
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    engine.save(fresh)
    for name in engine.members:
        files = [folder / f"{name}.safetensors" for folder in folders]
        assert files[0].samefile(files[1]) and files[0].samefile(files[2])
        assert files[2].read_bytes() == (fresh / files[0].name).read_bytes()
        assert not files[0].samefile(fresh / files[0].name)
    assert not (folders[0] / "model.safetensors").samefile(folders[1] / "model.safetensors")


def test_where_there_are_no_links_a_past_self_is_copied(tmp_path, monkeypatch, saved):
    def refused(*args, **kwargs):
        raise OSError(1, "Operation not permitted")

    engine = trained()
    earlier, later = tmp_path / "earlier", tmp_path / "later"
    for folder in (earlier, later):
        folder.mkdir()
    engine.save(earlier)
    monkeypatch.setattr(files_module.os, "link", refused)
    engine.save(later, earlier)
    assert {path.name: path.read_bytes() for path in later.iterdir()} == saved(engine)
    assert not (later / "past-000001.safetensors").samefile(earlier / "past-000001.safetensors")


def test_a_past_self_that_the_earlier_checkpoint_lacks_is_written(tmp_path, saved):
    engine = trained(rounds=1)
    earlier, later = tmp_path / "earlier", tmp_path / "later"
    for folder in (earlier, later):
        folder.mkdir()
    engine.save(earlier)
    engine.take_member(snapshot(2))
    engine.save(later, earlier)
    assert {path.name: path.read_bytes() for path in later.iterdir()} == saved(engine)
    engine.save(earlier, tmp_path / "gone")  # one that has been removed in the meantime


def test_a_full_disk_is_said_as_one(tmp_path):
    """What the library says of the operating system is an OSError of its number."""
    engine = trained(rounds=1)
    with pytest.raises(FileNotFoundError, match="gone"):
        engine.save(tmp_path / "gone")


def test_files_have_the_mode_that_the_umask_gives(tmp_path):
    engine = trained(rounds=1)
    engine.save(tmp_path)
    (plain := tmp_path / "plain").write_bytes(b"")
    assert {path.stat().st_mode for path in tmp_path.iterdir()} == {plain.stat().st_mode}
