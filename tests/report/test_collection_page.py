"""The page of a collection: its numbers are the survey's, its pictures the items', and a browser shows all of it.

A vacuous test would pass on groups of other items, on a table whose columns are swapped, or on a page that only works
with everything there is to show: here every item's picture has a colour of its own, cells are read back by their
headers, and pages are made with next to nothing.
"""

import base64
import dataclasses
import functools
import html
import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lookalike as la
from helpers.pages import HOSTILE, Opened, Reader, chromium
from lookalike import cli
from lookalike.discovery import Catalogue, Pool, Votes, leaderboard, leave_one_out, majority
from lookalike.hashers import make
from lookalike.report.collection import JudgedStudy, render_collection, write_collection
from lookalike.report.collection.words import apart
from lookalike.study.study import Study
from lookalike.study.survey import Survey, survey

N = 120
ROOM: list[Path] = []  # where studies are made


@pytest.fixture(scope="module", autouse=True)
def _room(tmp_path_factory: pytest.TempPathFactory) -> None:
    ROOM.append(tmp_path_factory.mktemp("studies"))


def colour(item: int) -> tuple[int, int, int]:
    """A colour that no other item has."""
    return (2 * item, 255 - item, 40 + item % 7)


def a_study(
    folder: Path, *, suffix: str = "", labels: tuple[str, ...] = ("identities", "categories"), pictures: bool = True
) -> Study:
    """Things of five kinds in three images each; some are the same, and two things have one picture.

    The picture of the first item is missing, that of the second damaged.
    """
    (folder / "pictures").mkdir(parents=True)
    for place in range(1, N if pictures else 0):
        Image.new("RGB", (12, 8), colour(place)).save(folder / "pictures" / f"{place}.png")
    (folder / "pictures" / "1.png").write_bytes(b"\x89PNG no more")
    things = np.arange(N) // 3
    known: dict[str, Any] = {
        "identities": [f"thing {thing}{suffix}" for thing in things],
        "categories": [f"kind {thing % 5}{suffix}" for thing in things],
    }
    catalogue = Catalogue(
        np.array([f"i{place:03d}{suffix}" for place in range(N)]),
        **{name: known[name] for name in labels},
        paths=np.array([f"../pictures/{place}.png" for place in range(N)]) if pictures else None,
    )
    study = Study.create(folder / "study", f"shop{suffix}", catalogue, queries=np.arange(0, N, 8))
    rng = np.random.default_rng(3)
    base = rng.normal(size=(5, 20))[things % 5] + rng.normal(size=(N, 20))[things]
    good = base + 0.3 * rng.normal(size=base.shape)
    good[[1, 2, 3, 50, 51]] = good[[0, 0, 0, 30, 30]]  # a crowd of two things, and of two others
    study.add_model("good", gallery=good.astype(np.float32))
    study.add_model("code", gallery=la.Codes.pack(base + 0.8 * rng.normal(size=base.shape) > 0))
    study.add_model(
        "rough", gallery=(base + 1.5 * rng.normal(size=base.shape)).astype(np.float32), similarity="euclidean"
    )
    return study


def surveyed(study: Study) -> Survey:
    return survey(study, hashers=[(name, make(name, bits)) for bits in (8, 16) for name in ("ITQ", "LSH")])


@functools.cache
def plain() -> tuple[Study, Survey]:
    study = a_study(ROOM[-1] / "plain")
    return study, surveyed(study)


@functools.cache
def plain_page() -> str:
    study, found = plain()
    return render_collection(found, study)


def judged(study: Study) -> JudgedStudy:
    pool = Pool.build({name: study.model(name).given for name in ("good", "code")}, study.collection, k=3, random=20)
    queries, items = (list(side) for side in zip(*pool.pairs, strict=True))
    rng = np.random.default_rng(1)
    votes = [
        Votes(queries, items, [expert] * len(pool), rng.integers(0, 2, len(pool))) for expert in ("ann", "bob", "eve")
    ]
    record = votes[0] + votes[1] + votes[2]
    models = {name: study.model(name).given for name in study.models()}
    board = leaderboard(models, majority(record), study.collection, pool=pool, resamples=100)
    return JudgedStudy(board, pool, leave_one_out(board.contest, pool), record, majority(record))


@functools.cache
def judged_page() -> str:
    study, found = plain()
    return render_collection(found, study, judged(study))


def section(page: str, name: str) -> str:
    return re.split(rf'<section id="{name}"[^>]*>', page)[1].partition("</section>")[0]


