"""Pages of leaderboards for tests: studies with pictures of one colour each, and what a page shows read back."""

import dataclasses
import functools
import html
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from helpers.pages import HOSTILE
from lookalike.discovery import (
    Catalogue,
    Collection,
    Contest,
    Judgements,
    Leaderboard,
    Pool,
    Votes,
    discovery_metrics,
    leave_one_out,
    majority,
)
from lookalike.discovery.bias import LeaveOneOut
from lookalike.discovery.leaderboard import board_of
from lookalike.metrics.metric import parse_all
from lookalike.report.leaderboard import render_leaderboard
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


@functools.cache
def hostile() -> Made:
    return made(ROOM[-1] / "hostile", suffix=HOSTILE)


@functools.cache
def hostile_page() -> str:
    return render_leaderboard(hostile().board, title=HOSTILE, **hostile().parts())


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
