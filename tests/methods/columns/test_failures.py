from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.play import plays

from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.core.errors import CreditError, RolloutError
from sparring.core.records import Segment
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.league.seating import step_specs
from sparring.methods.columns.wideseek_turns import REPETITION_TOKENS, find_trained_turns
from sparring.methods.credit.grpo import grpo
from sparring.play.players.base import TextAgent
from sparring.play.replay import FAILED, conversations
from sparring.play.rollout import play
from sparring.play.turn_table import ordered_turns, turn_table

TEAM = {"items": 4, "columns": 1, "workers": 2, "turns": 2, "waves": 1, "worlds": 3, "answer": "written"}


class ScriptedPlayer(TextAgent):
    """A player that replies with the lines of its seat in order, then repeats the last line."""

    def __init__(self, lines):
        super().__init__("says")
        self.lines, self.at = lines, Counter()

    def choose(self, state, seat, stream):
        line = self.lines[seat][min(self.at[seat], len(self.lines[seat]) - 1)]
        self.at[seat] += 1
        return state.legal(seat)[0] if line is None else line


def episode_of(game, lines, trained=None):
    (spec,) = plays.make_specs(game, 1, name="it")
    (episode,) = play([replace(spec, trained=trained or spec.trained)], {"it": ScriptedPlayer(lines)})
    return episode


def game_of(**options):
    return make_game("wide_search", options={**TEAM, **options}, illegal={"rule": "forfeit"})


def trained_seats_and_turns(episode, positions):
    """Return the trained turns as pairs: the seat, and the index among the turns of that seat."""
    return {(episode.turns[position].seat, episode.turns[position].turn_index) for position in positions}


def with_turn(episode, position, tokens, **changes):
    turns = list(episode.turns)
    segments = (Segment("sampled", (1,) * tokens, (0.0,) * tokens),)
    turns[position] = turns[position]._replace(segments=segments, **changes)
    return replace(episode, turns=tuple(turns))


def turn_position(episode, seat, index):
    return next(
        position for position, turn in enumerate(episode.turns) if (turn.seat, turn.turn_index) == (seat, index)
    )


LEAD = [(0, 0), (0, 1)]
READABLE_ANSWER = {
    0: ["call 2", "none"],
    1: [None, None],
    2: [None, "done"],
}  # worker 1 has no turns left, worker 2 gives up
MALFORMED_ANSWER = {**READABLE_ANSWER, 0: ["call 2", "what?"]}


def test_if_the_answer_is_readable_all_seats_train_except_failed_workers():
    game = game_of()
    episode = episode_of(game, READABLE_ANSWER)
    assert trained_seats_and_turns(episode, find_trained_turns(game, episode)) == {*LEAD, (2, 0), (2, 1)}
    without_failures = episode_of(game, {**READABLE_ANSWER, 1: ["done"]})
    assert find_trained_turns(game, without_failures) == {*range(len(without_failures.turns))}


def test_if_the_lead_failed_only_the_turns_of_the_lead_train():
    game = game_of()
    episode = episode_of(game, READABLE_ANSWER)
    truncated_episode = with_turn(
        episode, -1, 0, truncated=True, reply=""
    )  # the reply exceeded the context, yet its table is readable
    assert trained_seats_and_turns(truncated_episode, find_trained_turns(game, truncated_episode)) == {*LEAD}


def test_if_the_answer_is_unreadable_its_reply_and_failed_workers_train():
    game = game_of()
    episode = episode_of(game, MALFORMED_ANSWER)
    assert trained_seats_and_turns(episode, find_trained_turns(game, episode)) == {(0, 1), (1, 0), (1, 1)}
    without_failed_workers = episode_of(game, {**MALFORMED_ANSWER, 1: ["done"]})
    assert trained_seats_and_turns(without_failed_workers, find_trained_turns(game, without_failed_workers)) == {(0, 1)}