def plain_text(fragment: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", fragment)).split())


def panel(page: str, name: str, model: str) -> str:
    """What a section shows by one model."""
    place = list(plain()[1].models).index(model)
    return section(page, name).partition(f'data-by="{place}"')[2].partition('<div class="by-model"')[0]


def picture_of(page: str, classes: str) -> np.ndarray:
    name = classes.split()[1]
    uri = re.search(rf"\.{name}\{{background-image:url\(data:image/\w+;base64,([^)]*)\)\}}", page)
    assert uri is not None
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri[1]))).convert("RGB"))


# Words, numbers and pictures


def test_the_page_is_the_same_every_time(tmp_path: Path) -> None:
    study, found = plain()
    write_collection(tmp_path / "page.html", found, study)
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == plain_page()


def test_the_headline_tells_sizes_duplicates_and_who_finds_best() -> None:
    _, found = plain()
    told = Reader(plain_page()).text
    near = found.alike["good"].near
    assert "120 items, 40 identities, 5 categories; seen by 3 models." in told
    assert f"By good, {near.grouped} of 120 items are near-duplicates, in {len(near.groups)} groups." in told
    identity = found.retrieval[0]
    low, high = identity.intervals["good"][identity.main]
    assert f"good finds the same identity best: AP {identity.evaluations['good']['AP'].mean:.3f} " in told
    assert f"({low:.3f} to {high:.3f}), against {identity.ranking()[1]} (" in told


@pytest.mark.parametrize("model", ["good", "code", "rough"])
def test_groups_show_their_own_items(model: str) -> None:
    study, found = plain()
    page, near = plain_page(), found.alike[model].near
    inside = panel(page, "duplicates", model)
    shown = re.findall(r'<li class="group" data-size="(\d+)">(.*?)</ul></li>', inside)
    known = {tuple(group.items.tolist()): group for group in near.groups}
    ids = study.catalogue.ids.tolist()
    seen = 0
    for size, inner in shown:
        tiles = re.findall(r'<li title="([^"]*)">(.*?)</li>', inner)
        places = [ids.index(title.partition(",")[0]) for title, _ in tiles]
        group = next(group for items, group in known.items() if list(items[: len(places)]) == places)
        assert int(size) == len(group.items)
        rest = re.findall(r'class="rest">\+(\d+)<', inner)
        assert [int(more) for more in rest] == (
            [len(group.items) - len(places)] if len(places) < len(group.items) else []
        )
        things = {study.catalogue.identities[item] for item in group.items.tolist()}  # type: ignore[index]
        assert (f"{len(things)} identities" in inner) == (len(things) > 1)
        for place, (_, tile) in zip(places, tiles, strict=True):
            if place < 2:  # there is no file, or a damaged one
                assert f'<span class="absent"><small>no picture</small>{ids[place]}</span>' == tile
                continue
            drawn = re.fullmatch(rf'<i class="(.*?)" role="img" aria-label="{ids[place]}, .*?"></i>', tile)
            assert drawn is not None
            assert np.abs(picture_of(page, drawn[1]).astype(int) - colour(place)).max() <= 2
            seen += 1
    if not near.groups:
        assert "There are none." in inside
        return
    assert seen
    assert len(shown) == min(16, len(near.groups))
    told = plain_text(inside)
    assert f"{near.grouped} items in {len(near.groups)} group" in told
    limit = {"bits": f"at most {int(near.limit)} bit", "cosine": f"a cosine of at least {near.limit:.3f}"}
    assert limit.get(near.unit, f"at most {near.limit:.3g} apart") in told


def test_groups_of_several_things_come_first() -> None:
    shown = re.findall(r'<li class="group".*?</ul></li>', panel(plain_page(), "duplicates", "good"))
    mixed = ["identities</b>" in group for group in shown]
    assert sum(mixed) > 1
    assert mixed == sorted(mixed, reverse=True)
    items = [[title.partition(",")[0] for title in re.findall(r'title="([^"]*)"', group)] for group in shown]
    assert ["i000", "i001", "i002", "i003"] in items[: sum(mixed)]


