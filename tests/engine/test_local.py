"""The engine in one process: saving and restoring, columns of the turn table, held-out games, and the cost of candidates."""

import numpy as np
import pytest
import safetensors.torch
import torch

from sparring.api.suite_player import Player
from sparring.config import resolve
from sparring.core import files as files_module
from sparring.core.errors import CheckpointError, ModelError, TooLargeError, UnknownNameError
from sparring.core.records import LEARNER, PUBLISHED, Credit, bot, ref, snapshot
from sparring.engine.local import LocalEngine
from sparring.engine.plan import describe
from sparring.engine.protocol import ReplyJudges, rewards_of
from sparring.learn.pack import pack
from sparring.measure.exploitability import query_policy
from sparring.measure.info_states import enumerate_info_states, exact_values
from sparring.methods.oracles.judge import configured_oracles
from sparring.models.samplers.prefix_cache import Prefill
from sparring.play.turn_table import ordered_turns
from sparring.run.evaluation import Evaluator
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round
from sparring.run.warmup import warm_up
from tests.engine.builders import episodes_of, specs_of
from tests.hugging_face import hugging_face

SMALL = {"hidden_size": 8, "layers": 1, "heads": 1}


def config(**changes):
    defaults = {
        "environments": [{"name": "kuhn_poker"}],
        "steps": 4,
        "threads": 1,
        "rollout": {"games_per_step": 8},
        "model": SMALL,
    }
    return resolve(
        {**defaults, "credit": {"name": "gae"}, "losses": [{"name": "ppo_clip"}, {"name": "value_loss"}], **changes}
    )


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


def test_a_saved_engine_is_restored_bit_for_bit(tmp_path, saved):
    engine = trained()
    files = saved(engine)
    fresh = LocalEngine(engine.config)
    assert saved(fresh) != files
    fresh.restore(write(tmp_path / "saved", engine))
    assert saved(fresh) == files
    assert fresh.members == engine.members == (snapshot(1), snapshot(2))
    assert fresh.learner.average.model.version == fresh.model.version == 2
    assert fresh.model.value_head.weight.abs().sum() > 0


def test_saving_and_restoring_do_not_change_training(tmp_path, saved):
    engine, twin = trained(), trained()
    engine.restore(write(tmp_path / "saved", engine))
    for each_engine in (engine, twin):
        play_round(each_engine.config, each_engine, Methods.of(each_engine.config), RunState(step=2))
    assert saved(engine) == saved(twin)


def test_checkpoints_have_only_safetensors_and_json(saved):
    files = saved(trained())
    names = {"engine.json", "model.safetensors", "average.safetensors", "optimizer.safetensors"}
    assert set(files) == names | {"past-000001.safetensors", "past-000002.safetensors"}
    tensors = safetensors.torch.load(files["model.safetensors"])
    assert {"value_head.weight", "value_head.bias"} < set(tensors)
    moments = safetensors.torch.load(files["optimizer.safetensors"])
    assert {name.partition(".")[2] for name in moments} == {"step", "exp_avg", "exp_avg_sq"}
    assert len(moments) == 3 * len(tensors)


@pytest.mark.parametrize(
    "name",
    ["engine.json", "model.safetensors", "average.safetensors", "optimizer.safetensors", "past-000001.safetensors"],
)
@pytest.mark.parametrize("damage", ["missing", "empty", "other"])
def test_a_damaged_file_is_an_error_with_its_name(tmp_path, name, damage):
    engine = trained()
    folder = write(tmp_path / "saved", engine)
    if damage == "missing":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(b"" if damage == "empty" else b"{}" if name == "engine.json" else b"x" * 40)
    with pytest.raises(CheckpointError, match=r"cannot be (loaded|taken back)") as error:
        LocalEngine(engine.config).restore(folder)
    assert str(folder) in str(error.value) and (not name.startswith("past") or "member past-000001" in str(error.value))