def test_if_a_reply_repeats_itself_only_that_reply_trains():
    game = game_of()
    episode = episode_of(game, MALFORMED_ANSWER)
    position = turn_position(episode, 1, 1)
    repeating_episode = with_turn(episode, position, REPETITION_TOKENS, truncated=True)
    assert trained_seats_and_turns(repeating_episode, find_trained_turns(game, repeating_episode)) == {(0, 1), (1, 1)}
    shorter_episode = with_turn(episode, position, REPETITION_TOKENS - 1, truncated=True)
    assert trained_seats_and_turns(shorter_episode, find_trained_turns(game, shorter_episode)) == {
        (0, 1),
        (1, 0),
        (1, 1),
    }
    untruncated_episode = with_turn(episode, position, REPETITION_TOKENS)  # long, but not truncated
    assert trained_seats_and_turns(untruncated_episode, find_trained_turns(game, untruncated_episode)) == {
        (0, 1),
        (1, 0),
        (1, 1),
    }
    repeating_answer = with_turn(
        episode, -1, REPETITION_TOKENS, truncated=True
    )  # the answer of the lead repeats until it is truncated
    assert trained_seats_and_turns(repeating_answer, find_trained_turns(game, repeating_answer)) == {(0, 1)}


def test_a_truncated_malformed_answer_is_a_failure_of_the_lead():
    game = game_of()
    episode = with_turn(episode_of(game, {**MALFORMED_ANSWER, 1: ["done"]}), -1, 5, truncated=True)
    assert trained_seats_and_turns(episode, find_trained_turns(game, episode)) == {*LEAD}


def test_a_forfeit_ends_the_episode_without_an_answer():
    game = game_of()
    episode = episode_of(game, {**READABLE_ANSWER, 2: ["what?"]})
    assert episode.forfeited_by == 2 and trained_seats_and_turns(episode, find_trained_turns(game, episode)) == {(2, 0)}


def test_a_team_without_workers_and_an_answer_merged_from_notes():
    game_without_workers = game_of(workers=0)
    episode = episode_of(game_without_workers, {0: [None, "done", "what?"]})
    assert trained_seats_and_turns(episode, find_trained_turns(game_without_workers, episode)) == {(0, 2)}
    game_with_merged_answer = game_of(answer="merged")
    episode = episode_of(
        game_with_merged_answer, READABLE_ANSWER
    )  # it can always be read, and a lead without a call left has not failed
    assert trained_seats_and_turns(episode, find_trained_turns(game_with_merged_answer, episode)) == {
        (0, 0),
        (2, 0),
        (2, 1),
    }
    single_seat_game = game_of(workers=0, answer="merged")
    episode = episode_of(single_seat_game, {0: [None, None]})
    assert conversations(single_seat_game, episode)[0].end == "turns" and find_trained_turns(
        single_seat_game, episode
    ) == {0, 1}


def test_an_environment_without_a_lead_is_refused():
    game = make_game("tic_tac_toe")
    (episode,) = plays.random_episodes(game, 1)
    with pytest.raises(CreditError, match=r"tic_tac_toe: none of its 2 seats leads.*trains: unfailed"):
        find_trained_turns(game, episode)


class Source:
    def __init__(self, episodes):
        self.episodes, self.turns = episodes, turn_table(episodes)


def test_columns_have_one_row_per_turn_of_a_trained_seat():
    game = game_of()
    for trained in ((True, True, True), (False, True, True), (True, False, False)):
        episodes = [
            replace(episode_of(game, lines, trained), episode_id=index)
            for index, lines in enumerate((READABLE_ANSWER, MALFORMED_ANSWER))
        ]
        source = Source(episodes)
        rows = [(episode.episode_id, turn.seat, turn.turn_index) for episode, turn in ordered_turns(episodes)]
        assert {
            row for row, is_marked in zip(rows, registry.bind("columns", "failed")(source), strict=True) if is_marked
        } == {row for row in rows if row[1] == 1}
        column = registry.bind("columns", "wideseek_turns")(source)
        expected = {(0, 0, 0), (0, 0, 1), (0, 2, 0), (0, 2, 1), (1, 0, 1), (1, 1, 0), (1, 1, 1)}
        # the end of the lead also marks rows of workers if the lead is not trained
        assert {row for row, is_marked in zip(rows, column, strict=True) if is_marked} == expected & {
            *rows
        } and column.dtype == bool


