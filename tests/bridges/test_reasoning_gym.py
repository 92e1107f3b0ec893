import pytest
import reasoning_gym as library

from sparring.config import resolve
from sparring.core.errors import ConfigError, GameError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.bridges.reasoning_gym import WITH_FORMULAS, WITH_LITERALS, is_unsafe, reasoning_gym
from sparring.environments.catalogue import make_game
from sparring.measure.initial_states import SeenInitialStates, measured_starts
from sparring.testing import check_environment


def begin(name="leg_counting", seed=0, **options):
    return make_game("reasoning_gym", options={"game": name, **options}).reset(Stream.from_seed(seed))


@pytest.mark.parametrize("name", ["leg_counting", "chain_sum", "letter_counting", "graph_color", "propositional_logic"])
def test_sets_keep_the_contract(name):
    check_environment(reasoning_gym, plays=2, game=name, problems=20)


def test_the_return_is_the_librarys_score_of_the_answer():
    play = begin(problems=50)
    entry = library.create_dataset("leg_counting", seed=0, size=50)[play.seed]
    assert entry["question"] in play.observe(0).text and play.observe(0).text.endswith("Reply with the answer only.")
    for reply, score in (
        (entry["answer"], 1.0),
        (f"I think <answer> {entry['answer']} </answer>", 1.0),
        ("none", None),
    ):
        copy = play.clone()
        copy.step({0: copy.read(0, reply)})
        expected = library.create_dataset("leg_counting", seed=0, size=50).score_answer(answer="none", entry=entry)
        assert copy.returns == ((expected if score is None else score),) and copy.done and not play.done


def test_another_bank_has_questions_that_training_never_saw():
    config = resolve({"environments": [{"name": "reasoning_gym", "options": {"game": "chain_sum", "problems": 30}}]})
    game = make_game("reasoning_gym", options={"game": "chain_sum", "problems": 30})
    unseen, seen = measured_starts(game, SeenInitialStates(config, [game]))
    assert (unseen.label, seen.label) == ("unseen", "seen")
    stream = Stream.from_seed(1)
    questions = {unseen.game.start_of(unseen.game.reset(unseen.deal(stream.child(n), n))) for n in range(20)}
    assert len(questions) > 10 and not questions & game.starts()


def test_questions_depend_on_seed_and_number_alone():
    game = make_game("reasoning_gym", options={"game": "word_sorting", "problems": 20})
    first = [game.start(n) for n in range(5)]
    again = make_game("reasoning_gym", options={"game": "word_sorting", "problems": 20})
    assert [again.start(n) for n in reversed(range(5))] == first[::-1]
    other = make_game("reasoning_gym", options={"game": "word_sorting", "problems": 20, "bank": 1})
    assert other.start(0) != first[0]


def test_a_reply_whose_scoring_raises_scores_zero_and_is_counted(monkeypatch):
    play = begin(problems=10)

    def fail(answer, entry):
        raise RecursionError("too deep")

    monkeypatch.setattr(play.rules.questions, "score_answer", fail)
    play.step({0: "12"})
    assert play.returns == (0.0,) and play.done and play.figures() == {"scoring_errors": (1.0,)}


def test_a_score_that_is_no_number_fails_the_episode(monkeypatch):
    play = begin(problems=10)
    monkeypatch.setattr(play.rules.questions, "score_answer", lambda answer, entry: "high")
    with pytest.raises(GameError, match="the score of 'leg_counting' is 'high'"):
        play.step({0: "12"})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"game": "leg_count"}, UnknownNameError, "'leg_counting'"),
        ({"game": "composite"}, UnknownNameError, "id of reasoning_gym"),
        ({"arguments": {"legs": 3}}, ConfigError, "legs"),
        ({"arguments": {"max_animals": 0}}, ConfigError, "max_animals"),
        ({"problems": 0}, ConfigError, "problems"),
    ],
)
def test_unknown_sets_and_wrong_settings_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        make_game("reasoning_gym", options=options)


@pytest.mark.parametrize("name", [*WITH_LITERALS, *WITH_FORMULAS])
def test_no_reply_is_run_as_code(name, tmp_path):
    target = tmp_path / "written"
    for text in (
        f"__import__('os').system('touch {target}')",
        f"open('{target}', 'w')",
        f"[].__class__, open('{target}', 'w')",
    ):
        play = begin(name, problems=3)
        play.step({0: play.read(0, text)})
        assert play.returns == (0.0,) and play.figures() == {"scoring_errors": (1.0,)} and not target.exists()


@pytest.mark.parametrize("name", [*WITH_LITERALS, *WITH_FORMULAS])
def test_the_right_answers_of_these_sets_are_scored(name):
    game = make_game("reasoning_gym", options={"game": name, "problems": 30})
    for number in range(30):
        answer = str(game.start(number)["answer"])
        assert not is_unsafe(name, answer), answer
        assert game.questions.score_answer(answer=answer, entry=game.start(number)) == 1.0


@pytest.mark.parametrize(
    "text", ["9**9**9", "9**999", "(2**9)**9 + (3**9)**9", "exit()", "a.b", "lambda: 1", "x_1", "'a'", "9!", "1;2"]
)
def test_calls_and_large_powers_are_unsafe(text):
    assert is_unsafe("countdown", text) and not is_unsafe("leg_counting", text)


@pytest.mark.parametrize("text", ["(1 + 2)*3/4", "x**2 + 3*x**10", "sin(x)*exp(-x) + C", "log(x + 1)", "2*x*(x - 1)"])
def test_formulas_are_safe(text):
    assert not is_unsafe("simple_integration", text)


def test_a_set_reads_no_file_of_the_machine():
    with pytest.raises(ConfigError, match="data_file='/etc/hostname' is a path"):
        begin("spell_backward", arguments={"data_file": "/etc/hostname"})


def test_a_question_that_cannot_be_made_fails_its_episode(monkeypatch):
    game = make_game("reasoning_gym", options={"game": "leg_counting", "problems": 10})

    class Broken:
        def __getitem__(self, number):
            raise ArithmeticError("no such question")

    game.questions = Broken()
    game._start.cache_clear()
    with pytest.raises(GameError, match="ArithmeticError: no such question"):
        game.reset(Stream.from_seed(0))
