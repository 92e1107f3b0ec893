"""Three sample episodes of a run: their choice, their display, and errors for unreadable files."""

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparring.core.records import Episode, Segment, Turn, Verdict
from sparring.play.store import CREDIT_COLUMNS, CREDIT_SCHEMA, EpisodeStore
from sparring.report.episode_text import UNSENT, WINDOW, split
from sparring.report.run_page import templates
from sparring.report.sample_plays import FIRST, LAST, TOKENS, ChosenPlay, play_values, sample_plays

EVIL = "<script>alert(1)</script>"


def play_html(sample, decode):
    return templates().get_template("play.html").render(play=play_values(sample, decode), unsent=UNSENT)


def turn(seat=0, prompt="Q", reply="bet", event="ok", index=0, **columns):
    return Turn(
        seat, index, "learner", "k", ("bet", "pass"), reply, "bet", event, {"game": 1.0}, prompt=prompt, **columns
    )


def episode(episode_id, return_of_seat_1, prompt="Q", game="g", turns=None, **columns):
    turns = (turn(prompt=prompt), turn(seat=1, prompt="K bet", reply="pass")) if turns is None else turns
    fields = dict(
        group_id=episode_id,
        seed=7,
        roles=("a", "b"),
        agents=("bot-random", "learner"),
        trained=(False, True),
        returns=(-return_of_seat_1, return_of_seat_1),
    )
    return Episode(episode_id=episode_id, game=game, turns=turns, **{**fields, **columns})


def store_and_choose(folder, **episodes_by_step):
    """Store the episodes of each step (``s5`` is step 5), and return (when, step, episode id) of each sample."""
    folder.mkdir(exist_ok=True)
    store = EpisodeStore(folder / "episodes")
    for name, episodes in episodes_by_step.items():
        store.append(int(name[1:]), episodes)
    return [(sample.when, sample.step, sample.episode.episode_id) for sample in sample_plays(folder)[0]]


def test_steps_and_episodes_are_chosen_by_the_rule(tmp_path):
    plays = [episode(episode_id, value) for episode_id, value in enumerate((3.0, 1.0, 1.0, 2.0, 5.0, 9.0))]
    steps = dict.fromkeys(("s5", "s10", "s40", "s50", "s100"), plays)
    assert store_and_choose(tmp_path, **steps) == [("Early", 5, 3), ("Middle", 50, 3), ("Late", 100, 3)]
    plays = [episode(9, 1.0), episode(4, 1.0), episode(6, 0.0), episode(5, 2.0)]
    assert store_and_choose(tmp_path / "b", s1=plays) == [("The only stored step", 1, 4)]
    first_episodes = [episode(0, 1.0, "Q"), episode(1, 1.0, "J"), episode(2, 2.0, "J")]
    last_episodes = [episode(3, 1.0, "K"), episode(4, 1.0, "Q"), episode(5, 1.0, "J")]
    assert store_and_choose(tmp_path / "c", s1=first_episodes, s2=last_episodes) == [
        ("Early", 1, 1),
        ("Late", 2, 5),
    ]  # the prompts J and Q are equally frequent, so the first by name is chosen
    assert store_and_choose(tmp_path / "c", s1=first_episodes, s2=[*last_episodes, episode(6, 0.0, "Q", game="other")])[
        1
    ] == (
        "Late",
        2,
        5,
    )
    first_episodes = [
        episode(0, 1.0, "Q"),
        episode(1, 1.0, "J"),
        episode(2, 2.0, "J"),
        episode(3, 2.0, "J"),
        episode(4, 2.0, "A"),
    ]
    last_episodes = [
        episode(5, 1.0, "Q"),
        episode(6, 1.0, "J"),
        episode(7, 1.0, "J"),
        *(episode(episode_id, 1.0, "K") for episode_id in (8, 9, 10)),
    ]
    assert store_and_choose(tmp_path / "d", s1=first_episodes, s2=last_episodes) == [
        ("Early", 1, 2),
        ("Late", 2, 6),
    ]  # the prompt J occurs 3 times early and 2 times late, Q once in both steps
    first_episodes = [episode(0, 1.0, "Q"), episode(1, 1.0, "J"), episode(2, 2.0, "J")]
    assert store_and_choose(tmp_path / "e", s1=first_episodes, s2=[episode(3, 1.0, "K")]) == [
        ("Early", 1, 1),
        ("Late", 2, 3),
    ]