def test_an_episode_without_its_environment_marks_no_failure():
    with pytest.raises(RolloutError, match="has no environment in its record"):
        registry.bind("columns", "failed")(Source([replace(episode_of(game_of(), READABLE_ANSWER), environment=None)]))


def test_grpo_masks_turns_in_the_loss_but_still_compares_them():
    game = game_of()
    episodes = [
        replace(episode_of(game, lines), episode_id=index, returns=(index,) * 3)
        for index, lines in enumerate((READABLE_ANSWER, MALFORMED_ANSWER))
    ]
    turns = turn_table(episodes)
    reward = np.where(turns.done, turns.episode, 0.0)
    turns = replace(turns, reward=reward.astype(float))
    unmasked_credit = grpo(turns)
    assert unmasked_credit.trained is None and not unmasked_credit.metrics
    for trains, name in (("unfailed", "failed"), ("as_released", "wideseek_turns")):
        column = registry.bind("columns", name)(Source(episodes))
        masked_credit = grpo(replace(turns, **{name: column}), trains=trains)
        assert (
            masked_credit.advantages.tolist() == unmasked_credit.advantages.tolist()
            and unmasked_credit.advantages.any()
        )
        assert masked_credit.trained.tolist() == (column if trains == "as_released" else ~column).tolist()
        assert (
            masked_credit.metrics == {"trained_share": masked_credit.trained.mean()}
            and 0 < masked_credit.trained.mean() < 1
        )


@pytest.mark.parametrize("trains", ["unfailed", "as_released"])
def test_a_run_trains_only_the_marked_turns(trains):
    """The engine asks for the column in a whole step, and the tokens of other turns are in no loss."""
    config = resolve(
        {
            "environments": [
                {
                    "name": "wide_search",
                    "options": {**TEAM, "items": 2, "answer": "merged"},
                    "illegal": {"rule": "random"},
                }
            ],
            "credit": {"name": "grpo", "trains": trains},
            "rollout": {"games_per_step": 16, "group_size": 4, "max_new_tokens": 3},
            "model": {"hidden_size": 16, "heads": 2},
            "learner": {"reduction": "agent_mean"},
            "threads": 1,
        }
    )
    engine = LocalEngine(config)
    specs = step_specs(
        0,
        games=engine.environments,
        rollout=config.rollout,
        matchmaker=config.matchmaker.bind("league.matchmakers"),
        members=(),
        root=engine.root,
        progress=0.0,
    )
    episodes = engine.play(specs).episodes
    batch = engine.batch(episodes, progress=0.0)
    credit = config.credit.bind("credit")(batch.turns, {}, progress=0.0)
    game = engine.environments[0][0]
    failed_turns = {
        (episode.episode_id, conversation.seat, episode.turns[recorded_turn].turn_index)
        for episode in episodes
        for conversation in conversations(game, episode)
        if conversation.end in FAILED
        for recorded_turn in conversation.turns
    }
    rows = [(episode.episode_id, turn.seat, turn.turn_index) for episode, turn in ordered_turns(episodes)]
    assert 0 < len(failed_turns) < len(rows)
    failed_games = {number for number, seat, _ in failed_turns if not seat}  # games in which the lead failed
    assert trains == "unfailed" or {number for number, *_ in rows} > failed_games
    expected = [
        row[1] == 0 if trains == "as_released" and row[0] in failed_games else row not in failed_turns for row in rows
    ]
    assert expected == credit.trained.tolist()  # no answer is malformed here
    tokens = batch.trained(credit)
    assert tokens.sum() == batch.turns.n_tokens[credit.trained].sum() < len(tokens)
    assert np.isfinite(engine.learn(batch, credit, step=0, progress=0.0)["loss"])
