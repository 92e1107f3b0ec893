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

SMALL_MODEL = {"hidden_size": 8, "layers": 1, "heads": 1}


def make_config(**changes):
    defaults = {
        "environments": [{"name": "kuhn_poker"}],
        "steps": 4,
        "threads": 1,
        "rollout": {"games_per_step": 8},
        "model": SMALL_MODEL,
    }
    return resolve(
        {**defaults, "credit": {"name": "gae"}, "losses": [{"name": "ppo_clip"}, {"name": "value_loss"}], **changes}
    )


def train_engine(num_steps=2, **changes):
    config = make_config(learner={"average": 0.9}, **changes)
    engine = LocalEngine(config)
    for step in range(num_steps):
        play_round(config, engine, Methods.of(config), RunState(step=step))
        engine.take_member(snapshot(step + 1))
    return engine


def save_engine(folder, engine):
    folder.mkdir(exist_ok=True)
    engine.save(folder)
    return folder


def test_a_saved_engine_is_restored_bit_for_bit(tmp_path, saved):
    engine = train_engine()
    files = saved(engine)
    restored_engine = LocalEngine(engine.config)
    assert saved(restored_engine) != files
    restored_engine.restore(save_engine(tmp_path / "saved", engine))
    assert saved(restored_engine) == files
    assert restored_engine.members == engine.members == (snapshot(1), snapshot(2))
    assert restored_engine.learner.average.model.version == restored_engine.model.version == 2
    assert restored_engine.model.value_head.weight.abs().sum() > 0


def test_saving_and_restoring_do_not_change_training(tmp_path, saved):
    engine, twin_engine = train_engine(), train_engine()
    engine.restore(save_engine(tmp_path / "saved", engine))
    for each_engine in (engine, twin_engine):
        play_round(each_engine.config, each_engine, Methods.of(each_engine.config), RunState(step=2))
    assert saved(engine) == saved(twin_engine)


def test_checkpoints_have_only_safetensors_and_json(saved):
    files = saved(train_engine())
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
    engine = train_engine()
    folder = save_engine(tmp_path / "saved", engine)
    if damage == "missing":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(b"" if damage == "empty" else b"{}" if name == "engine.json" else b"x" * 40)
    with pytest.raises(CheckpointError, match=r"cannot be (loaded|taken back)") as error:
        LocalEngine(engine.config).restore(folder)
    assert str(folder) in str(error.value) and (not name.startswith("past") or "member past-000001" in str(error.value))


def test_a_reference_gives_its_player_and_a_missing_one_is_refused():
    engine = train_engine()
    for player in (LEARNER, PUBLISHED, snapshot(1), bot("random"), ref("random")):
        assert engine.agent(player) is engine.agent(str(player)) is engine.agent(player)
    engine.drop_member(snapshot(1))
    assert engine.members == (snapshot(2),) and "past-000001" not in engine.agents
    for name in ("past-000001", "person-me", "bot-randm"):
        with pytest.raises(UnknownNameError, match=name.removeprefix("bot-")):
            engine.agent(name)


def test_the_published_policy_has_the_ema_weights_if_any():
    engine, engine_without_average = train_engine(), LocalEngine(make_config())
    assert engine.agent("policy").sampler.model is engine.learner.average.model
    assert engine_without_average.agent("policy").sampler.model is engine_without_average.model
    assert engine.agent("policy") is engine.agent("policy")


def test_agents_play_with_the_current_weights():
    engine = train_engine(num_steps=1)
    config = engine.config
    first_episodes = episodes_of(engine)
    play_round(config, engine, Methods.of(config), RunState(step=1))
    second_episodes = episodes_of(engine)
    fresh_engine = LocalEngine(config)
    fresh_engine.model.load_tensors(engine.model.tensors())
    fresh_engine.model.version = engine.model.version
    assert second_episodes == episodes_of(fresh_engine) != first_episodes
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
    engine = LocalEngine(config)
    outcome = play_round(config, engine, Methods.of(config), RunState())
    assert {agent for episode in outcome.episodes for agent in episode.agents} == {"learner", "bot-weak"}
    assert engine.agent("bot-weak").random_moves == 0.5


def test_a_tiny_model_larger_than_the_memory_is_refused():
    with pytest.raises(ModelError, match=r"tiny has .* M parameters and needs about .* GiB.*model.hidden_size"):
        LocalEngine(make_config(model={"hidden_size": 65536, "layers": 10_000, "heads": 1}))


