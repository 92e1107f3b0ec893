"""A lead calls workers, who search in parallel for the cells of a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.errors import ConfigError, GameError, TooLargeError, quoted
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS, Bank
from sparring.environments.base import ConversationEnd
from sparring.environments.drawing.canvas import Canvas, PaintedPlay
from sparring.environments.drawing.pieces import heading, paragraph, seats, table
from sparring.environments.reply import listed_reply
from sparring.environments.wide_search import searching
from sparring.environments.wide_search.library import MAX_RESULTS
from sparring.environments.wide_search.scoring import (
    EMPTY_CELL,
    EMPTY_TABLE,
    FIGURES,
    ROW_SEPARATOR,
    Table,
    TableScore,
    count_critical_steps,
    count_total_steps,
    format_table,
    normalise_cell,
    read_table,
    sample_table,
    score_table,
    wave_figures,
)
from sparring.environments.wide_search.searching import Cell, SearchCall, SharedNotes
from sparring.environments.wide_search.world import (
    COLUMNS,
    NAMES,
    VALUES,
    World,
    questions,
    real_world,
    world,
)

BASE_WORDS = (  # the words of every brief prompt and reply
    *("lead", "single", "worker", "items", "workers", "waves", "find", "of", "left", "back"),
    *("call", "finish", "open", "note", "done", "noted", "page"),
)
# further words: SEARCH_WORDS with search=words, TABLE_WORDS with answer=written
SEARCH_WORDS = ("search", "found", "nothing", "list", "news")
TABLE_WORDS = ("write", ROW_SEPARATOR, EMPTY_CELL, EMPTY_TABLE)


def lead_observation(play: WideSearchPlay) -> Observation:
    """Return the observation of the lead: first the task, then the results of waves."""
    rules, start = play.rules, play.start
    brief = rules.brief
    key = f"lead {_question_text(play)} | {' | '.join(_wave_history(play))}{play.answer_text}"
    if play.wave_texts:
        text = play.wave_texts[-1]
    elif brief:
        text = (
            f"lead items {rules.items} find {' '.join(start.columns)} workers {rules.workers} "
            f"waves {rules.waves}"
        )
    else:
        scope = f"of all {start.kind} {start.asked}, {len(start.names)} of them,"
        scope = scope if start.asked else f"of {rules.items} items"
        answer = "that you write at the end" if rules.writes else "that was noted"
        text = (
            f"You lead {rules.workers} workers. A table {scope} has "
            f"the columns {', '.join(start.columns)}, and its cells are to be found. When you call "
            "workers, the items that lack a cell are shared out among them evenly, they search at "
            f"once, and each has {rules.turns} turns. You may call {rules.waves} times. The result "
            f"of all is item F1 of the table {answer}."
        )
    ask = "" if brief else "Reply call N, with a number of workers, or finish."
    return Observation(prompt=text, ask=ask, key=key, view=text)


def _question_text(play: WideSearchPlay) -> str:
    start = play.start
    return f"{start.asked}: {', '.join(start.columns)}" if start.asked else f"{play.rules.items}"


def _wave_history(play: WideSearchPlay) -> tuple[str, ...]:
    pairs = zip(play.waves, play.wave_texts, strict=True)
    return tuple(f"{len(wave)}: {text}" for wave, text in pairs)


def wave_text(play: WideSearchPlay) -> str:
    """Return the lead's prompt after a wave: counts, and the new cells if the lead writes."""
    num_noted, num_open_items, brief = len(play.notes), len(play.open_items()), play.rules.brief
    num_cells = len(play.start.names) * play.rules.columns
    text = (
        f"back noted {num_noted} left {num_open_items}"
        if brief
        else f"The workers are back. {num_noted} of {num_cells} cells are noted; "
        f"{num_open_items} items lack a cell."
    )
    new_rows = play.noted_rows(play.num_notes_before) if play.rules.writes else {}
    if brief:
        cells = (f"{name} {' '.join(map(' '.join, row.items()))}" for name, row in new_rows.items())
        return " ".join((text, *cells))
    lines = (
        f"- {name}: {'; '.join(f'{column} {value}' for column, value in row.items())}"
        for name, row in new_rows.items()
    )
    return "\n".join((text, *lines))