@pytest.mark.parametrize("model", ["good", "code", "rough"])
def test_pairs_stand_side_by_side_with_their_distance(model: str) -> None:
    study, found = plain()
    near = found.alike[model].near
    inside = panel(plain_page(), "lookalikes", model)
    pairs = re.findall(r'<li class="pair">(.*?)</li>', inside)
    listed = near.pairs[:24] if near.pairs == near.beyond else [*near.pairs[:12], *near.beyond[:12]]
    assert len(pairs) == len(listed) > 10
    ids, things = study.catalogue.ids, study.catalogue.identities
    assert things is not None
    for inner, pair in zip(pairs, listed, strict=True):
        sides = re.findall(r'<figcaption title="(.*?)"><b>(.*?)</b>', inner)
        assert sides == [(ids[item], things[item]) for item in (pair.first, pair.second)]
        assert sides[0][1] != sides[1][1]
        assert f"<b>{html.escape(apart(pair.distance, near.unit))}</b>" in inner
        kinds = [str(study.catalogue.categories[item]) for item in (pair.first, pair.second)]  # type: ignore[index]
        assert (f"both {kinds[0]}" in inner) == (kinds[0] == kinds[1])
    if model == "good":
        assert "identical" not in inside
        assert "Alike, but not near-duplicates" in inside


def test_every_cell_of_the_table_is_the_surveys() -> None:
    _, found = plain()
    table = section(plain_page(), "models")
    heads = [plain_text(cell) for cell in re.findall(r"<th scope='col'[^>]*>(.*?)</th>", table)]
    assert heads == ["Model", "Kind", "Hit@1", "Hit@5", "MRR", "AP", "AP", "P@10"]
    rows = re.findall(r"<tr data-model='(\d+)'>(.*?)</tr>", table)
    assert [list(found.models)[int(place)] for place, _ in rows] == found.retrieval[0].ranking()
    columns = [(retrieval, metric) for retrieval in found.retrieval for metric in retrieval.metrics]
    for place, row in rows:
        model = list(found.models)[int(place)]
        cells = re.findall(r"<td(?! class='kind')[^>]*>(.*?)</td>", row)
        assert len(cells) == len(columns)
        for cell, (retrieval, metric) in zip(cells, columns, strict=True):
            low, high = retrieval.intervals[model][metric]
            mean = retrieval.evaluations[model][metric].mean
            assert plain_text(cell) == f"{mean:.3f} {low:.3f}–{high:.3f}"
            best = max(evaluation[metric].mean for evaluation in retrieval.evaluations.values())
            assert cell.startswith("<b>") == (mean == best)


def test_the_tradeoff_is_the_surveys() -> None:
    _, found = plain()
    assert found.tradeoff is not None
    figure = section(plain_page(), "tradeoff")
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', figure)
    assert len(rows) == len(found.tradeoff.options) == 5
    for (name, rest), option in zip(rows, found.tradeoff.options, strict=True):
        cells = [html.unescape(cell) for cell in re.findall(r"<td>(.*?)</td>", rest)]
        assert name == option.name
        assert cells[:2] == ["–" if option.n_bits is None else str(option.n_bits), str(option.bytes)]
        assert cells[4] == f"{option.agreement:.3f}"
        assert cells[6] == f"{option.quality:.3f}"
        assert cells[8] == f"{option.per_second:,.0f}"
    assert figure.count('role="img"') == 3
    assert 'details class="data" open' in figure


def test_a_judged_study_has_its_leaderboard_on_the_same_page() -> None:
    page = judged_page()
    assert "Discovery leaderboard" in plain_text(section(page, "leaderboard"))
    for name in ("duplicates", "lookalikes", "models", "tradeoff", "table", "bars", "pool", "agreement"):
        assert page.count(f'<section id="{name}"') == 1, name
        assert f'href="#{name}"' in page
    heads = [plain_text(cell) for cell in re.findall(r"<th scope='col'[^>]*>(.*?)</th>", section(page, "models"))]
    assert heads[-2:] == ["Bpref, equal terms", "hit rate @3"]
    board = judged(plain()[0]).board
    for place, row in re.findall(r"<tr data-model='(\d+)'>(.*?)</tr>", section(page, "models")):
        model = list(plain()[1].models)[int(place)]
        cells = re.findall(r"<td(?! class='kind')[^>]*>(.*?)</td>", row)
        assert plain_text(cells[-2]).split()[0] == f"{board.equal_terms[model]['Bpref'].mean:.3f}"
        assert plain_text(cells[-1]).split()[0] == f"{board[model]['VSDHR@3'].mean:.3f}"
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    assert '<section id="leaderboard"' not in plain_page()


# What may not break it


