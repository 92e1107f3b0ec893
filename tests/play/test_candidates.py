from dataclasses import replace
from functools import partial

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.config import resolve
from sparring.config.plugins.registry import bind
from sparring.core.errors import OracleError
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.learn.pack import pack
from sparring.methods.oracles.base import judge_states
from sparring.methods.oracles.judge import judge_episodes
from sparring.methods.rewards.base import by_oracle
from sparring.play.episode import Candidates, committed_candidate
from sparring.play.rollout import play
from sparring.play.store import EpisodeStore, from_bytes, to_bytes
from sparring.play.turn_table import ordered_turns, turn_table
from sparring.run.state import RunState
from sparring.run.step import Methods, candidate_metrics, play_round, rollout_metrics
from tests.play.plays import make_specs, tiny_learner

NUM_CANDIDATES = 4


def score_by_length(episodes):
    return [[float(len(turn.reply)) for turn in episode.turns] for episode in episodes]


def play_with_candidates(
    commit="any_best",
    score_function=score_by_length,
    num_candidates=NUM_CANDIDATES,
    explore=0.0,
    name="kuhn_poker",
    num_episodes=12,
    illegal=None,
    **options,
):
    game = make_game(name, illegal=illegal or {"rule": "random"})
    player, recorder = tiny_learner(game)
    candidates = Candidates(num_candidates, score_function, commit, explore) if num_candidates > 1 else None
    return play(make_specs(game, num_episodes), {"learner": player}, candidates=candidates, **options), recorder


def without_candidates(episode):
    turns = tuple(turn._replace(candidates=(), score=None) for turn in episode.turns)
    return replace(episode, turns=turns)


@pytest.mark.parametrize(
    ("scores", "commit", "committed_indices"),
    [
        ([0.0, 2.0, 1.0, 2.0], "best", {1}),
        ([0.0, 2.0, 1.0, 2.0], "any_best", {1, 3}),
        ([0.0, 2.0, 1.0, 2.0], "random", {0}),
        ([None, -1.0, None, -2.0], "best", {1}),
        ([None, None], "best", {0}),
        ([None, None], "any_best", {0}),
        ([1e6, 1e6, 1e6], "best", {0}),
        ([1e6, 1e6, 1e6], "any_best", {0, 1, 2}),
    ],
)
def test_the_committed_reply_by_hand(scores, commit, committed_indices):
    assert {committed_candidate(scores, commit, 0.0, Stream.from_seed(seed)) for seed in range(60)} == committed_indices


@given(st.lists(st.none() | st.floats(-1e6, 1e6), min_size=1, max_size=9), st.integers(0, 2**32), st.floats(0, 1))
def test_the_committed_reply_has_the_largest_score_or_is_reply_0(scores, seed, explore):
    committed_index = committed_candidate(scores, "any_best", explore, Stream(seed))
    known_scores = [score for score in scores if score is not None]
    assert committed_index == 0 or scores[committed_index] == max(known_scores)
    if explore == 0 and known_scores:
        assert scores[committed_index] == max(known_scores)
    if explore == 1:
        assert committed_index == 0


def test_explore_commits_reply_0_in_its_share_of_decisions():
    committed_indices = [committed_candidate([0.0, 1.0], "best", 0.25, Stream.from_seed(seed)) for seed in range(4000)]
    assert np.mean(committed_indices) == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("name", ["kuhn_poker", "tic_tac_toe"])
def test_with_reply_0_committed_the_episode_equals_one_without_candidates(name):
    with_candidates, _ = play_with_candidates("random", name=name)
    episodes_without, _ = play_with_candidates(num_candidates=1, name=name)
    assert [without_candidates(episode) for episode in with_candidates] == episodes_without
    assert all(len(turn.candidates) == NUM_CANDIDATES - 1 for episode in with_candidates for turn in episode.turns)