def writer_observation(play: WideSearchPlay) -> Observation:
    """Return the prompt for the table: the results of new waves, and the form of the table."""
    rules, start = play.rules, play.start
    news = play.wave_texts[play.num_answered :] if rules.workers else ()
    history = " | ".join((*_wave_history(play), *play.search_log))
    key = f"{rules.roles[0]} writes {_question_text(play)} | {history}"
    if rules.brief:
        text = " ".join((*news, "write"))
        return Observation(prompt=text, key=key, view=text)
    text = "\n".join((*news, "The search is over. Write the table."))
    header = format_table({}, start, brief=False)
    ask = (
        f"Reply with a markdown table that begins with these two lines, and has a line for each "
        f"of the {start.kind}; leave empty what you do not know.\n\n{header}"
    )
    return Observation(prompt=text, ask=ask, key=key, view=text)


def worker_observation(play: WideSearchPlay, seat: int, call: SearchCall) -> Observation:
    """Return a worker's observation: its items at first, then the result of its last action."""
    rules, start, brief = play.rules, play.start, play.rules.brief
    is_first = not call.log
    role = rules.roles[seat]
    if is_first:
        names = [start.names[row] for row in call.rows]
        if brief:
            text = f"{role} find {' '.join(start.columns)} of {' '.join(names)}"
        else:
            pages = "Search for pages, and open them." if rules.by_words else "Each has a page."
            scope = f" ({start.kind} {start.asked})" * bool(start.asked)
            text = (
                f"You are {role}. Find {' and '.join(start.columns)} of {', '.join(names)}{scope}. "
                f"{pages} What you note is kept; nobody sees anything else of your work."
            )
    else:
        text = searching.result_text(play, call)
    gap = "\n\n" if rules.by_words else " "
    text = f"{text} left {call.turns}" if brief else f"{text}{gap}Turns left: {call.turns}."
    ask = "" if brief else searching.reply_forms(start.columns, is_first, by_words=rules.by_words)
    key = f"{role} {call.rows} | {' | '.join((*call.log, text))}"
    return Observation(prompt=text, ask=ask, key=key, view=text, fresh=is_first)


LEAD = 0
FINISH, CALL = "finish", "call"
MAX_DRAWN_ROWS = 12  # largest number of rows of a table, or lines of a text, in a picture