def test_a_snapshot_is_written_once(tmp_path, monkeypatch):
    engine, folders = train_engine(), []
    for number in range(3):
        folders.append(tmp_path / str(number))
        folders[-1].mkdir()
        engine.save(folders[-1], folders[-2] if number else None)
    fresh_folder = tmp_path / "fresh"
    fresh_folder.mkdir()
    engine.save(fresh_folder)
    for name in engine.members:
        files = [folder / f"{name}.safetensors" for folder in folders]
        assert files[0].samefile(files[1]) and files[0].samefile(files[2])
        assert files[2].read_bytes() == (fresh_folder / files[0].name).read_bytes()
        assert not files[0].samefile(fresh_folder / files[0].name)
    assert not (folders[0] / "model.safetensors").samefile(folders[1] / "model.safetensors")


def test_a_snapshot_that_cannot_be_linked_is_written(tmp_path, monkeypatch, saved):
    def refuse_link(*args, **kwargs):
        raise OSError(1, "Operation not permitted")

    engine = train_engine()
    earlier_folder, copied_folder, folder_with_new_member = (
        save_engine(tmp_path / "earlier", engine),
        tmp_path / "copied",
        tmp_path / "more",
    )
    copied_folder.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(files_module.os, "link", refuse_link)
        engine.save(copied_folder, earlier_folder)
    assert {path.name: path.read_bytes() for path in copied_folder.iterdir()} == saved(engine)
    assert not (copied_folder / "past-000001.safetensors").samefile(earlier_folder / "past-000001.safetensors")
    engine.take_member(snapshot(3))
    folder_with_new_member.mkdir()
    engine.save(folder_with_new_member, earlier_folder)  # the earlier folder lacks this member
    assert {path.name: path.read_bytes() for path in folder_with_new_member.iterdir()} == saved(engine)
    engine.save(earlier_folder, tmp_path / "gone")  # the earlier file has been removed meanwhile


def test_a_missing_folder_is_an_error_with_its_path(tmp_path):
    engine = train_engine(num_steps=1)
    with pytest.raises(FileNotFoundError, match="gone"):
        engine.save(tmp_path / "gone")


def test_files_have_the_mode_of_the_umask(tmp_path):
    engine = train_engine(num_steps=1)
    engine.save(tmp_path)
    (plain_file := tmp_path / "plain").write_bytes(b"")
    assert {path.stat().st_mode for path in tmp_path.iterdir()} == {plain_file.stat().st_mode}


# Columns that estimators request by NEEDS.
KUHN = {"name": "kuhn_poker", "illegal": {"rule": "forfeit", "penalty": 1.0}}


def engine_that_needs(*needs, game=KUHN, **changes):
    config = resolve(
        {"environments": [game], "rollout": {"games_per_step": 64}, "model": {"hidden_size": 16, "heads": 2}, **changes}
    )
    module = config.credit.bind("credit").plugin.module
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "NEEDS", set(needs), raising=False)
        return LocalEngine(config)


def episodes_and_turns(engine):
    episodes = episodes_of(engine)
    return episodes, engine.batch(episodes, progress=0.0).turns


def test_only_needed_columns_are_computed():
    _, turns = episodes_and_turns(engine_that_needs())
    assert [
        turns.value,
        turns.value_after,
        turns.token_value,
        turns.old_logprob,
        turns.reference_logprob,
        turns.action_value,
    ] == [None] * 6
    assert turns.process_logprob is None


def test_batch_does_not_rebuild_a_turn_table_that_it_receives(monkeypatch):
    engine = engine_that_needs()
    episodes, turns = episodes_and_turns(engine)
    monkeypatch.setattr("sparring.engine.local.turn_table", None)
    assert engine.batch(episodes, progress=0.0, turns=turns).turns is turns


def test_before_the_first_update_all_log_probabilities_agree():
    engine = engine_that_needs("old_logprob", "reference_logprob")
    episodes, turns = episodes_and_turns(engine)
    assert turns.old_logprob == pytest.approx(turns.logprob, abs=1e-4)
    assert turns.reference_logprob == pytest.approx(turns.logprob, abs=1e-4)
    batch = engine.batch(episodes, progress=0.0)
    engine.learn(batch, Credit(advantages=np.ones(len(turns.reward))), step=0, progress=0.0)
    turns_after_update = engine.batch(episodes, progress=0.0).turns
    assert turns_after_update.old_logprob != pytest.approx(turns.logprob, abs=1e-4)
    assert turns_after_update.reference_logprob == pytest.approx(turns.logprob, abs=1e-4)