def test_the_best_candidate_is_played_and_the_episode_continues_from_it():
    episodes, _ = play_with_candidates("best", illegal={"rule": "retry", "retries": 1, "penalty": 0.5})
    num_not_first = 0
    for episode in episodes:
        for turn in episode.turns:
            candidates = (turn, *turn.candidates)
            assert sorted(reply.candidate for reply in candidates) == list(range(NUM_CANDIDATES))
            assert turn.score == max(reply.score for reply in candidates)
            assert turn.candidate == min(reply.candidate for reply in candidates if reply.score == turn.score)
            assert (
                len(
                    {
                        (reply.seat, reply.turn_index, reply.moment, reply.state_key, reply.prompt)
                        for reply in candidates
                    }
                )
                == 1
            )
            assert all("game" not in reply.rewards for reply in turn.candidates)
            assert all(("illegal" in reply.rewards) == (reply.event != "ok") for reply in candidates)
            num_not_first += turn.candidate > 0
    assert num_not_first


def test_every_candidate_has_the_ids_that_the_model_saw():
    episodes, recorder = play_with_candidates("best", name="tic_tac_toe", illegal={"rule": "retry", "retries": 1})
    sent_ids = sorted(recorder.sent)
    prompts = []
    for episode in episodes:
        conversations = {}
        for turn in episode.turns:
            for reply in (turn, *turn.candidates):
                ids = conversations.setdefault((reply.seat, reply.conversation), [])
                for segment in reply.segments:
                    if segment.kind == "sampled":
                        prompts.append(tuple(ids))
                    ids.extend(segment.ids)
        assert len(conversations) == 2 + sum(len(turn.candidates) for turn in episode.turns)
    assert sorted(prompts) == sent_ids


@pytest.mark.parametrize("in_flight", [1, 5])
def test_candidates_do_not_depend_on_the_number_of_plays_in_flight(in_flight):
    assert play_with_candidates(in_flight=in_flight)[0] == play_with_candidates()[0]


def test_the_turn_table_has_committed_replies_or_all_candidates():
    episodes, _ = play_with_candidates()
    committed_rows, all_rows = turn_table(episodes), turn_table(episodes, candidates=True)
    rows_without = turn_table([without_candidates(episode) for episode in episodes])
    assert committed_rows.state_group is None and committed_rows.committed is None
    assert np.array_equal(committed_rows.reward, rows_without.reward) and np.array_equal(
        committed_rows.trajectory, rows_without.trajectory
    )
    assert len(all_rows.reward) == NUM_CANDIDATES * len(committed_rows.reward)
    assert all_rows.committed.sum() == len(committed_rows.reward)
    assert (np.bincount(all_rows.state_group) == NUM_CANDIDATES).all()
    assert (np.bincount(all_rows.state_group, weights=all_rows.committed) == 1).all()
    assert np.array_equal(all_rows.reward[all_rows.committed], committed_rows.reward)
    # each reply that was not played is its own trajectory of one turn
    lengths = np.bincount(all_rows.trajectory)
    assert (lengths[all_rows.trajectory[~all_rows.committed]] == 1).all() and all_rows.done[~all_rows.committed].all()
    assert (np.diff(all_rows.trajectory) >= 0).all()


def test_every_candidate_is_packed_with_its_sampled_log_probabilities():
    episodes, _ = play_with_candidates()
    batch = pack(episodes, candidates=True)
    rows = list(ordered_turns(episodes, candidates=True))
    assert len(batch.prompt_ends) == len(rows) == len(turn_table(episodes, candidates=True).reward)
    logprobs = [
        logprob
        for _, turn in rows
        for segment in turn.segments
        if segment.kind == "sampled"
        for logprob in segment.logprobs
    ]
    assert batch.logprobs.tolist() == logprobs
    assert len(pack(episodes).prompt_ends) == len(turn_table(episodes).reward)