def test_a_reference_gives_its_player_and_a_missing_one_is_refused():
    engine = trained()
    for player in (LEARNER, PUBLISHED, snapshot(1), bot("random"), ref("random")):
        assert engine.agent(player) is engine.agent(str(player)) is engine.agent(player)
    engine.drop_member(snapshot(1))
    assert engine.members == (snapshot(2),) and "past-000001" not in engine.agents
    for name in ("past-000001", "person-me", "bot-randm"):
        with pytest.raises(UnknownNameError, match=name.removeprefix("bot-")):
            engine.agent(name)


def test_the_published_policy_has_the_ema_weights_if_any():
    engine, engine_without_average = trained(), LocalEngine(config())
    assert engine.agent("policy").sampler.model is engine.learner.average.model
    assert engine_without_average.agent("policy").sampler.model is engine_without_average.model
    assert engine.agent("policy") is engine.agent("policy")


def test_agents_play_with_the_current_weights():
    engine = trained(rounds=1)
    setting = engine.config
    first_episodes = episodes_of(engine)
    play_round(setting, engine, Methods.of(setting), RunState(step=1))
    second_episodes = episodes_of(engine)
    fresh = LocalEngine(setting)
    fresh.model.load_tensors(engine.model.tensors())
    fresh.model.version = engine.model.version
    assert second_episodes == episodes_of(fresh) != first_episodes
    assert {turn.weights_version for episode in second_episodes for turn in episode.turns} == {2}


def test_bots_with_options_play_under_their_name():
    config = resolve(
        {
            "environments": [{"name": "tic_tac_toe", "illegal": {"rule": "random"}}],
            "threads": 1,
            "rollout": {"games_per_step": 4},
            "model": {"hidden_size": 8, "layers": 1, "heads": 1},
            "bots": {"weak": {"name": "minimax", "random_moves": 0.5}},
            "matchmaker": {"name": "mixed", "past": 0.0, "bots": {"weak": 1.0}},
        }
    )
    run = LocalEngine(config)
    outcome = play_round(config, run, Methods.of(config), RunState())
    assert {agent for episode in outcome.episodes for agent in episode.agents} == {"learner", "bot-weak"}
    assert run.agent("bot-weak").random_moves == 0.5


def test_a_tiny_model_larger_than_the_memory_is_refused():
    with pytest.raises(ModelError, match=r"tiny has .* M parameters and needs about .* GiB.*model.hidden_size"):
        LocalEngine(config(model={"hidden_size": 65536, "layers": 10_000, "heads": 1}))


def test_a_snapshot_is_written_once(tmp_path, monkeypatch):
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


def test_a_snapshot_that_cannot_be_linked_is_written(tmp_path, monkeypatch, saved):
    def refuse_link(*args, **kwargs):
        raise OSError(1, "Operation not permitted")

    engine = trained()
    earlier_folder, copied, with_new_member = (
        write(tmp_path / "earlier", engine),
        tmp_path / "copied",
        tmp_path / "more",
    )
    copied.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(files_module.os, "link", refuse_link)
        engine.save(copied, earlier_folder)
    assert {path.name: path.read_bytes() for path in copied.iterdir()} == saved(engine)
    assert not (copied / "past-000001.safetensors").samefile(earlier_folder / "past-000001.safetensors")
    engine.take_member(snapshot(3))
    with_new_member.mkdir()
    engine.save(with_new_member, earlier_folder)  # the earlier folder lacks this member
    assert {path.name: path.read_bytes() for path in with_new_member.iterdir()} == saved(engine)
    engine.save(earlier_folder, tmp_path / "gone")  # the earlier file has been removed meanwhile


def test_a_full_disk_is_an_error_with_its_cause(tmp_path):
    engine = trained(rounds=1)
    with pytest.raises(FileNotFoundError, match="gone"):
        engine.save(tmp_path / "gone")


def test_files_have_the_mode_of_the_umask(tmp_path):
    engine = trained(rounds=1)
    engine.save(tmp_path)
    (plain_file := tmp_path / "plain").write_bytes(b"")
    assert {path.stat().st_mode for path in tmp_path.iterdir()} == {plain_file.stat().st_mode}


# columns that estimators request by NEEDS
KUHN = {"name": "kuhn_poker", "illegal": {"rule": "forfeit", "penalty": 1.0}}


