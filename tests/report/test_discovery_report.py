"""The page of a leaderboard: its numbers are the board's, its pictures the pairs', and a browser shows all of it.

A vacuous test would pass on a table whose columns are swapped, on pictures of other items, or on a page that only works
with everything there is to show: here cells are read back by their headers, every item's picture has a colour of its
own, and pages are made with next to nothing.
"""

import base64
import dataclasses
import functools
import html
import io
import itertools
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from helpers.pages import HOSTILE, Opened, Reader, chromium
from lookalike.discovery import (
    Catalogue,
    Collection,
    Contest,
    Judgements,
    Leaderboard,
    Pool,
    Votes,
    agreement,
    discovery_metrics,
    leave_one_out,
    majority,
)
from lookalike.discovery.bias import LeaveOneOut
from lookalike.discovery.leaderboard import board_of, effect
from lookalike.evaluation.compare import holm, randomisation_test
from lookalike.evaluation.results import Score
from lookalike.metrics.metric import Metric, parse_all
from lookalike.metrics.values import Values
from lookalike.report.leaderboard import render_leaderboard, write_leaderboard
from lookalike.report.leaderboard.charts import label_positions
from lookalike.report.leaderboard.experts import disputed
from lookalike.report.leaderboard.standing import called
from lookalike.study.study import Study

N_QUERIES, N_ITEMS, K = 12, 160, 4
BUILDERS, LATE = ("alpha", "beta", "gamma"), ("delta", "epsilon")
ROOM: list[Path] = []  # where studies are made
QUALITY = {"alpha": 0.95, "beta": 0.8, "gamma": 0.5, "delta": 0.9, "epsilon": 0.3}


@pytest.fixture(scope="module", autouse=True)
def _room(tmp_path_factory: pytest.TempPathFactory) -> None:
    ROOM.append(tmp_path_factory.mktemp("studies"))


def colour(item: int) -> tuple[int, int, int]:
    """A colour that no other item has."""
    return (item, 255 - item, 40 + item % 7)


def a_study(folder: Path, ids: list[str]) -> Study:
    """A study whose pictures are of one colour each; that of the first item is missing, that of the second damaged."""
    (folder / "pictures").mkdir(parents=True)
    paths = [f"../pictures/{place}.png" for place in range(len(ids))]
    for place in range(1, len(ids)):
        Image.new("RGB", (12, 8), colour(place)).save(folder / "pictures" / f"{place}.png")
    (folder / "pictures" / "1.png").write_bytes(b"\x89PNG no more")
    catalogue = Catalogue(ids, paths=paths)
    return Study.create(folder / "study", "shop", catalogue, queries=np.arange(N_QUERIES))


@dataclasses.dataclass(frozen=True)
class Made:
    """All that a page can show."""

    board: Leaderboard
    pool: Pool
    loo: LeaveOneOut
    study: Study
    votes: Votes
    judgements: Judgements
    ids: list[str]

    def parts(self) -> dict[str, Any]:
        names = ("pool", "loo", "study", "votes", "judgements")
        return {name: getattr(self, name) for name in names}


def made(
    folder: Path, *, models: dict[str, float] | None = None, builders: tuple[str, ...] = BUILDERS, suffix: str = "",
    metrics: Any = None,
) -> Made:  # fmt: skip
    random = np.random.default_rng(1)
    ids = [f"i{place:03d}{suffix}" for place in range(N_ITEMS)]
    study = a_study(folder, ids)
    collection = Collection(ids[:N_QUERIES], ids)
    truth = random.normal(size=(N_QUERIES, N_ITEMS))
    given = {
        f"{name}{suffix}": quality * truth + math.sqrt(1 - quality**2) * random.normal(size=truth.shape)
        for name, quality in (models or QUALITY).items()
    }
    pool = Pool.build({f"{name}{suffix}": given[f"{name}{suffix}"] for name in builders}, collection, k=K, random=30)
    right = truth[pool.queries, pool.items] > 1.2
    queries, items = (list(side) for side in zip(*pool.pairs, strict=True))
    votes = []
    for expert, reliability in (("ann", 0.9), ("bob", 0.8), ("eve", 0.7)):
        answers = np.where(random.random(len(pool)) < reliability, right, ~right).astype(int)
        answers[random.random(len(pool)) < 0.05] = -1
        seconds = random.uniform(2, 9, len(pool))
        votes.append(Votes(queries, items, [f"{expert}{suffix}"] * len(pool), answers, seconds=seconds))
    record = votes[0] + votes[1] + votes[2]
    study.append_votes(record)
    study.set_gold([(queries[0], items[0], 1)])
    judgements = majority(record)
    wanted = parse_all(metrics) if metrics is not None else discovery_metrics(K)
    sampled = any(metric.options().get("negatives", "judged") != "judged" for metric in wanted)
    contest = Contest(given, collection, judgements, depth=K, negatives=20 if sampled else 0)
    board = board_of(contest, wanted, pool, resamples=200)
    loo = leave_one_out(contest, pool) if len(builders) > 1 else LeaveOneOut([])
    return Made(board, pool, loo, study, record, judgements, ids)