@functools.cache
def odd_pages() -> dict[str, str]:
    """Pages at the edges."""
    out = {}
    for name, labels in (("unlabelled", ()), ("kinds", ("categories",)), ("things", ("identities",))):
        study = a_study(ROOM[-1] / name, labels=labels, pictures=name != "unlabelled")
        out[name] = render_collection(survey(study), study)
    hostile = a_study(ROOM[-1] / "hostile", suffix=HOSTILE)
    out["hostile"] = render_collection(surveyed(hostile), hostile, judged(hostile))
    tiny = Study.create(ROOM[-1] / "tiny", "tiny", Catalogue(np.array(["a", "b"])), queries=[0])
    tiny.add_model("one", gallery=[[1.0, 0.0], [0.0, 1.0]])
    out["tiny"] = render_collection(survey(tiny), tiny)
    runs = Study.create(ROOM[-1] / "runs", "runs", Catalogue(np.array(["a", "b"])), queries=[0])
    runs.add_model("run", run={"a": {"b": 1.0}})
    out["runs"] = render_collection(survey(runs), runs)
    many = Study.create(ROOM[-1] / "many", "many", Catalogue(np.arange(40), categories=np.arange(40) % 3), queries=[0])
    for model in range(12):
        many.add_model(f"a-model-with-a-long-name-{model}", gallery=np.random.default_rng(model).normal(size=(40, 8)))
    out["many"] = render_collection(survey(many, hashers=[]), many)
    return out


def test_parts_without_data_are_left_out_with_a_reason() -> None:
    pages = odd_pages()
    told = {name: Reader(page).text for name, page in pages.items()}
    for name, sections in {
        "unlabelled": {"duplicates", "tradeoff"},
        "kinds": {"duplicates", "lookalikes", "models", "tradeoff"},
        "tiny": {"duplicates"},
        "runs": set[str](),
    }.items():
        there = {
            part
            for part in ("duplicates", "lookalikes", "models", "tradeoff")
            if f'<section id="{part}"' in pages[name]
        }
        assert there == sections, name
        for part in ("duplicates", "lookalikes", "models", "tradeoff"):
            assert (f'href="#{part}">' in pages[name].partition("<nav")[2]) == (part in sections)
    assert "Models compared : Items have neither identities of several images nor categories" in told["unlabelled"]
    assert "neither identities nor categories that differ" in told["unlabelled"]
    assert "no picture" in told["unlabelled"]
    assert "Look-alikes of different category" in told["kinds"]
    assert "no model with embeddings or codes" in told["runs"]
    assert "run : a run, which ranks the study’s queries only" in told["runs"]
    assert '<select id="near-by">' in pages["many"]
    for page in pages.values():
        reader = Reader(page)
        assert not re.search(r"\bnan\b", reader.text, re.IGNORECASE)
        assert not any("NaN" in script for script in reader.scripts if script.startswith('{"models"'))


def test_hostile_names_stay_text() -> None:
    page = odd_pages()["hostile"]
    reader = Reader(page)
    assert [attrs for tag, attrs in reader.found if tag == "img" or "onerror" in attrs] == []
    assert sum(tag == "script" for tag, _ in reader.found) == 3
    for name in (f"shop{HOSTILE}", f"thing 0{HOSTILE}", f"i002{HOSTILE}", f"kind 0{HOSTILE}"):
        assert name in reader.text, name
    assert "{{" not in page.replace(html.escape("{{data}}"), "").partition('<script type="application')[0]
    now, harmless = (Counter(tag for tag, _ in found) for found in (reader.found, Reader(judged_page()).found))
    assert now == harmless


def test_there_must_be_an_item() -> None:
    study, found = plain()
    with pytest.raises(ValueError, match="no item"):
        render_collection(dataclasses.replace(found, ids=np.array([], str)), study)


# The command