def engine_that_needs(*needs, game=KUHN, **changes):
    config = resolve(
        {"environments": [game], "rollout": {"games_per_step": 64}, "model": {"hidden_size": 16, "heads": 2}, **changes}
    )
    plugin = config.credit.bind("credit").plugin.module
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugin, "NEEDS", set(needs), raising=False)
        return LocalEngine(config)


def batch(run):
    episodes = episodes_of(run)
    return episodes, run.batch(episodes, progress=0.0).turns


def test_only_needed_columns_are_computed():
    _, turns = batch(engine_that_needs())
    assert [
        turns.value,
        turns.value_after,
        turns.token_value,
        turns.old_logprob,
        turns.reference_logprob,
        turns.action_value,
    ] == [None] * 6
    assert turns.process_logprob is None


def test_a_given_turn_table_is_not_made_again(monkeypatch):
    run = engine_that_needs()
    episodes, turns = batch(run)
    monkeypatch.setattr("sparring.engine.local.turn_table", None)
    assert run.batch(episodes, progress=0.0, turns=turns).turns is turns


def test_before_the_first_update_all_log_probabilities_agree():
    run = engine_that_needs("old_logprob", "reference_logprob")
    episodes, turns = batch(run)
    assert turns.old_logprob == pytest.approx(turns.logprob, abs=1e-4)
    assert turns.reference_logprob == pytest.approx(turns.logprob, abs=1e-4)
    learned = run.batch(episodes, progress=0.0)
    run.learn(learned, Credit(advantages=np.ones(len(turns.reward))), step=0, progress=0.0)
    turns_again = run.batch(episodes, progress=0.0).turns
    assert turns_again.old_logprob != pytest.approx(turns.logprob, abs=1e-4)
    assert turns_again.reference_logprob == pytest.approx(turns.logprob, abs=1e-4)


def test_values_are_read_at_the_positions_of_their_columns():
    run = engine_that_needs("value", "value_after", "token_value", rollout={"games_per_step": 64, "max_new_tokens": 3})
    with torch.no_grad():
        run.model.value_head.weight.normal_(generator=torch.Generator().manual_seed(0))
    episodes, turns = batch(run)
    data = pack(episodes)
    lengths = np.bincount(data.turn_of)
    first_token = np.cumsum(lengths) - lengths
    assert max(lengths) > 1
    assert len(turns.token_value) == len(data.turn_of)
    for row in range(0, len(turns.reward), 11):
        sequence, position = data.prompt_ends[row]
        ids = data.sequences[sequence]
        assert turns.token_value[first_token[row]] == turns.value[row]
        last_value = turns.token_value[first_token[row] + lengths[row] - 1]
        for value, end in (
            (turns.value[row], position),
            (last_value, position + lengths[row] - 1),
            (turns.value_after[row], position + lengths[row]),
        ):
            with torch.no_grad():
                output = hugging_face(run.model.network)(
                    torch.tensor([ids[: end + 1]]), output_hidden_states=True
                ).hidden_states[-1][0, -1:]
                assert value == pytest.approx(run.model.values(output).item(), abs=1e-4)


def test_action_values_are_exact_for_the_playing_policy():
    run = engine_that_needs("action_value", "state_value", "default_value")
    episodes, turns = batch(run)
    game = run.environments[0][0]
    states = enumerate_info_states(game)
    values = exact_values(states, query_policy(run.agent("learner"), states)[0])
    number = {(query.seat, query.key): index for index, query in enumerate(states.queries)}
    shapes_seen = set()
    for row, (_, turn) in enumerate(ordered_turns(episodes)):
        index = number[turn.seat, turn.state_key]
        assert turns.state_value[row] == pytest.approx(values.state[index])
        assert turns.default_value[row] == pytest.approx(values.action[index].mean())
        if turn.action is None:
            assert turns.action_value[row] == turns.reward[row]
        else:
            choice = states.queries[index].legal_actions.index(turn.action)
            assert turns.action_value[row] == pytest.approx(values.action[index][choice])
        shapes_seen.add(turn.action)
    assert len(shapes_seen) > 1