def test_stored_episodes_have_all_candidates(tmp_path):
    episodes, _ = play_with_candidates()
    assert [episode for _, episode in from_bytes(to_bytes([(1, episode) for episode in episodes]))] == episodes
    store = EpisodeStore(tmp_path / "episodes")
    store.append(1, episodes)
    query = f"SELECT committed, count(*) FROM '{tmp_path}/episodes/*.parquet' GROUP BY committed ORDER BY committed"
    num_turns = sum(len(episode.turns) for episode in episodes)
    assert duckdb.sql(query).fetchall() == [(False, 3 * num_turns), (True, num_turns)]
    groups = f"SELECT DISTINCT n FROM (SELECT count(*) AS n FROM '{tmp_path}/episodes/*.parquet' GROUP BY episode_id, state_group)"
    assert duckdb.sql(groups).fetchall() == [(NUM_CANDIDATES,)]


def test_only_trained_seats_have_candidates():
    game = make_game("kuhn_poker", illegal={"rule": "random"})
    player, _ = tiny_learner(game)
    episodes = play(
        make_specs(game, 6, trained=(True, False)), {"learner": player}, candidates=Candidates(3, score_by_length)
    )
    assert {(turn.seat, len(turn.candidates)) for episode in episodes for turn in episode.turns} == {(0, 2), (1, 0)}


def test_the_oracle_judges_each_prompt_once_for_all_candidates():
    game = make_game("kuhn_poker", illegal={"rule": "random"})
    oracle, judged_states = bind("oracles", "cfr", {"iterations": 50})(), []

    def judge(states, streams):
        judged_states.extend(states)
        return judge_states(oracle, states, streams)

    player, _ = tiny_learner(game)
    episodes = play(
        make_specs(game, 8),
        {"learner": player},
        judges={game.name: judge},
        candidates=Candidates(NUM_CANDIDATES, by_oracle),
    )
    turns = [turn for episode in episodes for turn in episode.turns]
    assert len(judged_states) == len(turns)
    assert all(reply.verdict == turn.verdict and reply.verdict for turn in turns for reply in turn.candidates)
    assert all(turn.score == max(reply.score for reply in (turn, *turn.candidates)) for turn in turns)


def test_without_a_judge_the_first_candidate_is_played_and_counted():
    episodes, _ = play_with_candidates(score_function=by_oracle)  # no oracle judges these turns
    turns = [turn for episode in episodes for turn in episode.turns]
    assert all(turn.candidate == 0 and turn.score is None for turn in turns)
    metrics = candidate_metrics(episodes)
    assert metrics["candidates/unjudged"] == 1.0 and metrics["candidates/equal_share"] == 0.0
    assert metrics["candidates/score"] == metrics["candidates/gain"] == 0.0


def test_the_metrics_of_candidates_by_hand():
    episodes, _ = play_with_candidates("best", num_episodes=3)
    turns = [turn for episode in episodes for turn in episode.turns]
    groups = [[reply.score for reply in (turn, *turn.candidates)] for turn in turns]
    metrics = candidate_metrics(episodes)
    assert metrics["candidates/decisions"] == len(turns) / 3
    assert metrics["candidates/score"] == pytest.approx(np.mean(groups))
    assert metrics["candidates/gain"] == pytest.approx(np.mean([max(scores) for scores in groups]) - np.mean(groups))
    assert metrics["candidates/equal_share"] == pytest.approx(np.mean([len(set(scores)) == 1 for scores in groups]))
    all_replies = [reply for turn in turns for reply in (turn, *turn.candidates)]
    num_tokens = [len(segment.ids) for reply in all_replies for segment in reply.segments if segment.kind == "sampled"]
    assert metrics["candidates/tokens"] == sum(num_tokens)
    assert rollout_metrics(episodes)["legal_rate"] == np.mean([reply.event == "ok" for reply in all_replies])
    assert rollout_metrics(episodes)["turns_per_game"] == len(turns) / 3
    assert candidate_metrics([without_candidates(episode) for episode in episodes]) == {}


def test_turns_of_a_prefix_get_no_new_candidates():
    (first_episode, *_), _ = play_with_candidates("best", name="tic_tac_toe")
    game = make_game("tic_tac_toe", illegal={"rule": "random"})
    player, recorder = tiny_learner(game)
    spec = replace(make_specs(game, 1)[0], prefix=first_episode.turns[:3])
    (continued_episode,) = play(
        [spec], {"learner": player}, candidates=Candidates(NUM_CANDIDATES, score_by_length, "best")
    )
    assert [turn.action for turn in continued_episode.turns[:3]] == [turn.action for turn in first_episode.turns[:3]]
    assert len(recorder.sent) == NUM_CANDIDATES * len(continued_episode.turns[3:])


