"""The page of a leaderboard: its numbers are the board's, and its pictures the pairs'.

A vacuous test would pass on a table whose columns are swapped, or on pictures of other items: here cells are read back
by their headers, and every item's picture has a colour of its own.
"""

import base64
import dataclasses
import html
import io
import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from helpers.leaderboard_pages import (
    BUILDERS,
    LATE,
    N_ITEMS,
    N_QUERIES,
    QUALITY,
    _room,  # noqa: F401  # makes the folder of the studies
    cells,
    colour,
    made,
    number_table,
    odd_pages,
    plain,
    plain_page,
    plain_text,
    section,
)
from helpers.pages import Reader
from lookalike.discovery import (
    Leaderboard,
    Votes,
    agreement,
)
from lookalike.discovery.bias import LeaveOneOut
from lookalike.discovery.leaderboard import effect
from lookalike.evaluation.results import Score
from lookalike.metrics.metric import Metric
from lookalike.metrics.values import Values
from lookalike.report.leaderboard import render_leaderboard, write_leaderboard
from lookalike.report.leaderboard.experts import disputed
from lookalike.report.leaderboard.standing import called

# Words and numbers


def test_the_page_is_the_same_every_time(tmp_path: Path) -> None:
    write_leaderboard(tmp_path / "board.html", plain().board, title="Shop", **plain().parts())
    assert (tmp_path / "board.html").read_text(encoding="utf-8") == plain_page()
    again = made(tmp_path)  # the same study in another folder
    assert render_leaderboard(again.board, title="Shop", **again.parts()) == plain_page()


def test_the_headline_names_the_leader_and_who_built_the_pool() -> None:
    board = plain().board
    told = Reader(plain_page()).text
    means = {name: evaluation["Bpref"].mean for name, evaluation in board.equal_terms.items()}
    first, second = sorted(means, key=lambda name: -means[name])[:2]
    low, high = board.equal_terms_intervals[first][Metric.parse("Bpref")]
    assert f"{first} leads by Bpref, equal terms: {means[first]:.3f} (95 % interval" in told
    shown = round(means[first], 3) - round(means[second], 3)
    assert f"{low:.3f} to {high:.3f}), ahead of {second} ({means[second]:.3f}) by {shown:.3f} (" in told
    assert "alpha, beta and gamma built the pool of judged pairs; delta and epsilon came later" in told
    gap = board.placing.gaps[0]
    assert (gap.model, gap.difference) == (second, means[first] - means[second])
    assert f", p {gap.p_value:.3f}; both corrected for 4 comparisons)" in told
    assert ("too close to call" in told) == any(gap.p_value >= 0.05 for gap in board.placing.gaps)
    assert board.warnings
    for warning in board.warnings:
        assert warning in told


def test_a_clear_lead_is_told_from_luck(tmp_path: Path) -> None:
    clear = made(tmp_path, models={"bad": 0.05, "good": 0.99, "fair": 0.7}, builders=("bad", "good", "fair"))
    told = Reader(render_leaderboard(clear.board, title="Clear")).text
    assert "good leads by Bpref, equal terms" in told
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
        intervals={}, own_out_intervals={}, equal_terms={}, equal_terms_intervals={},
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
    assert {effects[key] for key in NEUTRAL} == {"neutral"}
    assert set(effects) == {*COLUMNS, *NEUTRAL, "On equal terms, 95 %"}
    assert "Favours, punishes, neutral: what a number does to models that helped to build the pool" in plain_page()
    hits = max(base[name]["VSDHR@4"].mean for name in QUALITY)
    assert re.search(rf"Highest hit rate @4 {hits:.3f}.*?; favours who built the pool", Reader(plain_page()).text)


NEUTRAL = ("On equal terms, Bpref", "On equal terms, AUC", "AUC, macro, own out", "AUC, micro, own out")
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
    others = {"model", "On equal terms, 95 %", *NEUTRAL}
    for model, row in found.items():
        assert set(row) == set(COLUMNS) | others
        assert [key for key in row if key in COLUMNS] == list(COLUMNS)
        for key, metric in COLUMNS.items():
            assert float(row[key][0]) == pytest.approx(board[model][metric].mean, abs=1e-8), key
        assert plain_text(row["AUC, macro"][1]).strip() == f"{board[model]['AUC'].mean:.3f}"
        low, high = board.equal_terms_intervals[model][Metric.parse("Bpref")]
        assert row["On equal terms, 95 %"][1] == f"{low:.3f}–{high:.3f}"
        for metric in ("Bpref", "AUC"):
            even = float(row[f"On equal terms, {metric}"][0])
            assert even == pytest.approx(board.equal_terms[model][metric].mean, abs=1e-8)
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
        ranked = sorted(group, key=lambda model: -plain().board.equal_terms[model]["Bpref"].mean)
        assert re.findall(r"<th scope='row'[^>]*data-v='(\w+)'", body) == ranked
    doubted = {model for model, row in cells(plain_page()).items() if plain().board[model]["Judged@4"].mean < 0.8}
    assert doubted == set(LATE)
    rows = {model: row for body in bodies for model, row in re.findall(r"data-v='(\w+)'(.*?)</tr>", body)}
    assert {model for model, row in rows.items() if "doubt" in row} == doubted


def test_bars_have_their_numbers_as_a_table_and_in_words() -> None:
    board, figure = plain().board, section(plain_page(), "bars")
    told = [html.unescape(words) for words in re.findall(r'role="img" aria-label="([^"]*)"', figure)]
    tables = re.findall(r'<div data-metric="(\d+)"( hidden)?>(.*?)</div>', figure)
    of = [(metric, board.equal_terms, board.equal_terms_intervals) for metric in board.equal_terms["alpha"]]
    of += [(metric, board.own_out, board.own_out_intervals) for metric in board.own_out["alpha"]]
    of += [(metric, board.evaluations, board.intervals) for metric in board.metrics]
    assert len(told) == len(tables) == len(of) == len(board.metrics) + 4
    assert [int(place) for place, hidden, _ in tables if not hidden] == [0]
    assert of[0][0] == Metric.parse("Bpref")
    for (_, _, table), words, (metric, found, intervals) in zip(tables, told, of, strict=True):
        names = re.findall(r"<th scope=\"row\">(\w+)</th>", table)
        assert names == sorted(QUALITY, key=lambda name: -found[name][metric].mean)
        assert words.startswith(called(metric, found is board.own_out, found is board.equal_terms))
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
        assert counts == [str(len(pairs)), str(int(pool.alone(name, or_random=True).sum()))]
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
        assert (*pair.by_grade, pair.cant_tell) == tuple(given.count(answer) for answer in (0, 1, -1))
    shares = [min(pair.by_grade) / sum(pair.by_grade) for pair in found]
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
        assert f"<p>{pair.by_grade[1]} similar, {pair.by_grade[0]} not similar" in inner
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
