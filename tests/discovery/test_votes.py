"""Votes, files of them and the rules that make judgements of them, against loops over votes.

A test that only drew one vote an expert would let "the last vote counts" pass unseen, so pairs, experts and times are
few and collide; ties, pairs that nobody decided and votes without a time are then common.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lookalike as la
from helpers.vote_records import START, records, simulated, votes_of
from lookalike.discovery.dawid_skene import dawid_skene
from lookalike.discovery.judgements import Judgements, majority
from lookalike.discovery.judgements import unanimous as unanimous_rule
from lookalike.discovery.rules import RULES
from lookalike.discovery.votes import CANT_TELL, NOT_SIMILAR, SIMILAR, Ballots, Votes, as_pairs
from reference import votes as slow

# The record


@given(records)
def test_the_last_vote_counts(rows: list[slow.Vote]) -> None:
    last = votes_of(rows).last()
    found: slow.Table = {}
    for query, item, expert, answer in zip(last.queries, last.items, last.experts, last.answers, strict=True):
        assert expert not in found.setdefault((str(query), str(item)), {}), "two last votes of one expert on a pair"
        found[str(query), str(item)][str(expert)] = int(answer)
    assert found == slow.last_votes(rows)


def test_later_is_by_time_then_by_place_and_no_time_is_first() -> None:
    def last(*times: Any) -> int:
        n = len(times)
        return int(Votes(["q"] * n, ["a"] * n, ["ann"] * n, [1, 0, -1][:n], times).last().answers[0])

    assert last("2024-05-02", "2024-05-01") == SIMILAR
    assert last("2024-05-01", "2024-05-01") == NOT_SIMILAR
    assert last("", "2024-05-01", None) == NOT_SIMILAR
    assert last("2024-05-01T12:00:00+02:00", "2024-05-01T11:00:00Z", "2024-05-01T10:59:59.999") == NOT_SIMILAR


def test_votes_are_added_and_never_changed() -> None:
    first = Votes(["q"], ["a"], ["ann"], [SIMILAR], ["2024-05-01"], [2.5])
    both = first + Votes(["q"], ["b"], ["bob"], [CANT_TELL])
    assert len(both) == 2
    assert both.pairs == [("q", "a"), ("q", "b")]
    assert both.seconds.tolist()[0] == 2.5
    assert np.isnan(both.seconds[1])
    assert np.isnat(both.times).tolist() == [False, True]
    assert len(first) == 1
    assert repr(both) == "Votes(2 votes of 2 experts on 2 pairs)"
    with pytest.raises(ValueError, match="read-only"):
        both.answers[0] = 0
    mine = np.array(["q"])
    Votes(mine, ["a"], ["ann"], [1])
    mine[0] = "p"  # an array that a caller brought stays the caller's
    with pytest.raises(TypeError):
        both + 1  # type: ignore[operator]


def test_answers_may_be_words_and_ids_numbers() -> None:
    votes = Votes([1, 1, 2], [7, 8, 9], ["ann"] * 3, ["Similar", "not similar", "can’t tell"])
    assert votes.answers.tolist() == [1, 0, -1]
    assert votes.queries.tolist() == ["1", "1", "2"]
    assert Votes(["q"] * 2, ["a", "b"], ["ann"] * 2, np.array([True, False])).answers.tolist() == [1, 0]
    aware = datetime(2024, 5, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    moments = Votes(["q"] * 2, ["a", "b"], ["ann"] * 2, [1, 1], [aware, datetime(2024, 5, 1, 12)]).times
    assert moments.dtype == "datetime64[ms]"
    assert moments[0] == moments[1] == np.datetime64("2024-05-01T12:00")


@pytest.mark.parametrize(
    ("given_votes", "message"),
    [
        ((["q"], ["a"], ["ann"], ["maybe"]), "row 0: an answer must be similar, not similar or can't tell .* 'maybe'"),
        ((["q"] * 2, ["a"] * 2, ["ann"] * 2, [1, 2]), "row 1: an answer must be .*got 2"),
        ((["q"] * 2, ["a"] * 2, ["ann"] * 2, [1, np.nan]), "row 1: an answer must be .*got nan"),
        ((["q"] * 2, ["a"] * 2, ["ann", " "], [1, 1]), "row 1: experts of votes must not be empty"),
        (
            (["q", None], ["a"] * 2, ["ann"] * 2, [1, 1]),
            "row 1: queries of votes must be text or whole numbers, got None",
        ),
        (([1.5], ["a"], ["ann"], [1]), "row 0: queries of votes must be text or whole numbers, got 1.5"),
        ((["q"], ["a", "b"], ["ann"], [1]), "there are 1 answers, but 2 of item"),
        (("q", ["a"], ["ann"], [1]), "queries of votes must be a list of ids"),
        (
            (["q"], ["a"], ["ann"], [1], ["noon"]),
            "row 0: a time must be like 2024-05-01T12:30:00Z, or empty, got 'noon'",
        ),
        ((["q"], ["a"], ["ann"], [1], None, [-1]), "row 0: seconds must be a number from 0, or empty, got -1"),
        ((["q"], ["a"], ["ann"], [1], None, ["soon"]), "row 0: seconds must be a number from 0, or empty, got 'soon'"),
        ((["q"], ["a"], ["ann"], [1], None, [np.inf]), "row 0: seconds must be a number from 0"),
    ],
)
def test_wrong_votes_are_named(given_votes: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Votes(*given_votes)


def test_votes_on_pairs_that_were_not_asked_for_are_named() -> None:
    votes = Votes(["q", "q", "p"], ["a", "b", "a"], ["ann", "bob", "eve"], [1, 1, 1])
    votes.check([("q", "a"), ("q", "b"), ("p", "a"), ("p", "b")])
    votes.check(np.array([["q", "a"], ["q", "b"], ["p", "a"]]))
    votes.check(votes)
    with pytest.raises(ValueError, match=r"2 of 3 votes .* first that of 'bob' on query 'q' and item 'b'"):
        votes.check({("q", "a")})
    for wrong, kind in (
        ("qa", TypeError),
        ({"q": "a"}, TypeError),
        (["qa"], ValueError),
        ([("q", "a", 1)], ValueError),
    ):
        with pytest.raises(kind, match="must be rows"):
            as_pairs(wrong, "pairs")


@given(records)
def test_ballots_number_pairs_as_they_come_and_experts_by_name(rows: list[slow.Vote]) -> None:
    ballots = Ballots.of(votes_of(rows))
    pairs = list(zip(ballots.queries.tolist(), ballots.items.tolist(), strict=True))
    assert pairs == list(dict.fromkeys((row[0], row[1]) for row in rows))
    assert ballots.experts.tolist() == sorted({row[2] for row in rows})
    for row, pair, expert, answer in zip(ballots.rows, ballots.pair, ballots.expert, ballots.answers, strict=True):
        assert rows[row][:4] == (*pairs[pair], ballots.experts[expert], answer)
    for expert in ballots.experts.tolist():
        mine = np.array([row[2] == expert for row in rows])
        assert ballots.changed[mine].sum() == slow.changed(rows, expert)


# Files

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8).filter(
    str.strip
)
file_votes = st.lists(
    st.tuples(
        texts,
        texts,
        texts,
        st.sampled_from([1, 0, -1]),
        st.one_of(st.just(np.datetime64("NaT", "ms")), st.integers(0, 2**41).map(lambda ms: np.datetime64(ms, "ms"))),
        st.one_of(st.just(float("nan")), st.floats(0, 1e6)),
    ),
    max_size=6,
)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@settings(max_examples=60)
@given(rows=file_votes)
def test_files_lose_nothing(tmp_path_factory: pytest.TempPathFactory, suffix: str, rows: list[tuple[Any, ...]]) -> None:
    columns = zip(*rows, strict=True) if rows else ([],) * 6
    votes = Votes(*columns)
    path = tmp_path_factory.mktemp("votes") / f"votes{suffix}"
    votes.write(path)
    again = Votes.read(path)
    for name in ("queries", "items", "experts", "answers"):
        assert getattr(again, name).tolist() == getattr(votes, name).tolist()
    np.testing.assert_array_equal(again.times, votes.times)
    np.testing.assert_array_equal(again.seconds, votes.seconds)


def test_a_written_csv_reads_like_this(tmp_path: Path) -> None:
    votes = Votes(
        ["q"] * 3, ["a,b", "c", "d"], ["ann"] * 3, [1, 0, -1], ["2024-05-01T12:30:00.250Z", "", ""], [4.5, 3, None]
    )
    votes.write(tmp_path / "votes.csv")
    assert (tmp_path / "votes.csv").read_text().splitlines() == [
        "query,item,expert,answer,time,seconds",
        'q,"a,b",ann,similar,2024-05-01T12:30:00.250Z,4.5',
        "q,c,ann,not similar,,3.0",
        "q,d,ann,can't tell,,",
    ]


def test_parquet_says_what_it_is_and_has_true_times(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    votes = Votes(["q"], ["a"], ["ann"], [1], ["2024-05-01T12:30:00Z"])
    votes.write(tmp_path / "votes.parquet")
    table = pq.read_table(tmp_path / "votes.parquet")
    about = json.loads(table.schema.metadata[b"lookalike"])
    assert (about["lookalike"], about["format"], about["version"], about["votes"]) == ("votes", 1, la.__version__, 1)
    assert about["digest"] == votes.digest
    assert table.schema.field("time").type == pa.timestamp("ms", tz="UTC")
    newer = table.replace_schema_metadata({"lookalike": json.dumps({**about, "format": 2, "version": "9.9"})})
    pq.write_table(newer, tmp_path / "newer.parquet")
    with pytest.raises(ValueError, match=r"newer.parquet was written by lookalike 9.9, which is newer: upgrade"):
        Votes.read(tmp_path / "newer.parquet")
    other = table.replace_schema_metadata({"lookalike": json.dumps({**about, "lookalike": "codes"})})
    pq.write_table(other, tmp_path / "other.parquet")
    with pytest.raises(ValueError, match=r"other.parquet holds codes, not votes"):
        Votes.read(tmp_path / "other.parquet")


def test_files_of_others_are_read(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    plain = tmp_path / "votes.csv"
    plain.write_text("\ufeffexpert, item,query,answer,comment\nann,a,q,1,easy\n\nbob,a,q,-1,\n", encoding="utf-8")
    votes = Votes.read(plain)
    assert (votes.pairs[0], votes.experts.tolist(), votes.answers.tolist()) == (("q", "a"), ["ann", "bob"], [1, -1])
    assert np.isnat(votes.times).all()
    pq.write_table(
        pa.table({
            "query": [1, 2], "item": ["a", "b"], "expert": pa.array(["ann", "ann"]).dictionary_encode(),
            "answer": ["similar", "can't tell"], "time": [START, None], "seconds": [None, 2],
        }),
        tmp_path / "votes.parquet",
    )  # fmt: skip
    votes = Votes.read(tmp_path / "votes.parquet")
    assert votes.pairs == [("1", "a"), ("2", "b")]
    assert votes.answers.tolist() == [1, -1]
    assert votes.times[0] == np.datetime64("2024-05-01T12:00")
    np.testing.assert_array_equal(votes.seconds, [np.nan, 2])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "votes.csv must name its columns, 'query' among them, got nothing"),
        (
            "query,item,answer\nq,a,1\n",
            "votes.csv must name its columns, 'expert' among them, got 'query', 'item', 'answer'",
        ),
        ("query,item,expert,answer,item\n", "votes.csv names the column 'item' twice"),
        ("query,item,expert,answer\nq,a,ann,1\nq,a,bob,perhaps\n", "votes.csv, line 3: an answer .* got 'perhaps'"),
        ('query,item,expert,answer\n"q\nq",a,ann,1\n\nq,a,,1\n', "votes.csv, line 5: expert must not be empty"),
        ("query,item,expert,answer\nq,a,ann\n", "votes.csv, line 2: 4 values are expected, as in line 1, got 3"),
        ("query,item,expert,answer,time\nq,a,ann,1,today\n", "votes.csv, line 2: a time must be .* got 'today'"),
        ("query,item,expert,answer,seconds\nq,a,ann,1,\nq,a,bob,1,x\n", "votes.csv, line 3: seconds must .* got 'x'"),
        ('query,item,expert,answer\nq,a,"ann,1\n', "votes.csv is not a CSV file in UTF-8: unexpected end of data"),
        (b"query,item,expert,answer\nq,\xff,ann,1\n", "votes.csv is not a CSV file in UTF-8"),
    ],
)
def test_wrong_csv_files_are_named_with_the_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    (tmp_path / "votes.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=message):
        Votes.read(tmp_path / "votes.csv")


def test_wrong_parquet_files_are_named_with_the_row(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    good: dict[str, list[Any]] = {"query": ["q"] * 2, "item": ["a"] * 2, "expert": ["ann"] * 2, "answer": [1, 0]}
    for change, message in (
        ({"answer": [1, 3]}, "votes.parquet, row 1: an answer must be"),
        ({"expert": ["ann", None]}, "votes.parquet, row 1: expert must be text"),
        ({"expert": ["", "ann"]}, "votes.parquet, row 0: expert must not be empty"),
        ({"time": ["2024-05-01", "x"]}, "votes.parquet, row 1: a time must be"),
    ):
        pq.write_table(pa.table({**good, **change}), tmp_path / "votes.parquet")
        with pytest.raises(ValueError, match=message):
            Votes.read(tmp_path / "votes.parquet")
    pq.write_table(pa.table({"query": ["q"]}), tmp_path / "votes.parquet")
    with pytest.raises(ValueError, match="must have one column 'item', got 'query'"):
        Votes.read(tmp_path / "votes.parquet")
    twice = pa.table([pa.array(["x"])] * 5, names=["query", "item", "expert", "answer", "query"])
    pq.write_table(twice, tmp_path / "votes.parquet")
    with pytest.raises(ValueError, match="must have one column 'query', got"):
        Votes.read(tmp_path / "votes.parquet")
    (tmp_path / "votes.parquet").write_bytes(b"PAR1 but no more")
    with pytest.raises(ValueError, match="is not a readable Parquet file"):
        Votes.read(tmp_path / "votes.parquet")


def test_names_of_files_are_checked(tmp_path: Path) -> None:
    votes = Votes(["q"], ["a"], ["ann"], [1])
    for call in (votes.write, Votes.read):
        with pytest.raises(ValueError, match=r"must end in .csv or .parquet"):
            call(tmp_path / "votes.txt")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        Votes.read(tmp_path / "votes.csv")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_failed_write_leaves_the_old_file(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"votes{suffix}"
    Votes(["q"], ["a"], ["ann"], [1]).write(path)
    before = path.read_bytes()

    def fails(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fails)
    with pytest.raises(OSError, match="disk full"):
        Votes(["q"] * 9, ["a"] * 9, ["ann"] * 9, [1] * 9).write(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


# Judgements and rules


@given(records)
def test_rules_are_those_of_counting_votes(rows: list[slow.Vote]) -> None:
    votes, table = votes_of(rows), slow.last_votes(rows)
    for rule, expected in ((majority, slow.majority(table)), (unanimous_rule, slow.unanimous(table))):
        found = rule(votes)
        assert found.by_pair == expected
        assert found.positives == sum(expected.values())
        assert found.rule == {majority: "majority", unanimous_rule: "unanimous"}[rule]
        for counts, answer in ((found.similar, 1), (found.not_similar, 0), (found.cant_tell, -1)):
            assert counts is not None
            assert counts.tolist() == [list(table[pair].values()).count(answer) for pair in found.pairs]
    once = {pair for pair, answers in table.items() if slow.decided(answers)}
    assert {pair for pair, grade in unanimous_rule(votes).by_pair.items() if grade} <= {
        pair for pair, grade in majority(votes).by_pair.items() if grade
    }
    assert set(dawid_skene(votes).by_pair) == once


def test_ties_are_negative_and_undecided_pairs_are_not_judged() -> None:
    votes = Votes(["q"] * 5, list("aabbc"), ["ann", "bob"] * 2 + ["ann"], [1, 0, 1, -1, -1])
    for name in ("majority", "unanimous"):
        assert RULES[name](votes).by_pair == {("q", "a"): 0, ("q", "b"): 1}
    for name, rule in RULES.items():
        found = rule(votes)
        assert found.rule == name
        assert found.pairs == [("q", "a"), ("q", "b")]
        assert found.grades.dtype == np.int64
    mirrored = Votes(["q"] * 12, list("abcdef") * 2, ["ann"] * 6 + ["bob"] * 6, [1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1])
    assert dawid_skene(mirrored).probability == pytest.approx([0.5] * 6)
    assert dawid_skene(mirrored).positives == 0


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_no_vote_is_no_judgement(rule: Any) -> None:
    for votes in (Votes([], [], [], []), Votes(["q"], ["a"], ["ann"], [-1])):
        found = rule(votes)
        assert (len(found), found.positives, found.by_pair) == (0, 0, {})
        with pytest.raises(ValueError, match="no judged pair"):
            _ = found.relevance


def test_many_votes_are_counted_fast() -> None:
    import time

    _, votes = simulated(0, 25_000, [0.9, 0.8, 0.9, 0.7], [0.8] * 4, 0.85)
    start = time.process_time()
    assert len(majority(votes)) == 25_000
    assert time.process_time() - start < 1.5  # a loop over experts and pairs in Python takes several seconds


def test_judgements_are_relevance() -> None:
    judgements = Judgements.of([("q", "a", 1), ("q", "b", 0), ("p", "a", 2)])
    bound = judgements.relevance.bound(np.array(["p", "q"]), np.array(["b", "a", "c"]))
    assert bound.block(slice(0, 2), slice(0, 3)).tolist() == [[-1, 2, -1], [0, 1, -1]]
    assert Judgements.of(judgements.relevance).by_pair == judgements.by_pair
    assert Judgements.of({"q": {"a": 1, "b": 0}, "p": {"a": 2}}).by_pair == judgements.by_pair
    assert Judgements.of(judgements) is judgements
    assert (judgements.positives, judgements.rule, judgements.grades.dtype) == (2, "given", np.int64)
    assert repr(judgements) == "Judgements(3 pairs, 2 positive, rule 'given')"


def test_a_pair_is_judged_once() -> None:
    assert Judgements.of([("q", 1, 1), ("q", "1", 1), ("q", 2, 0), ("q", 1, 1)]).by_pair == {
        ("q", "1"): 1,
        ("q", "2"): 0,
    }
    for rows in ([("q", 1, 1), ("q", "1", 0)], [("q", "1", 1), ("q", "1", 0)]):
        with pytest.raises(ValueError, match="query 'q' and item '1' are judged twice: 1 and 0"):
            Judgements.of(rows)
    with pytest.raises(ValueError, match=r"judged twice: use Judgements\.of"):
        Judgements(np.array(["q", "q"]), np.array(["a", "a"]), np.array([1, 1]))
    with pytest.raises(ValueError, match="got 2 queries, 2 items, 1 grades"):
        Judgements(np.array(["q", "p"]), np.array(["a", "a"]), np.array([1]))
    for grade in (-1, 0.5):
        with pytest.raises(ValueError, match="a grade must be a whole number from 0"):
            Judgements(np.array(["q"]), np.array(["a"]), np.array([grade]))
    with pytest.raises(TypeError, match="judgements are of single pairs"):
        Judgements.of(la.same_label([1], [1, 2]))
    with pytest.raises(ValueError, match="whole number from 0"):
        Judgements.of([("q", "a", -1)])