class WideSearchPlay(PaintedPlay, SharedNotes):
    """One episode of ``wide_search``.

    Attributes:
        num_assigned: number of cells that each seat had to find, over all its calls.
        calls: current calls, by the worker's seat.
        waves: for each wave the number of steps of each worker, in order of their seats.
        is_over: whether the episode is over.
        wave_texts: the prompt of the lead after each wave.
        num_answered: number of ``wave_texts`` that the lead has answered.
        must_write: whether the lead must write the table now.
        answer_text: the table that the lead wrote.
        search_log: the conversation of a seat that works alone, after its search.
        ends: the end of the latest call of each seat, by seat.
    """

    def __init__(self, rules: WideSearch, start: World) -> None:
        # ``step`` assigns new objects to fields, so copies of the play may share the old objects
        self.rules, self.start, self.is_over = rules, start, False
        self.brief, self.by_words = rules.brief, rules.by_words
        self.distractors = rules.distractors
        self.notes: dict[Cell, str] = {}
        self.noted_by: dict[Cell, int] = {}
        self.num_assigned: dict[int, int] = {}
        self.calls: dict[int, SearchCall] = {}
        self.waves: tuple[tuple[int, ...], ...] = ()
        self.steps: dict[int, int] = {}  # number of steps of each worker in this wave
        self.wave_texts: tuple[str, ...] = ()
        self.num_notes_before = 0  # number of cells noted before this wave
        self.num_answered, self.must_write, self.answer_text = 0, False, ""
        self.search_log: tuple[str, ...] = ()
        self.ends: dict[int, ConversationEnd] = {}
        self.lead_steps = 0
        self.successful_calls: frozenset[tuple[int, int]] = frozenset()  # (wave, seat)
        if not rules.workers:
            self._start_calls({LEAD: tuple(self.open_items())})

    @property
    def done(self) -> bool:
        return self.is_over

    @property
    def returns(self) -> tuple[float, ...]:
        """Item F1 of the answer, for every seat; 0 before the end."""
        value = self.score.item_f1 if self.is_over else 0.0
        return (value,) * self.rules.num_seats

    @property
    def answer(self) -> Table | None:
        """The table of the notes, or the written table, None if malformed."""
        if self.rules.writes:
            return read_table(self.answer_text, self.start, brief=self.brief)
        return self.noted_rows()

    def noted_rows(self, first: int = 0) -> Table:
        """Return the table of the notes, without the ``first`` oldest notes."""
        return self._rows_of([*self.notes][first:])

    def _rows_of(self, cells: Sequence[Cell]) -> Table:
        rows: Table = {}
        for item, column in sorted(cells):
            row = rows.setdefault(self.start.names[item], {})
            row[self.start.columns[column]] = self.notes[item, column]
        return rows

    @property
    def score(self) -> TableScore:
        """The scores of the answer; a malformed answer scores as an empty table."""
        return score_table(self.start.rows(), self.answer or {}, self.rules.columns)

    @property
    def critical_steps(self) -> int:
        """The lead's steps plus those of the slowest worker of each wave."""
        return count_critical_steps(self.lead_steps, (*self.waves, tuple(self.steps.values())))

    @property
    def total_steps(self) -> int:
        """The steps of all seats."""
        return count_total_steps(self.lead_steps, (*self.waves, tuple(self.steps.values())))

    def conversation_end(self, seat: int) -> ConversationEnd | None:
        """Return how a seat's latest conversation ended, None for the lead before the end."""
        return self.ends.get(seat) if self.is_over or seat != LEAD else None

    def open_items(self, items: Sequence[int] | None = None) -> list[int]:
        """Return the numbers of the rows that lack a cell, among ``items`` or all rows."""
        rows, columns = range(len(self.start.names)), range(self.rules.columns)
        lacks_cell = [any((row, column) not in self.notes for column in columns) for row in rows]
        return [row for row in (rows if items is None else items) if lacks_cell[row]]

    def parts(self) -> tuple[int, ...]:
        """Return the seats that had to find cells; () if the lead writes the answer."""
        return () if self.rules.writes else tuple(sorted(self.num_assigned))

    def worth(self, seats: Collection[int]) -> float:
        """Return item F1 of a table with the notes of these seats only."""
        cells = [cell for cell, seat in self.noted_by.items() if seat in seats]
        return score_table(self.start.rows(), self._rows_of(cells), self.rules.columns).item_f1

    def own_share(self, seat: int) -> float:
        """Return the share of the cells assigned to a seat that the seat found."""
        return self.figures()["found"][seat] / max(self.num_assigned[seat], 1)

    def due(self) -> tuple[int, ...]:
        if self.is_over:
            return ()
        return tuple(sorted(self.calls)) or (LEAD,)

    def legal(self, seat: int) -> tuple[str, ...] | None:
        """Return the legal replies of a seat: () if it is not due, None if any text is legal."""
        if seat not in self.due():
            return ()
        if self.must_write or (seat in self.calls and self.rules.any_text):
            return None
        if seat not in self.calls:
            max_width = min(self.rules.workers, len(self.open_items()))
            return (*(f"{CALL} {width}" for width in range(1, max_width + 1)), FINISH)
        return searching.actions(self, self.calls[seat])

    def read(self, seat: int, reply: str, exact: bool = False) -> str | None:
        """Return the action in a reply; a written table is the reply itself."""
        legal = self.legal(seat)
        if legal is not None:
            return listed_reply(legal, reply, exact)
        if self.must_write:
            return reply
        return searching.read_action(self, self.calls[seat], reply, exact)

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a random reply in the required form, where any text is allowed."""
        if self.must_write:
            return sample_table(self.noted_rows(), self.start, stream, brief=self.brief)
        return searching.sample(self, self.calls[seat], stream)

    def observe(self, seat: int) -> Observation:
        """Return the observation of a seat; each call starts a new conversation of a worker."""
        if seat in self.calls:
            return worker_observation(self, seat, self.calls[seat])
        if self.must_write and seat == LEAD:
            return writer_observation(self)
        if self.rules.leads(seat):
            return lead_observation(self)
        notes = self.answer_text if seat == LEAD else ""
        return Observation(prompt="", key=f"{self.rules.roles[seat]} idle{notes}")

    def step(self, replies: Mapping[int, str]) -> None:
        for seat, reply in replies.items():
            legal = self.legal(seat)
            is_valid = reply in legal if legal is not None else self.read(seat, reply, True)
            if is_valid is False or is_valid is None:
                raise GameError(f"wide_search: {quoted(reply)} is illegal for seat {seat} now.")
        if self.must_write:
            self.lead_steps += 1
            self.answer_text, self.must_write, self.is_over = replies[LEAD], False, True
            self.ends = {**self.ends, LEAD: "malformed" if self.answer is None else "answered"}
        elif not self.calls:
            self._apply_lead_reply(replies[LEAD])
        else:
            self._apply_worker_replies(replies)
        limit = self.rules.critical
        if limit and self.critical_steps >= limit and not (self.is_over or self.must_write):
            self._end_wave()
            self._end_search()

    def _apply_lead_reply(self, reply: str) -> None:
        """Finish, or call workers and split the rows that lack a cell evenly among them."""
        self.lead_steps += 1
        self.num_answered = len(self.waves)
        if reply == FINISH:
            self.ends = {**self.ends, LEAD: "answered"}
            self._end_search()
            return
        num_workers, items = int(reply.split()[1]), self.open_items()
        bounds = [len(items) * number // num_workers for number in range(num_workers + 1)]
        shares = enumerate(pairwise(bounds), start=1)
        self._start_calls({seat: tuple(items[start:end]) for seat, (start, end) in shares})

    def _start_calls(self, shares: Mapping[int, tuple[int, ...]]) -> None:
        columns = range(self.rules.columns)
        self.num_assigned = dict(self.num_assigned)
        for seat, items in shares.items():
            num_open = sum((item, column) not in self.notes for item in items for column in columns)
            self.num_assigned[seat] = self.num_assigned.get(seat, 0) + num_open
        self.calls = {seat: SearchCall(items, self.rules.turns) for seat, items in shares.items()}
        self.ends = {seat: end for seat, end in self.ends.items() if seat not in shares}
        self.steps, self.num_notes_before = dict.fromkeys(shares, 0), len(self.notes)

    def _end_search(self) -> None:
        self.must_write = self.rules.writes
        self.is_over = not self.must_write

    def _apply_worker_replies(self, replies: Mapping[int, str]) -> None:
        self.notes, self.noted_by = dict(self.notes), dict(self.noted_by)
        self.calls, self.steps = dict(self.calls), dict(self.steps)
        for seat, reply in sorted(replies.items()):
            prompt = self.observe(seat).prompt
            action = (self.read(seat, reply, True) or reply) if self.rules.any_text else reply
            call = self.calls[seat]
            call = replace(call, turns=call.turns - 1, log=(*call.log, prompt, action))
            self.steps[seat] += 1
            self.calls[seat] = call = searching.apply_action(self, seat, call, action)
            if action == searching.DONE or not call.turns:
                is_out_of_turns = action != searching.DONE and self.open_items(call.rows)
                self.ends = {**self.ends, seat: "turns" if is_out_of_turns else "answered"}
                del self.calls[seat]
                self.search_log = call.log if seat == LEAD else ()
        if not self.calls:
            self._end_wave()
            if not self.rules.workers or len(self.waves) == self.rules.waves:
                self._end_search()

    def _end_wave(self) -> None:
        if any(self.steps.values()):
            cells = filter(self._is_right, [*self.notes][self.num_notes_before :])
            self.successful_calls |= {(len(self.waves), self.noted_by[cell]) for cell in cells}
            self.waves = (*self.waves, tuple(self.steps.values()))
            self.wave_texts = (*self.wave_texts, wave_text(self))
        call = self.calls.get(LEAD)  # a seat that works alone may reach the limit of steps
        self.search_log = call.log if call is not None else self.search_log
        self.ends = {**self.ends, **dict.fromkeys(self.calls, "limit")}
        self.calls, self.steps = {}, {}

    def _is_right(self, cell: Cell) -> bool:
        value = self.start.values[cell[0]][cell[1]]
        return normalise_cell(self.notes[cell]) == normalise_cell(value)

    def figures(self) -> dict[str, tuple[float, ...]]:
        """Return the figures of the answer and of the work of a finished episode."""
        seats = self.rules.num_seats
        num_successful, workers = len(self.successful_calls), self.rules.workers
        waves = wave_figures(self.lead_steps, self.waves, num_successful, workers)
        shared_figures: dict[str, float] = {**asdict(self.score), **waves}
        num_right = [0.0] * seats
        for cell, seat in self.noted_by.items():
            num_right[seat] += self._is_right(cell)
        if self.rules.writes:
            shared_figures["malformed"] = self.answer is None
        return {
            **{name: (float(value),) * seats for name, value in shared_figures.items()},
            "found": tuple(num_right),
        }

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        rules, start, due = self.rules, self.start, self.due()
        seats(canvas, rules.roles, due if seat is None else tuple({seat} & {*due}))
        if seat is not None and not rules.leads(seat):
            call = self.calls.get(seat)
            if call is not None:
                heading(canvas, "Items")
                paragraph(canvas, ", ".join(start.names[row] for row in call.rows))
                if call.open_page >= 0:
                    _draw_page(canvas, self, call.open_page)
        elif seat is None:
            rows: list[tuple[str, ...]] = [("", *start.columns)]
            for item in range(min(len(start.names), MAX_DRAWN_ROWS)):
                cells = (_cell_text(self, item, column) for column in range(rules.columns))
                rows.append((start.names[item], *cells))
            heading(canvas, "Table", "noted / right")
            table(canvas, rows)
        if self.answer_text and seat in (None, 0):
            heading(canvas, "Answer", "malformed" if self.answer is None else "")
            for line in self.answer_text.splitlines()[:MAX_DRAWN_ROWS]:
                paragraph(canvas, line, most=2)
        paragraph(canvas, self.described(seat), colour="dim")

    def described(self, seat: int | None) -> str:
        rules = self.rules
        if seat is None:
            result = f" Item F1: {self.returns[0]:.3f}." if self.done else ""
            cells = f"Cells noted: {len(self.notes)} of {len(self.start.names) * rules.columns}."
            return f"{cells} Waves so far: {len(self.waves)}.{result}"
        if not rules.leads(seat):
            call = self.calls.get(seat)
            if call is None:
                return f"{rules.roles[seat]} is not at work."
            names = ", ".join(self.start.names[row] for row in call.rows)
            return f"{rules.roles[seat]} searches for {names}; {call.turns} turns left."
        text = self.wave_texts[-1] if self.wave_texts else "No worker was called yet."
        return f"{' '.join(text.split())} Waves so far: {len(self.waves)}."

    def clone(self) -> WideSearchPlay:
        copy = object.__new__(WideSearchPlay)
        copy.__dict__.update(self.__dict__)
        return copy


def _draw_page(canvas: Canvas, play: WideSearchPlay, number: int) -> None:
    if play.rules.by_words:
        page = searching.pages(play)[number]
        heading(canvas, page.title)
        for line in page.text.splitlines()[:MAX_DRAWN_ROWS]:
            paragraph(canvas, line, most=2)
        return
    row = play.start.row(number)
    heading(canvas, play.start.names[number])
    table(canvas, [tuple(row), tuple(row.values())])


def _cell_text(play: WideSearchPlay, item: int, column: int) -> str:
    note, value = play.notes.get((item, column)), play.start.values[item][column]
    if note is None:
        return f"- / {value}"
    return note if note == value else f"{note} / {value}"


SINGLE_ROLE = "single"
MAX_EXACT_WORLDS = 1000
SCORE_NAMES = tuple(field.name for field in fields(TableScore))


@dataclass(kw_only=True, eq=False)
class WideSearch(Bank):
    """A team fills a table: a lead calls workers, who read pages in parallel and note cells.

    What: a world has things with invented names, and a page for each thing. The lead chooses the
    number of workers. The rows that lack a cell are split evenly among these workers, who search in
    parallel. Every call starts a new conversation of a worker. The worker opens pages and notes
    values until it is done or has no turns left. Then the lead learns how many cells are noted, and
    calls again or finishes. The answer is the table of the notes.

    With ``search: words`` workers find pages by full-text search, which returns the best three.
    There is one page for each thing, one list of things for each value, and ``distractors`` other
    pages. A worker replies ``search ardan colour``, ``open 2``, ``note ardan colour red`` or
    ``done``. In full style a worker may reply any text, and the first valid command is the action.
    With ``answer: written`` the lead sees the noted cells and writes the table after the search:
    markdown in full style, ``ardan red ; bemir -`` in brief style. With ``tables`` the rows come
    from a real table, such as some columns of all countries whose subregion is Western Europe.
    When to use: to train teams that choose their own size (WideSeek-R1; Agent Swarm, with frozen
    workers), and to compare them with a single agent: ``workers: 0`` has one seat, with ``turns``
    turns in all.
    Mathematics: the return of every seat is item F1, with E true rows, M rows of the answer and A
    columns besides the name:

        TP = sum over rows of the answer of 1 + its right cells
        P = TP / (M (1 + A)),    R = TP / (E (1 + A)),    item F1 = 2 P R / (P + R)

        critical steps = the lead's turns + sum over waves of the turns of its slowest worker

    Comparisons of cells ignore case, white space and commas between thousands.

    Figures: item_f1, precision, recall, non_key_f1, row_f1, success, waves, width (largest
    number of workers in a wave), critical_steps, total_steps, called (number of calls of a worker),
    finished (calls with a new right cell), parallel (width - 1 over ``workers`` - 1),
    finished_share (finished / called), and found, the right cells of each seat. ``answer: written``
    adds malformed, 1 for an unparsable answer, which has the score 0.
    Pitfalls: right names of rows count as right cells, so a row with wrong values still scores;
    non_key_f1 ignores names. Two workers never share a row, so they cannot disagree. Workers are
    given the names of their rows, and search only for values. The lead decides by counts only: it
    sees cells only if it writes the answer. A model may have memorised real tables, whose content
    depends on the package's version. One filter in five of a real table is held out for banks from
    2^30 on, which measure skill. A row may pass training filters and held-out ones.
    Reference: WideSeek-R1 (arXiv 2602.04634); Kimi K2.5's critical steps (arXiv 2602.02276).
    Verified by: tests/environments/test_wide_search.py.

    Args:
        items: number of rows, 1 to 48; for a real table the largest number of rows, at least 4.
        columns: number of columns besides the name, 1 to 4: colour, size, food, place.
        workers: largest number of workers in a call, 0 to 16; 0: one seat, "single", works alone.
        turns: number of turns of a worker in each call, 1 to 1000. A row takes one turn to open and
            one for each cell, and with ``search: words`` one more to search.
        waves: largest number of calls of the lead, 1 to 100.
        critical: number of critical steps after which the search ends; 0 (default): no limit.
        worlds: number of worlds in the bank, 1 to 10,000,000.
        bank: number of the bank, below 2^31; another bank has other worlds.
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.
        search: "names" (default): workers open the pages of their rows by name. "words": they
            search for pages by words.
        distractors: number of irrelevant pages, 0 to 1000, for search "words": news about two
            things, or for a real table pages of other rows.
        answer: "merged" (default): the table of the notes. "written": a table that the lead, or the
            single seat, writes.
        tables: "invented" (default), or a real table: "countries", "elements" or "airports", which
            need the extra ``tables``, style "full" and search "words".

    Raises:
        ConfigError: incompatible options, or a missing or broken package of ``tables``.
    """

    items: Annotated[int, Field(ge=1, le=len(NAMES))] = 8
    columns: Annotated[int, Field(ge=1, le=len(COLUMNS))] = 2
    workers: Annotated[int, Field(ge=0, le=16)] = 4
    turns: Annotated[int, Field(ge=1, le=1000)] = 6
    waves: Annotated[int, Field(ge=1, le=100)] = 2
    critical: Annotated[int, Field(ge=0, le=100_000)] = 0
    worlds: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0
    style: Literal["brief", "full"] = "brief"
    search: Literal["names", "words"] = "names"
    distractors: Annotated[int, Field(ge=0, le=1000)] = 0
    answer: Literal["merged", "written"] = "merged"
    tables: Literal["invented", "countries", "elements", "airports"] = "invented"

    name, size_option = "wide_search", "worlds"
    min_utility, max_utility, utility_sum = 0.0, 1.0, None
    zero_sum, cooperative = False, True

    def __post_init__(self) -> None:
        search, answer, tables = self.search, self.answer, self.tables
        if self.distractors and search == "names":
            raise ConfigError(
                f"wide_search: distractors={self.distractors} are pages that a search by words may "
                "find; write search=words, or distractors=0."
            )
        if tables != "invented" and (self.style, search) != ("full", "words"):
            raise ConfigError(
                f"wide_search: tables={tables} has too many values to choose from; write "
                "style=full and search=words, or tables=invented."
            )
        self.brief, workers = self.style == "brief", self.workers
        self.figures: tuple[str, ...] = (*SCORE_NAMES, *FIGURES, "found")
        self.roles = (
            ("lead", *(f"worker {number}" for number in range(1, workers + 1)))
            if workers
            else (SINGLE_ROLE,)
        )
        self.num_seats = len(self.roles)
        turns = self.turns
        self.max_turns = self.waves * (1 + workers * turns) + 1 if workers else turns
        self.by_words = search == "words"
        self.any_text, self.writes = self.by_words and not self.brief, answer == "written"
        self.max_turns += self.writes
        if self.writes:
            self.figures = (*self.figures, "malformed")
        self.invented = tables == "invented"
        if not self.invented:
            questions(tables, self.items, False)  # raises ConfigError at once if there are none

    def leads(self, seat: int) -> bool:
        """Return whether a seat is the lead, which calls workers."""
        return seat == LEAD and self.workers > 0

    def start(self, number: int) -> World:
        """Return a world of the bank."""
        stream = self.bank_stream(number)
        if self.invented:
            return world(stream, self.items, self.columns)
        is_held_out = self.bank >= BANKS // 2
        return real_world(stream, self.tables, self.items, self.columns, is_held_out)

    def vocabulary(self) -> tuple[str, ...]:
        max_number = max(
            self.items * self.columns, self.turns, self.waves, self.workers, self.distractors
        )
        max_number = max(max_number, MAX_RESULTS * self.by_words)
        optional_words = {*(SEARCH_WORDS * self.by_words), *(TABLE_WORDS * self.writes)}
        values = {value for column_values in VALUES.values() for value in column_values}
        numbers = map(str, range(max_number + 1))
        return tuple(sorted({*BASE_WORDS, *optional_words, *NAMES, *VALUES, *values, *numbers}))

    def openings(self) -> tuple[tuple[float, WideSearchPlay], ...]:
        """Return (probability, episode) of every world of the bank, for exact figures.

        Raises:
            TooLargeError: the bank has too many worlds.
        """
        if self.worlds > MAX_EXACT_WORLDS:
            raise TooLargeError(
                f"wide_search: exact figures are for at most {MAX_EXACT_WORLDS} worlds and the "
                f"bank has {self.worlds:,}; write worlds: 4, with few items and turns."
            )
        starts = (self.start(number) for number in range(self.worlds))
        return tuple((1 / self.worlds, WideSearchPlay(self, start)) for start in starts)

    def reset(self, stream: Stream) -> WideSearchPlay:
        start = self.draw_start(stream)
        assert isinstance(start, World)
        return WideSearchPlay(self, start)


wide_search = WideSearch