def test_values_are_read_at_the_positions_of_their_columns():
    engine = engine_that_needs(
        "value", "value_after", "token_value", rollout={"games_per_step": 64, "max_new_tokens": 3}
    )
    with torch.no_grad():
        engine.model.value_head.weight.normal_(generator=torch.Generator().manual_seed(0))
    episodes, turns = episodes_and_turns(engine)
    batch = pack(episodes)
    lengths = np.bincount(batch.turn_of)
    first_tokens = np.cumsum(lengths) - lengths
    assert max(lengths) > 1
    assert len(turns.token_value) == len(batch.turn_of)
    for row in range(0, len(turns.reward), 11):
        sequence, prompt_end = batch.prompt_ends[row]
        ids = batch.sequences[sequence]
        assert turns.token_value[first_tokens[row]] == turns.value[row]
        last_value = turns.token_value[first_tokens[row] + lengths[row] - 1]
        for value, last_token in (
            (turns.value[row], prompt_end),
            (last_value, prompt_end + lengths[row] - 1),
            (turns.value_after[row], prompt_end + lengths[row]),
        ):
            with torch.no_grad():
                output = hugging_face(engine.model.network)(
                    torch.tensor([ids[: last_token + 1]]), output_hidden_states=True
                ).hidden_states[-1][0, -1:]
                assert value == pytest.approx(engine.model.values(output).item(), abs=1e-4)


def test_action_values_are_exact_for_the_playing_policy():
    engine = engine_that_needs("action_value", "state_value", "default_value")
    episodes, turns = episodes_and_turns(engine)
    game = engine.environments[0][0]
    states = enumerate_info_states(game)
    values = exact_values(states, query_policy(engine.agent("learner"), states)[0])
    index_of_state = {(query.seat, query.key): index for index, query in enumerate(states.queries)}
    actions = set()
    for row, (_, turn) in enumerate(ordered_turns(episodes)):
        index = index_of_state[turn.seat, turn.state_key]
        assert turns.state_value[row] == pytest.approx(values.state[index])
        assert turns.default_value[row] == pytest.approx(values.action[index].mean())
        if turn.action is None:
            assert turns.action_value[row] == turns.reward[row]
        else:
            action_index = states.queries[index].legal_actions.index(turn.action)
            assert turns.action_value[row] == pytest.approx(values.action[index][action_index])
        actions.add(turn.action)
    assert len(actions) > 1


def test_action_values_of_a_too_large_game_are_refused():
    with pytest.raises(TooLargeError, match="connect_four"):
        engine_that_needs("action_value", "state_value", "default_value", game={"name": "connect_four"})


@pytest.mark.parametrize("needs", [("value",), ("value_after",), ("token_value",), ("value", "value_after")])
def test_the_critic_is_fitted_at_the_positions_that_are_read(needs):
    """The gradient is that of half the mean squared error of the values at these positions."""
    losses = [{"name": "policy_gradient", "weight": 0.0}, {"name": "value_loss"}]
    learner = {"gradient_norm": 1e9, "micro_tokens": 60}
    engine = engine_that_needs(
        *needs,
        rollout={"games_per_step": 16, "max_new_tokens": 3},
        losses=losses,
        learner=learner,
        credit={"name": "gae"},
    )
    episodes, turns = episodes_and_turns(engine)
    batch = pack(episodes)
    predicted = turns.value if "value" in needs else turns.value_after if "value_after" in needs else turns.token_value
    targets = np.random.Generator(np.random.Philox(0)).normal(size=len(predicted))
    lengths = np.bincount(batch.turn_of)
    first_tokens = np.cumsum(lengths) - lengths
    squared_errors = 0.0
    for row, (sequence, prompt_end) in enumerate(batch.prompt_ends):
        ids = torch.tensor([batch.sequences[sequence]])
        values = engine.model.values(
            hugging_face(engine.model.network)(ids, output_hidden_states=True).hidden_states[-1][0]
        )
        if "value" in needs or "value_after" in needs:
            positions, token_rows = [prompt_end if "value" in needs else prompt_end + lengths[row]], [row]
        else:
            positions, token_rows = (
                range(prompt_end, prompt_end + lengths[row]),
                range(first_tokens[row], first_tokens[row] + lengths[row]),
            )
        squared_errors = (
            squared_errors + ((values[list(positions)] - torch.tensor(targets[list(token_rows)])) ** 2).sum() / 2
        )
    (expected,) = torch.autograd.grad(squared_errors / len(predicted), engine.model.value_head.weight)
    gradients = []
    engine.learner._apply_gradient = lambda: gradients.append(engine.model.value_head.weight.grad.clone()) or 0.0
    engine.learner.update(batch, np.zeros(len(batch.turn_of)), targets, progress=0.0, stream=engine.root)
    assert gradients[0].numpy() == pytest.approx(expected.float().numpy(), rel=1e-3, abs=1e-6)


# Games of weight 0 are held out: the warm-up and the evaluation use them, but steps do not train on them. Labels
# distinguish two sizes of a game.
MINI, SIMPLE = (
    {"name": "hanabi", "options": {"size": "mini"}},
    {"name": "hanabi", "label": "large", "options": {"size": "simple"}},
)