def test_action_values_of_a_too_large_game_are_refused():
    with pytest.raises(TooLargeError, match="connect_four"):
        engine_that_needs("action_value", "state_value", "default_value", game={"name": "connect_four"})


@pytest.mark.parametrize("needs", [("value",), ("value_after",), ("token_value",), ("value", "value_after")])
def test_the_critic_is_fitted_at_the_positions_that_are_read(needs):
    """The gradient is that of half the mean squared error of the values at these positions."""
    losses = [{"name": "policy_gradient", "weight": 0.0}, {"name": "value_loss"}]
    learner = {"gradient_norm": 1e9, "micro_tokens": 60}
    run = engine_that_needs(
        *needs,
        rollout={"games_per_step": 16, "max_new_tokens": 3},
        losses=losses,
        learner=learner,
        credit={"name": "gae"},
    )
    episodes, turns = batch(run)
    data = pack(episodes)
    read = turns.value if "value" in needs else turns.value_after if "value_after" in needs else turns.token_value
    targets = np.random.Generator(np.random.Philox(0)).normal(size=len(read))
    lengths = np.bincount(data.turn_of)
    first_token = np.cumsum(lengths) - lengths
    total = 0.0
    for row, (sequence, position) in enumerate(data.prompt_ends):
        ids = torch.tensor([data.sequences[sequence]])
        values = run.model.values(hugging_face(run.model.network)(ids, output_hidden_states=True).hidden_states[-1][0])
        if "value" in needs or "value_after" in needs:
            positions, token_rows = [position if "value" in needs else position + lengths[row]], [row]
        else:
            positions, token_rows = (
                range(position, position + lengths[row]),
                range(first_token[row], first_token[row] + lengths[row]),
            )
        total = total + ((values[list(positions)] - torch.tensor(targets[list(token_rows)])) ** 2).sum() / 2
    (expected,) = torch.autograd.grad(total / len(read), run.model.value_head.weight)
    gradients = []
    run.learner._apply = lambda: gradients.append(run.model.value_head.weight.grad.clone()) or 0.0
    run.learner.update(data, np.zeros(len(data.turn_of)), targets, progress=0.0, stream=run.root)
    assert gradients[0].numpy() == pytest.approx(expected.float().numpy(), rel=1e-3, abs=1e-6)


# games of weight 0 are held out: used in the warm-up and evaluation, but not trained; labels distinguish two sizes of a game
MINI, SIMPLE = (
    {"name": "hanabi", "options": {"size": "mini"}},
    {"name": "hanabi", "label": "large", "options": {"size": "simple"}},
)


def engine(*games, **changes):
    sizes = {"model": {"hidden_size": 16, "heads": 2, "context": 160}, "rollout": {"games_per_step": 16}}
    return LocalEngine(resolve({"environments": games, **sizes, **changes}))


def test_a_held_out_game_is_evaluated_but_not_trained():
    run = engine(
        {"name": "leduc_poker", "weight": 0},
        {"name": "kuhn_poker"},
        {"name": "tic_tac_toe", "weight": 0},
        warmup={"updates": 1, "games": 9},
        evaluation={"exact": False, "opponents": [{"name": "random", "games_per_seat": 2}]},
    )
    episode_games = []
    play, run.play = (
        run.play,
        lambda specs, judging=None: episode_games.append([spec.game.name for spec in specs]) or play(specs, judging),
    )
    warm_up(run.config, run)
    metrics = play_round(run.config, run, Methods.of(run.config), RunState()).metrics
    assert sorted(set(episode_games[0])) == ["kuhn_poker", "leduc_poker", "tic_tac_toe"]
    assert set(episode_games[1]) == {"kuhn_poker"}
    assert "legal_rate/kuhn_poker" in metrics
    assert "legal_rate/tic_tac_toe" not in metrics
    evaluated = Evaluator([game for game, _ in run.environments], run.config.evaluation).measure(
        run.agent("policy"), run.root
    )
    assert "match/tic_tac_toe/random/X/return" in evaluated
    plan = describe(run.config)
    assert (plan["games"], plan["held_out"]) == (["kuhn_poker"], ["leduc_poker", "tic_tac_toe"])