@functools.cache
def plain() -> Made:
    return made(ROOM[-1] / "plain")


@functools.cache
def plain_page() -> str:
    return render_leaderboard(plain().board, title="Shop", **plain().parts())


def section(page: str, name: str) -> str:
    return page.partition(f'<section id="{name}">')[2].partition("</section>")[0]


def cells(page: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Of each model and header of the table: the number that it is sorted by, and what is shown."""
    table = section(page, "table").partition("<table")[2].partition("</table>")[0]
    keys = [html.unescape(key) for key in re.findall(r"<th scope='col' data-key='([^']*)'", table)]
    found = {}
    for row in re.findall(r"<tr data-model=.*?</tr>", table):
        inside = re.findall(r"<t[hd][^>]*data-v='([^']*)'[^>]*>(.*?)</t[hd]>", row)
        assert len(inside) == len(keys)
        values = dict(zip(keys, inside, strict=True))
        found[html.unescape(values["model"][0])] = values
    return found


def plain_text(fragment: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", " ", fragment))


def number_table(page: str, name: str) -> list[list[str]]:
    """The rows of the first table of numbers under a figure."""
    rows = re.findall(r"<tr>(.*?)</tr>", section(page, name).partition("<details")[2])
    return [[html.unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)] for row in rows]


# Words and numbers


def test_the_page_is_the_same_every_time(tmp_path: Path) -> None:
    write_leaderboard(tmp_path / "board.html", plain().board, title="Shop", **plain().parts())
    assert (tmp_path / "board.html").read_text(encoding="utf-8") == plain_page()
    again = made(tmp_path)  # the same study in another folder
    assert render_leaderboard(again.board, title="Shop", **again.parts()) == plain_page()


def test_the_headline_names_the_leader_and_who_built_the_pool() -> None:
    board = plain().board
    told = Reader(plain_page()).text
    means = {name: evaluation["AUC"].mean for name, evaluation in board.own_out.items()}
    first, second = sorted(means, key=lambda name: -means[name])[:2]
    low, high = board.own_out_intervals[first][Metric.parse("AUC")]
    assert f"{first} leads by AUC (macro), own left out: {means[first]:.3f} (95 % interval over queries" in told
    assert f"{low:.3f} to {high:.3f}), against {second} ({means[second]:.3f})" in told
    assert "alpha, beta and gamma built the pool of judged pairs; delta and epsilon came later" in told
    gaps = {}
    for one, other in itertools.combinations(means, 2):
        values = board.own_out[one]["AUC"].per_query - board.own_out[other]["AUC"].per_query
        gaps[one, other] = values[~np.isnan(values)]
    corrected = dict(zip(gaps, holm([randomisation_test(values) for values in gaps.values()]), strict=True))
    (pair,) = (pair for pair in gaps if set(pair) == {first, second})
    assert f"by {abs(gaps[pair].mean()):+.3f} (" in told
    assert f"; p {corrected[pair]:.3f} with Holm’s correction for all pairs of models)" in told
    assert ("too close to call" in told) == (corrected[pair] >= 0.05)
    assert board.warnings
    for warning in board.warnings:
        assert warning in told


def test_a_clear_lead_is_told_from_luck(tmp_path: Path) -> None:
    clear = made(tmp_path, models={"bad": 0.05, "good": 0.99, "fair": 0.7}, builders=("bad", "good", "fair"))
    told = Reader(render_leaderboard(clear.board, title="Clear")).text
    assert "good leads by AUC (macro), own left out" in told
    assert "more than other queries would change" in told
    assert "All of them built the pool" in told


def with_areas(values: dict[str, np.ndarray]) -> Leaderboard:
    """A board of models that have these AUCs of each query, own pairs left out or not."""
    base, metric, names = plain().board, Metric.parse("AUC"), list(values)
    found = {
        name: dataclasses.replace(base["alpha"], scores={metric: Score(metric, Values(each, each, each), 0)})
        for name, each in values.items()
    }
    nothing = {name: dataclasses.replace(base["alpha"], scores={}) for name in names}
    return dataclasses.replace(
        base, evaluations=found, own_out=found, upper=nothing, judged=nothing, helped=dict.fromkeys(names, True),
        intervals={}, own_out_intervals={},
    )  # fmt: skip


def test_a_lead_among_many_models_is_held_to_more_than_one_of_two() -> None:
    """The same gap of two models, and further models that are all alike: with them, somebody leads by luck."""
    random = np.random.default_rng(0)
    second = random.normal(0.5, 0.02, N_QUERIES)
    values = {"first": second + random.normal(0.02, 0.02, N_QUERIES), "second": second}
    others = {f"other {n}": second - 0.001 + random.normal(0, 0.02, N_QUERIES) for n in range(6)}
    two, many = (
        Reader(render_leaderboard(with_areas(each), title="Gap")).text for each in (values, {**others, **values})
    )
    assert "first leads by AUC (macro), own left out" in two
    assert "more than other queries would change" in two
    assert "Holm" not in two.partition("Before")[0]
    assert "first leads by AUC (macro), own left out" in many
    assert "too close to call" in many


def test_the_page_leads_with_what_is_neutral() -> None:
    """A board without a pool has sampled negatives; one whose own pairs are all there is has no other number."""
    base = plain().board
    assert "leads by AUC (macro, sampled)" in Reader(odd_pages()["two"]).text
    gone = {name: np.full(N_QUERIES, math.nan) for name in ("one", "two")}
    board = with_areas({"one": np.linspace(0.5, 1, N_QUERIES), "two": np.linspace(0.4, 1, N_QUERIES)})
    lone = dataclasses.replace(board, own_out=with_areas(gone).own_out)
    assert "one leads by AUC (macro): 0.750" in Reader(render_leaderboard(lone, title="Lone")).text
    head = plain_page().partition("<table id='comparison'")[2].partition("</thead>")[0]
    said = re.findall(r"<td class='[^']*'>(\w*)</td>", head.partition("class='effects'")[2])
    keys = [html.unescape(key) for key in re.findall(r"data-key='([^']*)'", head)][1:]
    effects = dict(zip(keys, said, strict=True))
    for key, metric in COLUMNS.items():
        assert effects[key] == effect(metric), key
    assert effects["AUC, macro, own out"] == effects["AUC, micro, own out"] == "neutral"
    assert set(effects) == {*COLUMNS, "AUC, macro, own out", "AUC, micro, own out", "AUC, 95 %"}
    assert "Favours, punishes, neutral: what a number does to models that helped to build the pool" in plain_page()
    hits = max(base[name]["VSDHR@4"].mean for name in QUALITY)
    assert re.search(rf"Highest hit rate @4 {hits:.3f}.*?; favours who built the pool", Reader(plain_page()).text)


COLUMNS = {
    "hit rate @4": "VSDHR@4",
    "reciprocal rank @4": "VSDMRR@4",
    "AUC, macro": "AUC",
    "AUC, micro": "AUC(average='micro')",
    "AUC, macro, sampled": "AUC(negatives='sampled')",
    "AUC, micro, sampled": "AUC(average='micro', negatives='sampled')",
    "PRAUC, macro": "PRAUC",
    "PRAUC, micro": "PRAUC(average='micro')",
    "PRAUC, macro, sampled": "PRAUC(negatives='sampled')",
    "PRAUC, micro, sampled": "PRAUC(average='micro', negatives='sampled')",
    "judged @4": "Judged@4",
    "precision @4": "P@4",
    "Bpref": "Bpref",
    "RBP @4": "RBP@4",
    "RBP residual @4": "RBP(part='residual')@4",
}


def test_every_cell_of_the_table_is_the_boards() -> None:
    board, found = plain().board, cells(plain_page())
    assert set(found) == set(QUALITY)
    others = {"model", "AUC, 95 %", "AUC, macro, own out", "AUC, micro, own out"}
    for model, row in found.items():
        assert set(row) == set(COLUMNS) | others
        assert [key for key in row if key in COLUMNS] == list(COLUMNS)
        for key, metric in COLUMNS.items():
            assert float(row[key][0]) == pytest.approx(board[model][metric].mean, abs=1e-8), key
        assert plain_text(row["AUC, macro"][1]).strip() == f"{board[model]['AUC'].mean:.3f}"
        low, high = board.own_out_intervals[model][Metric.parse("AUC")]
        assert row["AUC, 95 %"][1] == f"{low:.3f}–{high:.3f}"
        for key, metric in (("AUC, macro, own out", "AUC"), ("AUC, micro, own out", "AUC(average='micro')")):
            assert float(row[key][0]) == pytest.approx(board.own_out[model][metric].mean, abs=1e-8)
        bounds = [f"{board[model]['P@4'].mean:.3f}", f"{board.upper[model]['P@4'].mean:.3f}"]
        assert plain_text(row["precision @4"][1]).strip() == "–".join(dict.fromkeys(bounds))


def test_the_best_is_bold_and_only_where_high_is_good() -> None:
    found = cells(plain_page())
    for key in COLUMNS:
        bold = {model for model, row in found.items() if row[key][1].startswith("<b>")}
        best = max(float(row[key][0]) for row in found.values())
        if key in ("judged @4", "RBP residual @4"):
            assert not bold
        else:
            assert bold == {model for model, row in found.items() if float(row[key][0]) == best}, key


def test_models_stand_in_the_groups_of_the_paper() -> None:
    bodies = re.findall(r"<tbody>(.*?)</tbody>", section(plain_page(), "table"))
    assert [re.search(r"scope='rowgroup'[^>]*>(.*?)<", body)[1] for body in bodies] == ["built the pool", "came later"]  # type: ignore[index]
    for body, group in zip(bodies, (BUILDERS, LATE), strict=True):
        ranked = sorted(group, key=lambda model: -plain().board.own_out[model]["AUC"].mean)
        assert re.findall(r"<th scope='row'[^>]*data-v='(\w+)'", body) == ranked
    doubted = {model for model, row in cells(plain_page()).items() if plain().board[model]["Judged@4"].mean < 0.8}
    assert doubted == set(LATE)
    rows = {model: row for body in bodies for model, row in re.findall(r"data-v='(\w+)'(.*?)</tr>", body)}
    assert {model for model, row in rows.items() if "doubt" in row} == doubted


def test_bars_have_their_numbers_as_a_table_and_in_words() -> None:
    board, figure = plain().board, section(plain_page(), "bars")
    told = [html.unescape(words) for words in re.findall(r'role="img" aria-label="([^"]*)"', figure)]
    tables = re.findall(r'<div data-metric="(\d+)"( hidden)?>(.*?)</div>', figure)
    of = [(metric, board.own_out, board.own_out_intervals) for metric in board.own_out["alpha"]]
    of += [(metric, board.evaluations, board.intervals) for metric in board.metrics]
    assert len(told) == len(tables) == len(of) == len(board.metrics) + 2
    assert [int(place) for place, hidden, _ in tables if not hidden] == [0]
    assert of[0][0] == Metric.parse("AUC")
    for (_, _, table), words, (metric, found, intervals) in zip(tables, told, of, strict=True):
        names = re.findall(r"<th scope=\"row\">(\w+)</th>", table)
        assert names == sorted(QUALITY, key=lambda name: -found[name][metric].mean)
        assert words.startswith(called(metric, found is board.own_out))
        for model in names:
            low, high = intervals[model][metric]
            value = found[model][metric].mean
            assert f"{model} {value:.3f} ({low:.3f} to {high:.3f})" in words.replace("<0.001", "0.000")
            assert f"<td>{value:.3f}</td><td>{low:.3f} to {high:.3f}</td>" in table.replace("&lt;0.001", "0.000")


def test_the_bias_figure_gives_hit_rate_and_both_areas() -> None:
    board = plain().board
    head, *rows = number_table(plain_page(), "bias")
    assert head == ["model", "", "hit rate @4", "AUC (macro)", "AUC (macro), own pairs out", "change"]
    assert [row[0] for row in rows] == board.ranking("AUC")
    for model, role, hits, area, without, change in rows:
        assert role == ("built the pool" if model in BUILDERS else "came later")
        values = board[model]["VSDHR@4"].mean, board[model]["AUC"].mean, board.own_out[model]["AUC"].mean
        assert [hits, area, without] == [f"{value:.3f}" for value in values]
        assert float(change.replace("−", "-")) == pytest.approx(values[2] - values[1], abs=6e-4)


def test_changes_without_own_pairs_keep_their_sign() -> None:
    loo = plain().loo
    head, *rows = number_table(plain_page(), "changes")
    assert len(rows) == len(loo.rows_) == 6
    assert {row[1] for row in rows} == {"AUC (macro)", "AUC (micro)"}
    by_key = {(row.model, "AUC (micro)" if row.metric.micro else "AUC (macro)"): row for row in loo.rows_}
    for cells_ in rows:
        found, named = by_key[cells_[0], cells_[1]], dict(zip(head, cells_, strict=True))
        assert named["pairs dropped"] == f"{found.dropped:,}"
        assert float(named["change"].replace("−", "-")) == pytest.approx(found.change, abs=6e-4)
        assert float(named["places"].replace("−", "-")) == found.shift
        assert named["Kendall"] == f"{found.kendall:.3f}".replace("-", "−").replace("nan", "–")
    assert any(row.change > 0 for row in loo.rows_)
    worse = LeaveOneOut([dataclasses.replace(row, change=-0.25, shift=-1.5) for row in loo.rows_])
    page = render_leaderboard(plain().board, title="Shop", loo=worse)
    assert all(dict(zip(head, row, strict=True))["change"] == "−0.250" for row in number_table(page, "changes")[1:])
    assert all(dict(zip(head, row, strict=True))["places"] == "−1.5" for row in number_table(page, "changes")[1:])
    told = dict(re.findall(r'aria-label="Change of ([^"]*?) when [^:]*: ([^"]*)\."', section(plain_page(), "changes")))
    for (model, metric), found in by_key.items():
        said = dict(part.rsplit(" ", 1) for part in told[metric].split(", "))
        assert float(said[model].replace("−", "-")) == pytest.approx(found.change, abs=6e-4)


# The pool


def test_the_overlap_is_that_of_the_proposals() -> None:
    pool, part = plain().pool, section(plain_page(), "pool")
    proposed = {name: {pair for pair, by in zip(pool.pairs, column, strict=True) if by}
                for name, column in zip(pool.models, pool.proposed.T.tolist(), strict=True)}  # fmt: skip
    rows = re.findall(r"<tr><th scope='row'.*?</tr>", part)
    assert len(rows) == len(pool.models)
    for (name, pairs), row in zip(proposed.items(), rows, strict=True):
        assert f"title='{name}'" in row
        shown = re.findall(r"class='heat' style='--share:([\d.]+)'>(.*?)</td>", row)
        shares = [len(pairs & others) / len(pairs) for other, others in proposed.items() if other != name]
        assert [float(share) for share, _ in shown] == pytest.approx(shares, abs=6e-4)
        assert all(abs(float(words.rstrip("\u202f%")) / 100 - share) < 0.0051
                   for (_, words), share in zip(shown, shares, strict=True))  # fmt: skip
        counts = re.findall(r"<td>([\d,]+)</td>", row)
        assert counts == [str(len(pairs)), str(int(pool.alone(name).sum()))]
        grades = plain().judgements.by_pair
        known = [grades[pair] for pair in pairs if pair in grades]
        assert f"{sum(known)} of {len(known)} judged" in row
    told = plain_text(part)
    assert f"{len(pool):,}" in told
    everything = N_QUERIES * (N_ITEMS - 1)  # a query is not paired with itself
    assert f"{everything / len(pool):,.0f} times fewer than all {everything:,}" in told
    union = set().union(*proposed.values())
    duplicates = 1 - len(union) / sum(map(len, proposed.values()))
    assert f"{100 * duplicates:.0f}" in told.partition("Duplicates")[2][:12]
    assert "30 drawn by chance" in told
    assert f"{np.median(plain().votes.seconds):.3g} seconds a pair, as experts took" in told


def test_the_page_says_which_pairs_were_judged() -> None:
    pool = plain().pool
    lucky = [pair for pair, by in zip(pool.pairs, pool.proposed.any(1).tolist(), strict=True) if not by]
    assert 0 < len(lucky) <= 30
    told = "Only pairs that some model proposed were judged, and {} pairs drawn by chance."
    assert told.format(len(lucky)) in plain_page()
    drawn = np.flatnonzero(pool.proposed.any(1))
    fields = {name: getattr(pool, name)[drawn] for name in ("queries", "items", "ranks", "scores", "random")}
    page = render_leaderboard(plain().board, title="Shop", pool=dataclasses.replace(pool, **fields))
    assert "Only pairs that some model proposed were judged." in page
    assert "Only some of all pairs were judged." in odd_pages()["two"]


def test_without_measured_times_a_pair_takes_fifteen_seconds() -> None:
    page = render_leaderboard(plain().board, title="Shop", pool=plain().pool)
    assert "at 15 seconds a pair, by assumption" in page
    assert "<th scope='col'>positive</th>" not in page


# Experts


def test_agreement_is_that_of_the_votes() -> None:
    found = agreement(plain().votes, plain().study.gold())
    part = section(plain_page(), "agreement")
    told = plain_text(part)
    short = plain().votes[np.isin(plain().votes.items, plain().votes.items[:8]) | (plain().votes.experts != "eve")]
    assert (
        "of every two experts (2 left out, with fewer than 20 pairs in common)"
        in Reader(render_leaderboard(plain().board, title="Short", votes=short)).text
    )
    for value in (found.alpha, found.ac1, np.nanmin(found.kappa), *(row["kappa"] for row in found.kappa_rows())):
        assert f"{value:.3f}".replace("-", "−") in told
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</th>(.*?)</tr>", part)
    experts = {name: re.findall(r"<td>(.*?)</td>", rest) for name, rest in rows}
    for figures in found.figures:
        cells_ = experts[figures.expert]
        assert cells_[:2] == [f"{figures.votes:,}", f"{figures.decided:,}"]
        assert cells_[5] == f"{figures.median_seconds:.1f}"
        assert cells_[7] == f"{figures.gold_right} of {figures.gold_asked}"


def test_disputes_are_the_most_even_votes_first() -> None:
    votes = plain().votes
    by_pair: dict[tuple[str, str], list[int]] = {}
    for query, item, answer in zip(votes.queries.tolist(), votes.items.tolist(), votes.answers.tolist(), strict=True):
        by_pair.setdefault((query, item), []).append(answer)
    split = {pair: given for pair, given in by_pair.items() if {0, 1} <= set(given)}
    found = disputed(votes)
    assert {(pair.query, pair.item) for pair in found} == set(split)
    for pair in found:
        given = split[pair.query, pair.item]
        assert (pair.similar, pair.not_similar, pair.cant_tell) == tuple(given.count(answer) for answer in (1, 0, -1))
    shares = [min(pair.similar, pair.not_similar) / (pair.similar + pair.not_similar) for pair in found]
    assert shares == sorted(shares, reverse=True)
    same = list(itertools.takewhile(lambda pair: shares[found.index(pair)] == shares[0], found))
    queries = len({pair.query for pair in same})
    assert len({pair.query for pair in same[:queries]}) == queries  # each query once before any comes again
    assert disputed(votes[[2, 1, 0, *range(3, len(votes))]]) == found
    lonely = Votes(["q", "q", "q"], ["a", "a", "b"], ["ann", "bob", "ann"], [1, -1, 0])
    assert disputed(lonely) == []


def picture_of(page: str, classes: str) -> np.ndarray:
    name = classes.split()[1]
    uri = re.search(rf"\.{name}\{{background-image:url\(data:image/\w+;base64,([^)]*)\)\}}", page)
    assert uri is not None
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri[1]))).convert("RGB"))


def test_disputed_pairs_show_their_own_pictures() -> None:
    ids, page = plain().ids, plain_page()
    part = section(page, "disputes")
    pairs = re.findall(r'<li class="pair">(.*?)</li>', part)
    shown = disputed(plain().votes)[:12]
    assert len(pairs) == len(shown) == 12
    seen = 0
    for inner, pair in zip(pairs, shown, strict=True):
        sides = re.findall(r"<figure>(.*?)<figcaption title=\"(.*?)\">", inner)
        assert [name for _, name in sides] == [pair.query, pair.item]
        for (picture, name), what in zip(sides, ("query", "candidate"), strict=True):
            place = ids.index(name)
            if place < 2:  # there is no file, or a damaged one
                assert f'<span class="absent"><small>{what}, no picture</small>{name}</span>' == picture
                continue
            drawn = re.fullmatch(rf'<i class="(.*?)" role="img" aria-label="{what} {name}"></i>', picture)
            assert drawn is not None
            assert (picture_of(page, drawn[1]) == colour(place)).all()
            assert "tiny" in drawn[1]
            seen += 1
        assert f"<p>{pair.similar} similar, {pair.not_similar} not similar" in inner
        grade = plain().judgements.by_pair[pair.query, pair.item]
        assert f"counts as {'similar' if grade else 'not similar'} <small>(majority)</small>" in inner
    assert seen > 12
    rules = re.findall(r"\.(p\d+)\{background-image", page)
    assert len(rules) == len(set(rules))
    assert set(rules) == {name.split()[1] for name in re.findall(r'class="(picture p\d+[^"]*)"', part)}


def test_missing_and_damaged_pictures_are_placeholders() -> None:
    ids = plain().ids
    queries, items = [ids[0], ids[0], ids[1], ids[1]], [ids[1], ids[1], "unknown", "unknown"]
    votes = Votes(queries, items, ["ann", "bob"] * 2, [1, 0, 1, 0])
    page = render_leaderboard(plain().board, title="Shop", study=plain().study, votes=votes)
    placeholders = re.findall(r'<span class="absent"><small>(.*?)</small>(.*?)</span>', page)
    assert placeholders == [
        (f"{what}, no picture", name) for pair in ((ids[0], ids[1]), (ids[1], "unknown"))
        for what, name in zip(("query", "candidate"), pair, strict=True)
    ]  # fmt: skip
    assert "background-image:url" not in page
    without = render_leaderboard(plain().board, title="Shop", votes=votes)
    assert re.findall(r'<span class="absent"><small>(.*?)</small>(.*?)</span>', without) == placeholders


# What may not break it


def test_the_footer_says_where_numbers_come_from() -> None:
    facts = dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", plain_page().partition('class="facts"')[2]))
    assert facts["rule for votes"] == "majority"
    assert facts["a judgement is about"] == "one image"
    assert (facts["k of the pool"], facts["seed"], facts["ranks looked at"]) == ("4", "0", "4")
    assert facts["made by"].startswith("lookalike ")
    assert facts["charts by"].startswith("Vega ")


@functools.cache
def hostile() -> Made:
    return made(ROOM[-1] / "hostile", suffix=HOSTILE)


@functools.cache
def hostile_page() -> str:
    return render_leaderboard(hostile().board, title=HOSTILE, **hostile().parts())


def test_hostile_names_stay_text() -> None:
    reader = Reader(hostile_page())
    assert [attrs for tag, attrs in reader.found if tag == "img" or "onerror" in attrs] == []
    assert sum(tag == "script" for tag, _ in reader.found) == 3
    for name in (HOSTILE, f"alpha{HOSTILE}", f"ann{HOSTILE}", hostile().ids[0]):
        assert name in reader.text, name
    assert "{{" not in hostile_page().replace(html.escape("{{data}}"), "").partition('<script type="application')[0]
    policy = next(attrs["content"] for tag, attrs in reader.found if attrs.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe-eval" not in policy
    harmless, now = (Counter(tag for tag, _ in found) for found in (Reader(plain_page()).found, reader.found))
    assert now == harmless


def bare(board: Leaderboard, models: list[str]) -> Leaderboard:
    """A board of some models that nobody knows the pool of."""

    def only(given: dict[str, Any]) -> dict[str, Any]:
        return {name: given[name] for name in models}

    return dataclasses.replace(
        board, evaluations=only(board.evaluations), helped=dict.fromkeys(models, False), own_out=only(board.own_out),
        upper=only(board.upper), intervals=only(board.intervals),
    )  # fmt: skip


@functools.cache
def odd_pages() -> dict[str, str]:
    """Pages at the edges: next to nothing to show, many models, other metrics, nothing to measure."""
    quality = {f"a model with a long name, number {n}": 0.04 * n for n in range(1, 21)}
    many = made(ROOM[-1] / "many", models=quality, builders=tuple(quality), metrics="VSDHR@4 AUC Judged@4 P@4")
    ranks = made(ROOM[-1] / "ranks", metrics=["Hit@3", "nDCG@4"])
    base = plain()
    positive = dataclasses.replace(base.judgements, grades=np.ones(len(base.judgements), int))
    collection = base.pool.collection
    scores = {name: np.random.default_rng(5).normal(size=(N_QUERIES, N_ITEMS)) for name in ("one", "two")}
    undefined = board_of(Contest(scores, collection, positive, depth=K), parse_all("AUC VSDHR@4"), None, resamples=10)
    return {
        "two": render_leaderboard(bare(base.board, ["alpha", "delta"]), title="Two"),
        "one": render_leaderboard(bare(base.board, ["alpha"]), title="One", votes=base.votes[:1]),
        "many": render_leaderboard(many.board, title="Many", **many.parts()),
        "ranks": render_leaderboard(ranks.board, title="Ranks", pool=ranks.pool),
        "undefined": render_leaderboard(undefined, title="Undefined"),
        "hostile": hostile_page(),
    }


def test_odd_boards_have_a_page() -> None:
    pages = odd_pages()
    assert "Who built the pool of judged pairs is not known" in pages["two"]
    assert "built the pool</th>" not in pages["two"]
    assert "own out" not in pages["two"].partition("<footer")[0]
    assert "own left out" not in pages["two"].partition("<footer")[0]
    assert not any(f'<section id="{name}"' in pages["two"] for name in ("pool", "changes", "agreement", "disputes"))
    assert 'id="grouping"' not in pages["two"]
    assert "1 model on" in pages["one"]
    assert '<section id="disputes"' not in pages["one"]
    assert "20 models on" in pages["many"]
    assert re.search(r"\(−0\.\d+ to \+0\.\d+; p [\d.]+ with [^)]*\): too close to call", pages["many"])
    assert pages["many"].count("class='heat'") == 20 * 19
    assert "leads by Hit@3" in pages["ranks"]
    assert '<section id="bias"' not in pages["ranks"]
    assert "No model has a value of AUC (macro)" in pages["undefined"]
    for page in pages.values():
        reader = Reader(page)
        assert not re.search(r"\bnan\b", reader.text, re.IGNORECASE)
        assert not any("NaN" in script for script in reader.scripts if script.startswith('{"models"'))
        assert len(page) < 2_500_000


def test_there_must_be_a_model() -> None:
    with pytest.raises(ValueError, match="no model on the leaderboard"):
        render_leaderboard(bare(plain().board, []), title="None")


def test_names_are_put_where_they_cover_nothing() -> None:
    random = np.random.default_rng(2)
    rows = [
        {"model": f"model {n}", "area": x, "hits": y, "without": x} for n, (x, y) in enumerate(random.random((20, 2)))
    ]
    places = label_positions(rows)
    assert 8 <= sum(place is not None for place in places) <= 20
    for row, place in zip(rows, places, strict=True):
        if place is not None:  # a name at the edge stands inside
            assert (place.align == "left") or row["area"] > 0.2
            assert (place.align == "right") or row["area"] < 0.9
    same = [{"model": f"model {n}", "area": 0.5, "hits": 0.5, "without": 0.5} for n in range(9)]
    assert len([place for place in label_positions(same) if place is not None]) <= 6  # each place once


# In a browser


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


def column(page, key: str) -> list[str]:
    place = page.eval_on_selector_all(
        "#comparison thead tr:last-child th", "all => all.map(th => th.dataset.key)"
    ).index(key)
    rows = f"#comparison tr[data-model] > :nth-child({place + 1})"
    return page.eval_on_selector_all(rows, "all => all.map(cell => cell.dataset.v)")


def falling(values: list[str]) -> bool:
    return [float(value) for value in values] == sorted(map(float, values), reverse=True)


def test_a_browser_shows_everything(browser, tmp_path: Path) -> None:
    opened = Opened(browser, tmp_path / "page.html", plain_page())
    page = opened.page
    opened.check()
    assert page.locator("figure[role=group]").count() == 3

    names = column(page, "model")
    assert set(names[:3]) == set(BUILDERS)
    area = page.locator("#comparison th[data-key='AUC, macro, own out']")
    assert area.get_attribute("aria-sort") == "descending"
    assert falling(column(page, "AUC, macro, own out")[:3])
    hits = page.locator("#comparison th[data-key='hit rate @4']")
    hits.locator("button").click()
    assert (hits.get_attribute("aria-sort"), area.get_attribute("aria-sort")) == ("descending", "none")
    values = column(page, "hit rate @4")
    assert falling(values[:3])
    assert falling(values[3:])
    hits.locator("button").focus()
    page.keyboard.press("Enter")
    assert hits.get_attribute("aria-sort") == "ascending"
    assert set(column(page, "model")[:3]) == set(BUILDERS)
    area.locator("button").click()
    page.locator("#grouping input[value=all]").check()
    assert falling(column(page, "AUC, macro, own out"))
    assert page.locator("#comparison tr.group:visible").count() == 0
    page.locator("#grouping input[value=groups]").check()
    assert set(column(page, "model")[:3]) == set(BUILDERS)
    assert page.locator("#comparison tr.group:visible").count() == 2

    chosen = str(2 + plain().board.metrics.index(Metric.parse("VSDHR@4")))  # after those without own pairs
    page.locator("#metric").select_option(chosen)
    page.wait_for_selector(f"#bars .chart[data-metric='{chosen}'] svg")
    assert page.locator("#bars .chart:visible").count() == 1
    page.locator("#bars summary").click()
    assert page.locator("#bars details div[data-metric]:visible").count() == 1
    opened.check()

    page.locator(".legend button[data-model='1']").click()
    assert page.locator("#comparison tr.dim").count() == len(QUALITY) - 1
    page.wait_for_function("document.querySelectorAll('#bars .chart:not([hidden]) path[opacity=\"0.12\"]').length > 0")
    page.locator("#metric").select_option("0")
    page.wait_for_function("document.querySelectorAll('#bars .chart:not([hidden]) path[opacity=\"0.12\"]').length > 0")
    page.locator(".legend .everyone").click()
    assert page.locator(".dim").count() == 0
    assert opened.said == []


def test_it_fits_phones_and_darkness(browser, tmp_path: Path) -> None:
    colours = {}
    for scheme in ("light", "dark"):
        path, phone = tmp_path / f"{scheme}.html", {"width": 390, "height": 800}
        opened = Opened(browser, path, plain_page(), viewport=phone, color_scheme=scheme)
        opened.check()
        assert opened.page.evaluate("document.documentElement.scrollWidth") == 390
        style = "e => [getComputedStyle(e).fill, getComputedStyle(document.body).backgroundColor]"
        heat = "e => getComputedStyle(e).backgroundColor"
        colours[scheme] = [*opened.page.eval_on_selector("[data-plot] svg text", style)]
        colours[scheme].append(opened.page.eval_on_selector(".heat", heat))
    assert all(light != dark for light, dark in zip(colours["light"], colours["dark"], strict=True))
    table = "#table .scroll"
    opened.page.eval_on_selector(table, "e => { e.scrollLeft = 300; }")
    assert opened.page.eval_on_selector(table, "e => e.scrollLeft") == 300
    left = "([cell, box]) => cell.getBoundingClientRect().left - box.getBoundingClientRect().left"
    both = [opened.page.query_selector(f"{table} tr[data-model] .stick"), opened.page.query_selector(table)]
    assert 0 <= opened.page.evaluate(left, both) <= 2  # the first column stays
    opened.page.emulate_media(media="print")
    assert opened.page.eval_on_selector("body", "e => getComputedStyle(e).backgroundColor") == "rgb(255, 255, 255)"


@pytest.mark.parametrize("name", ["two", "one", "many", "ranks", "undefined", "hostile"])
def test_a_browser_shows_odd_boards(browser, tmp_path: Path, name: str) -> None:
    phone = {"width": 390, "height": 800}
    opened = Opened(browser, tmp_path / "page.html", odd_pages()[name], viewport=phone)
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 390
    if name == "undefined":
        assert opened.page.locator("#bars .chart:visible").inner_text().endswith("There is no value to draw.")
        opened.page.locator("#metric").select_option(label="hit rate @4")
        opened.page.wait_for_selector("#bars .chart:not([hidden]) svg")
    opened.check()
    names = opened.page.eval_on_selector_all(
        "#bias .mark-text.role-mark text",
        "all => all.map(text => text.getBoundingClientRect()).map(box => [box.left, box.right, box.top, box.bottom])",
    )
    assert len(names) >= {"two": 2, "many": 5, "hostile": 2}.get(name, 0)
    for one, other in itertools.combinations(names, 2):  # no name covers another, by more than the space between lines
        across, down = min(one[1], other[1]) - max(one[0], other[0]), min(one[3], other[3]) - max(one[2], other[2])
        assert across < 1 or down < 3