def make_engine(*games, **changes):
    sizes = {"model": {"hidden_size": 16, "heads": 2, "context": 160}, "rollout": {"games_per_step": 16}}
    return LocalEngine(resolve({"environments": games, **sizes, **changes}))


def test_a_held_out_game_is_evaluated_but_not_trained():
    engine = make_engine(
        {"name": "leduc_poker", "weight": 0},
        {"name": "kuhn_poker"},
        {"name": "tic_tac_toe", "weight": 0},
        warmup={"updates": 1, "games": 9},
        evaluation={"exact": False, "opponents": [{"name": "random", "games_per_seat": 2}]},
    )
    games_of_calls = []
    play, engine.play = (
        engine.play,
        lambda specs, judging=None: games_of_calls.append([spec.game.name for spec in specs]) or play(specs, judging),
    )
    warm_up(engine.config, engine)
    metrics = play_round(engine.config, engine, Methods.of(engine.config), RunState()).metrics
    assert sorted(set(games_of_calls[0])) == ["kuhn_poker", "leduc_poker", "tic_tac_toe"]
    assert set(games_of_calls[1]) == {"kuhn_poker"}
    assert "legal_rate/kuhn_poker" in metrics
    assert "legal_rate/tic_tac_toe" not in metrics
    evaluation_metrics = Evaluator([game for game, _ in engine.environments], engine.config.evaluation).measure(
        engine.agent("policy"), engine.root
    )
    assert "match/tic_tac_toe/random/X/return" in evaluation_metrics
    plan = describe(engine.config)
    assert (plan["games"], plan["held_out"]) == (["kuhn_poker"], ["leduc_poker", "tic_tac_toe"])


def test_rounding_never_chooses_a_held_out_last_game(monkeypatch):
    engine = make_engine({"name": "kuhn_poker"}, {"name": "tic_tac_toe", "weight": 0})
    monkeypatch.setattr(type(engine.root), "uniform", lambda self, index: 1.0)
    assert {spec.game.name for spec in specs_of(engine)} == {"kuhn_poker"}


def test_labels_distinguish_two_sizes_of_a_game():
    engine = make_engine(MINI, SIMPLE, reorder_outcomes=True, rewards=[{"name": "draw_bonus"}])
    metrics = play_round(engine.config, engine, Methods.of(engine.config), RunState()).metrics
    assert {"legal_rate/hanabi", "legal_rate/large"} <= set(metrics)


def test_a_suite_counts_a_held_out_game_as_new():
    from sparring.measure.suite import load_suite

    config = resolve({"environments": [{**MINI, "weight": 0}, {"name": "kuhn_poker"}]})
    player = Player.__new__(Player)
    object.__setattr__(player, "config", config)
    rows = {row.name: row for row in load_suite("mars")[1].rows}
    assert player.trained_on(rows["kuhn_poker-exact"]) is True
    assert player.trained_on(rows["hanabi_mini-coplay"]) is False


# The cost of several candidates: their prompt is computed once.
SOKOBAN = {"name": "sokoban", "options": {"rooms": 1000}, "oracle": {"name": "graded"}}
SUDOKU = {
    "name": "sudoku",
    "options": {"blanks": 4, "puzzles": 1000, "wrong": "continues"},
    "oracle": {"name": "constraint", "lost": "solution"},
}


def count_computed_tokens(num_candidates, environment, context, monkeypatch):
    num_computed, is_inside = [0], [False]
    original_contexts, original_count = Prefill.contexts, Prefill.count_computed

    def note_contexts(self, *arguments, **keywords):
        is_inside[0] = True
        try:
            return original_contexts(self, *arguments, **keywords)
        finally:
            is_inside[0] = False

    def add_counts(self, counts):
        num_computed[0] += sum(counts) if is_inside[0] else 0
        return original_count(self, counts)

    config = resolve(
        {
            "threads": 1, "steps": 1, "environments": [{**environment, "illegal": {"rule": "random"}}], "rewards": [{"name": "best_action"}],
            "reorder_outcomes": True, "credit": {"name": "vpr", "baseline": "candidates" if num_candidates > 1 else "turn_index"},
            "context": {"name": context}, "rollout": {"games_per_step": 32, "candidates": {"count": num_candidates, "commit": "random"}},
        }
    )  # fmt: skip
    engine = LocalEngine(config)
    games = [game for game, _ in engine.environments]
    judging = ReplyJudges.of(
        config, games, 0.0, oracles=configured_oracles(config.environments, games), rewards=rewards_of(config)
    )
    with monkeypatch.context() as patch:
        patch.setattr(Prefill, "contexts", note_contexts)
        patch.setattr(Prefill, "count_computed", add_counts)
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