def test_unreadable_files_are_reported_and_skipped(tmp_path):
    assert sample_plays(tmp_path) == (
        [],
        ["No episodes are stored, so none can be shown; store.every sets which steps store them."],
    )
    store_and_choose(tmp_path, s1=[episode(1, 1.0)], s2=[episode(2, 1.0)], s3=[episode(3, 1.0)])
    path = tmp_path / "episodes" / "part-000003.parquet"
    path.write_bytes(path.read_bytes()[:-30])
    samples, troubles = sample_plays(tmp_path)
    assert [sample.step for sample in samples] == [1, 2] and troubles == [
        "The episodes of step 3 cannot be read and are left out."
    ]
    store_and_choose(tmp_path / "b", s1=[episode(1, 1.0)])
    path = tmp_path / "b" / "episodes" / "part-000001.parquet"
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({b"sparring.episodes.version": b"999"}), path)
    samples, troubles = sample_plays(tmp_path / "b")
    assert samples == [] and "version 999" in troubles[0]


def write_credit(folder, step, episode_id, **row):
    values = {
        "step": step,
        "episode_id": episode_id,
        "seat": 1,
        "turn_index": 0,
        "candidate": 0,
        "selected": True,
        "replayed": False,
        **row,
    }
    (folder / "credit").mkdir(exist_ok=True)
    table = CREDIT_SCHEMA.empty_table().from_pylist(
        [{name: values.get(name) for name in CREDIT_SCHEMA.names}], schema=CREDIT_SCHEMA
    )
    (folder / "credit" / f"part-{step:06d}.parquet").write_bytes(CREDIT_COLUMNS.to_bytes(table))


def test_an_episode_shows_prompts_replies_tokens_credit_and_illegal_replies(tmp_path):
    tokens = Segment("sampled", (5, 6), (math.log(0.5), math.log(0.05)))
    verdict = Verdict(actions=("bet", "pass"), values=(1.0, -1.0), best=frozenset({"bet"}))
    unparsable_turn = turn(
        seat=1, prompt="K\u202e", reply=EVIL, event="unparsable", segments=(tokens,), verdict=verdict
    )
    store_and_choose(tmp_path, s1=[episode(1, 1.0, turns=(turn(), unparsable_turn), forfeited_by=1)])
    write_credit(tmp_path, 1, 1, advantage=-0.25, baseline=0.5)
    (sample,), troubles = sample_plays(tmp_path)
    page = play_html(sample, lambda agent, ids: [f"<{index}> " for index in ids])
    assert not troubles and "<script" not in page
    assert '<span class="mark">U+202E</span>' in page and '<span class="wrong">unparsable</span>' in page
    assert (
        '<span class="token p2"><bdi>&lt;5&gt;␣</bdi><small>0.5</small></span>' in page and 'class="token p0"' in page
    )
    assert '<span class="loss">advantage -0.25</span>, baseline +0.5' in page and "game +1" in page
    assert (
        "bet +1, pass -1; regret" in page
        and "This play was forfeited by b." in page
        and "learner, trained</td><td>+1</td>" in page
    )
    assert "<bdi>5</bdi>" in play_html(sample, None)


def test_long_episodes_are_shortened_and_partial_characters_are_joined():
    segment = Segment("sampled", tuple(range(100)), (0.0,) * 100)
    turns = tuple(turn(index=index, reply="x" * 10_000, segments=(segment,)) for index in range(200))
    page = play_html(ChosenPlay(when="Early", step=1, episode=episode(1, 0.0, turns=turns)), None)
    assert f"{200 - FIRST - LAST} turns are left out here." in page and page.count('class="who"') == FIRST + LAST
    assert f"and {100 - TOKENS} more" in page and len(page) < 120_000
    assert split(ByteTokenizer(), "aé€".encode()) == ["a", "", "é", "", "", "€"]
    assert split(ByteTokenizer(), "é".encode()[:1]) == ["\ufffd"]
    assert split(ByteTokenizer(), []) == []
    text = "añ€ " * WINDOW  # longer than one decoding window
    assert "".join(split(ByteTokenizer(), text.encode())) == text


class ByteTokenizer:
    def decode(self, ids):
        return bytes(ids).decode("utf-8", errors="replace")


@pytest.mark.parametrize("returns", [(math.nan, math.nan), (0.0, math.inf)])
def test_returns_that_are_not_finite_count_as_missing(tmp_path, returns):
    plays = [episode(2, 0.0, returns=returns), episode(1, 1.0), episode(3, -1.0)]
    assert store_and_choose(tmp_path, s1=plays) == [("The only stored step", 1, 2)]


@pytest.mark.parametrize(("column", "value"), [("returns", [None]), ("seat", None), ("episode_id", None)])
def test_a_record_with_impossible_values_is_reported(tmp_path, column, value):
    store_and_choose(tmp_path, s1=[episode(1, 1.0)])
    path = tmp_path / "episodes" / "part-000001.parquet"
    table = pq.read_table(path)
    column_index = table.schema.get_field_index(column)
    new_column = pa.array([value] * len(table), type=table.schema.field(column_index).type)
    pq.write_table(table.set_column(column_index, table.schema.field(column_index), new_column), path)
    assert sample_plays(tmp_path) == ([], ["The episodes of step 1 are invalid records."])
