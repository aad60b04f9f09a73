"""The sections of a leaderboard's page that are tables of Barkan et al. 2023, and p_LB of proposed pairs.

What a vacuous test would let pass: names that no parser would trip over; a page that shows both sections always.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np

from helpers.leaderboard_pages import plain_text, section
from helpers.pages import HOSTILE
from lookalike.discovery import (
    Collection,
    Judgements,
    Leaderboard,
    Pool,
    leaderboard,
    paper_tables,
    prevalence,
    recognition,
)
from lookalike.evaluation.results import shown
from lookalike.report.leaderboard import render_leaderboard
from lookalike.report.numbers import number


def a_board(suffix: str = "") -> tuple[Leaderboard, Pool, Judgements]:
    """Two builders and a later model on products of two images, with all tables."""
    rng = np.random.default_rng(2)
    ids = [f"i{n}" for n in range(40)]
    identities = [f"p{n // 2}" for n in range(40)]
    collection = Collection(ids[:8], ids, identities[:8], identities)
    truth = rng.normal(size=(8, 40))
    models = {f"{name}{suffix}": truth + rng.normal(size=truth.shape) for name in ("one", "two", "late")}
    builders = dict(list(models.items())[:2])
    pool = Pool.build(builders, collection, k=4, random=40)
    judged = Judgements.of([(*pair, n % 3 % 2) for n, pair in enumerate(pool.pairs)])
    options: dict[str, Any] = {"pool": pool, "resamples": 20}
    board = leaderboard(models, judged, collection, **options)
    found = recognition(models, collection, resamples=20)
    paper = paper_tables(models, judged, collection, **options)
    return dataclasses.replace(board, recognised=found, paper=paper), pool, judged


def test_sections_are_there_where_they_were_asked_for() -> None:
    board, pool, _ = a_board()
    page = render_leaderboard(board, title="Shop", pool=pool)
    without = render_leaderboard(dataclasses.replace(board, recognised=None, paper=None), title="Shop", pool=pool)
    for name in ("identification", "paper"):
        assert f'href="#{name}"' in page
        assert section(page, name)
        assert not section(without, name)
        assert f'href="#{name}"' not in without


def test_every_number_of_identification_is_shown_with_its_interval() -> None:
    board, pool, _ = a_board()
    assert board.recognised is not None
    told = plain_text(section(render_leaderboard(board, title="Shop", pool=pool), "identification"))
    assert "8 of 8 queries have such an image" in told
    for row in board.recognised.rows():
        assert f"{number(row['low'])} to {number(row['high'])}" in told
        assert number(row["mean"]) in told


def test_the_tables_of_the_paper_are_those_of_the_board() -> None:
    board, pool, _ = a_board()
    assert board.paper is not None
    content = section(render_leaderboard(board, title="Shop", pool=pool), "paper")
    tables = re.findall(r"<table>.*?</table>", content)
    made = [table for table in board.paper.tables if not table.missing]
    assert [table.number for table in made] == [4, 5, 7]
    for table, html in zip(made, tables, strict=True):
        cells = [re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<td(?: title='[^']*')?>(.*?)</td>", html)]
        assert cells == [f"{row['mean'] * 100:.1f}" for row in table.rows()]
        best = sum(table.is_best(model, metric) for model in table.values for metric in table.metrics)
        assert html.count("<b>") == best
        spans = sum(int(span) for span in re.findall(r"colspan='(\d+)'", html.partition("</thead>")[0]))
        assert spans == len(table.metrics) * (3 if table.number == 5 else 2)  # every line of the head is as wide
    for table in board.paper.tables:
        assert table.title in plain_text(content)


def test_names_are_text() -> None:
    board, pool, _ = a_board(HOSTILE)
    page = render_leaderboard(board, title="Shop", pool=pool)
    for name in ("identification", "paper"):
        assert HOSTILE not in section(page, name)
        assert "one" in plain_text(section(page, name))


def test_the_pool_shows_both_lower_bounds() -> None:
    board, pool, judged = a_board()
    found = prevalence(judged, pool)
    assert found.p_lower > found.p_lower_proposed
    told = plain_text(section(render_leaderboard(board, title="Shop", pool=pool, judgements=judged), "pool"))
    assert f"At least {shown(found.p_lower)} of all pairs are positive, or {shown(found.p_lower_proposed)} if" in told