CASES = [
    ("kuhn_poker", "cfr", {"iterations": 50}),
    ("tic_tac_toe", "minimax", {}),
    ("tic_tac_toe", "mcts", {"simulations": 8}),
    ("mastermind", "posterior", {}),
    ("dag_search", "planning", {}),
]


def judge_in_play_and_replay(name, oracle, options, rule="random", **changes):
    game = make_game(name, illegal={"rule": rule})
    judge, agents = bind("oracles", oracle, options)(), {"random": bind("players", "random")()}
    specs = make_specs(game, 6, seed=3, name="random", group_size=2, **changes)
    judges = {game.name: partial(judge_states, judge)}
    return play(specs, agents, judges=judges, in_flight=4), judge_episodes(
        play(specs, agents), {game.name: game}, {game.name: judge}
    )


@pytest.mark.parametrize(("name", "oracle", "options"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES])
def test_verdicts_during_play_equal_those_of_a_replay(name, oracle, options):
    in_play, in_replay = judge_in_play_and_replay(name, oracle, options)
    assert in_play == in_replay
    assert any(turn.verdict is not None for episode in in_play for turn in episode.turns)


def test_a_noisy_oracle_draws_the_same_errors_in_play_and_replay():
    in_play, in_replay = judge_in_play_and_replay("tic_tac_toe", "noisy", {"flip": 0.5, "per": "turn"})
    assert in_play == in_replay


def test_only_trained_seats_are_judged():
    in_play, _ = judge_in_play_and_replay("kuhn_poker", "cfr", {"iterations": 50}, trained=(True, False))
    assert {(turn.seat, turn.verdict is not None) for episode in in_play for turn in episode.turns} == {
        (0, True),
        (1, False),
    }


def test_an_error_of_the_oracle_stops_the_play():
    def raise_oracle_error(states, streams):
        raise OracleError("no")

    game = make_game("kuhn_poker")
    with pytest.raises(OracleError, match="no"):
        play(
            make_specs(game, 6, name="random"),
            {"random": bind("players", "random")()},
            judges={"kuhn_poker": raise_oracle_error},
        )


def test_an_oracle_that_changes_its_states_changes_no_episode():
    def change_the_state(states, streams):
        for state in states:
            state.apply(state.legal_actions()[0])
        return [None] * len(states)

    game, agents = make_game("tic_tac_toe"), {"random": bind("players", "random")()}
    specs = make_specs(game, 6, name="random")
    assert play(specs, agents, judges={"tic_tac_toe": change_the_state}) == play(specs, agents)


@pytest.mark.parametrize(
    "plan", [{"name": "none"}, {"name": "tree"}, {"name": "branch"}], ids=lambda plan: plan["name"]
)
def test_a_training_step_judges_every_trained_turn_as_a_replay(plan):
    environments = [{"name": "tic_tac_toe", "illegal": {"rule": "random"}, "oracle": {"name": "minimax"}}]
    rollout = {"games_per_step": 16, "group_size": 8, "plan": plan}
    config = resolve(
        {
            "environments": environments,
            "threads": 1,
            "rollout": rollout,
            "model": {"hidden_size": 8, "layers": 1, "heads": 1},
        }
    )
    engine = LocalEngine(config)
    games = [game for game, _ in engine.environments]
    methods = Methods.of(config, games)
    episodes = play_round(config, engine, methods, RunState()).episodes
    without_candidates = [replace(e, turns=tuple(t._replace(verdict=None) for t in e.turns)) for e in episodes]
    assert judge_episodes(without_candidates, {game.name: game for game in games}, methods.oracles) == episodes
    assert all(turn.verdict is not None for e in episodes for turn in e.turns if e.trained[turn.seat])