def run(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, str, str]:
    try:
        cli.main([str(argument) for argument in arguments])
        code = 0
    except SystemExit as left:
        code = int(left.code or 0)
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_command_writes_the_page_and_prints_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = a_study(tmp_path / "shop")
    ask = ("--hashers", "LSH", "--bits", "8 16", "--near", "good=0.9 code=2", "--output", tmp_path / "shop.html")
    code, out, err = run(capsys, "report", study.path, *ask)
    assert code == 0, err
    page = (tmp_path / "shop.html").read_text(encoding="utf-8")
    assert "(as was asked for)" in page
    assert '<section id="leaderboard"' not in page
    assert "LSH" in out
    assert "same identity" in out
    code, out, err = run(capsys, "report", study.path, *ask, "--json")
    told = json.loads(out)["survey"]
    assert told["near_duplicates"]["good"]["limit"] == 0.9
    assert told["near_duplicates"]["code"]["limit"] == 2
    assert [(option["name"], option["n_bits"]) for option in told["tradeoff"]["options"]] == [
        ("embeddings", None), ("LSH", 8), ("LSH", 16)
    ]  # fmt: skip
    assert json.loads((study.path / "results" / "survey.json").read_text(encoding="utf-8"))["items"] == N
    study.write_pool(Pool.build({name: study.model(name).given for name in ("good", "code")}, study.collection, k=3))
    study.append_votes(judged(study).votes)  # type: ignore[arg-type]
    code, out, err = run(capsys, "report", study.path, *ask, "--json")
    assert code == 0, err
    assert set(json.loads(out)) == {"survey", "leaderboard", "report"}
    assert '<section id="leaderboard"' in (tmp_path / "shop.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--features", "pixels"], "--features is not for a study"),
        (["--title", "x"], "--title is not for a study"),
        (["--near", "good"], "--near must be like"),
        (["--near", "=3"], "--near must be like"),
        (["--near", "nobody=3"], "no model 'nobody'"),
        (["--bits", "twelve"], "--bits must be lengths"),
        (["--hashers", "XYZ"], "no hasher 'XYZ'"),
        (["--output", "nowhere/x.html"], "does not exist"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "report", plain()[0].path, *arguments)
    assert code == 2
    assert told in err
    assert "Traceback" not in err


def test_a_study_without_models_is_told_how_to_get_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Study.create(tmp_path / "s", "s", Catalogue(np.array(["a", "b"])), queries=[0])
    code, _, err = run(capsys, "report", tmp_path / "s", "--output", tmp_path / "x.html")
    assert (code, "no model yet" in err) == (2, True)
    code, _, err = run(capsys, "report", "digits", "--near", "x=3", "--output", tmp_path / "x.html")
    assert (code, "--near is for a study" in err) == (2, True)


# In a browser


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


def test_a_browser_shows_everything(browser, tmp_path: Path) -> None:
    opened = Opened(browser, tmp_path / "page.html", judged_page())
    page = opened.page
    opened.check()
    models = list(plain()[1].models)
    for chooser, other in (("near-by", "alike-by"), ("alike-by", "near-by")):
        for model in ("rough", "code", "good"):
            place = models.index(model)
            page.locator(f"#{chooser} input[value='{place}']").check()
            shown = page.eval_on_selector_all(
                ".by-model", "all => all.filter(part => part.checkVisibility()).map(part => part.dataset.by)"
            )
            assert shown == [str(place)] * 2
            assert page.locator(f"#{other} input[value='{place}']").is_checked()
    page.locator("#metric").select_option("1")
    page.locator(".legend button[data-model='1']").click()
    assert page.locator("#models tr.dim").count() == 2
    page.locator(".legend .everyone").click()
    header = page.locator("#comparison th[data-key='AUC, macro'] button")
    header.click()
    assert opened.said == []


def test_it_fits_phones_and_darkness(browser, tmp_path: Path) -> None:
    colours = {}
    for scheme in ("light", "dark"):
        phone = {"width": 390, "height": 800}
        opened = Opened(browser, tmp_path / f"{scheme}.html", plain_page(), viewport=phone, color_scheme=scheme)
        opened.check()
        assert opened.page.evaluate("document.documentElement.scrollWidth") == 390
        style = "e => [getComputedStyle(e).fill, getComputedStyle(document.body).backgroundColor]"
        colours[scheme] = [*opened.page.eval_on_selector("[data-plot] svg text", style)]
        several = "e => getComputedStyle(e).color"
        colours[scheme].append(opened.page.eval_on_selector(".several", several))
    assert all(light != dark for light, dark in zip(colours["light"], colours["dark"], strict=True))
    opened.page.emulate_media(media="print")
    assert opened.page.eval_on_selector("body", "e => getComputedStyle(e).backgroundColor") == "rgb(255, 255, 255)"


@pytest.mark.parametrize("name", ["unlabelled", "kinds", "things", "hostile", "tiny", "runs", "many"])
def test_a_browser_shows_odd_collections(browser, tmp_path: Path, name: str) -> None:
    phone = {"width": 390, "height": 800}
    opened = Opened(browser, tmp_path / "page.html", odd_pages()[name], viewport=phone)
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 390
    assert opened.said == []
    if name == "many":
        opened.page.locator("#near-by").select_option("5")
        assert opened.page.locator("#alike-by").input_value() == "5"
        assert opened.page.locator(".by-model[data-by='5']").first.is_visible()