def test_rounding_never_chooses_a_held_out_last_game(monkeypatch):
    run = engine({"name": "kuhn_poker"}, {"name": "tic_tac_toe", "weight": 0})
    monkeypatch.setattr(type(run.root), "uniform", lambda self, index: 1.0)
    assert {spec.game.name for spec in specs_of(run)} == {"kuhn_poker"}


def test_labels_distinguish_two_sizes_of_a_game():
    run = engine(MINI, SIMPLE, reorder_outcomes=True, rewards=[{"name": "draw_bonus"}])
    metrics = play_round(run.config, run, Methods.of(run.config), RunState()).metrics
    assert {"legal_rate/hanabi", "legal_rate/large"} <= set(metrics)


def test_a_suite_counts_a_held_out_game_as_new():
    from sparring.measure.suite import load_suite

    config = resolve({"environments": [{**MINI, "weight": 0}, {"name": "kuhn_poker"}]})
    player = Player.__new__(Player)
    object.__setattr__(player, "config", config)
    rows = {row.name: row for row in load_suite("mars")[1].rows}
    assert player.trained_on(rows["kuhn_poker-exact"]) is True
    assert player.trained_on(rows["hanabi_mini-coplay"]) is False


# the cost of several candidates: their prompt is computed once
SOKOBAN = {"name": "sokoban", "options": {"rooms": 1000}, "oracle": {"name": "graded"}}
SUDOKU = {
    "name": "sudoku",
    "options": {"blanks": 4, "puzzles": 1000, "wrong": "continues"},
    "oracle": {"name": "constraint", "lost": "solution"},
}


def count_computed_tokens(count, environment, context, monkeypatch):
    num_computed, is_inside = [0], [False]
    contexts, computed = Prefill.contexts, Prefill.count_computed

    def watched(self, *arguments, **keywords):
        is_inside[0] = True
        try:
            return contexts(self, *arguments, **keywords)
        finally:
            is_inside[0] = False

    def adding(self, counts):
        num_computed[0] += sum(counts) if is_inside[0] else 0
        return computed(self, counts)

    config = resolve(
        {
            "threads": 1, "steps": 1, "environments": [{**environment, "illegal": {"rule": "random"}}], "rewards": [{"name": "best_action"}],
            "reorder_outcomes": True, "credit": {"name": "vpr", "baseline": "candidates" if count > 1 else "turn_index"},
            "context": {"name": context}, "rollout": {"games_per_step": 32, "candidates": {"count": count, "commit": "random"}},
        }
    )  # fmt: skip
    engine = LocalEngine(config)
    games = [game for game, _ in engine.environments]
    judging = ReplyJudges.of(
        config, games, 0.0, oracles=configured_oracles(config.environments, games), rewards=rewards_of(config)
    )
    with monkeypatch.context() as patch:
        patch.setattr(Prefill, "contexts", watched)
        patch.setattr(Prefill, "count_computed", adding)
        episodes = engine.play(specs_of(engine), judging).episodes
    return episodes, num_computed[0]


@pytest.mark.parametrize(("environment", "context"), [(SUDOKU, "full"), (SOKOBAN, "full"), (SOKOBAN, "markov")])
def test_four_candidates_compute_the_prompt_once(environment, context, monkeypatch):
    (one_reply, tokens_of_one), (four_replies, tokens_of_four) = (
        count_computed_tokens(count, environment, context, monkeypatch) for count in (1, 4)
    )
    assert [[turn.state_key for turn in episode.turns] for episode in one_reply] == [
        [turn.state_key for turn in episode.turns] for episode in four_replies
    ]
    assert all(
        len(turn.candidates) == 3 for episode in four_replies for turn in episode.turns if turn.event != "unsent"
    )
    assert tokens_of_one > 0 and tokens_of_four <= 1.05 * tokens_of_one, (tokens_of_one, tokens_of_four)
