"""The report: what it says is what the codes say, nothing in the data can break it, and a browser shows all of it.

A vacuous test would pass on a page whose charts are empty, whose pictures belong to other items, whose names run as
markup, or that works only online: here codes are counted again by brute force and the page is opened in a browser.
"""

import dataclasses
import functools
import html
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import lookalike as la
from helpers.pages import HOSTILE, Opened, Reader, browser, chromium  # noqa: F401
from lookalike.evaluation.results import Evaluation
from lookalike.experiments.task import Task
from lookalike.experiments.trials import METRICS, Trial, Trials, examine
from lookalike.report import render, write_report
from lookalike.report.hashers.charts import runs
from lookalike.report.hashers.entries import HasherComparison
from lookalike.report.hashers.examples import chosen_queries, nearest_groups, top_five
from lookalike.report.hashers.figures import all_figures
from lookalike.report.hashers.words import random_codes, summary
from lookalike.report.inline_images import encoded
from lookalike.report.numbers import number, percent

N_QUERIES, N_ITEMS = 20, 300


def a_task(pictures: bool = True, side: int = 8, labels: list[str] | None = None, title: str = "Random items") -> Task:
    random = np.random.default_rng(1)
    names = np.array(labels or ["ant", "bee", "cat"])
    of_queries, of_items = random.integers(len(names), size=N_QUERIES), random.integers(len(names), size=N_ITEMS)
    values = random.integers(0, 256, (N_ITEMS + N_QUERIES, side, side, 3), np.uint8)
    return Task(
        title,
        la.same_label(of_queries, of_items),
        names[of_queries],
        names[of_items],
        query_picture=(lambda place: values[place]) if pictures else None,
        gallery_picture=(lambda place: values[N_QUERIES + place]) if pictures else None,
        about={"seed": 1, "gallery": N_ITEMS, "split": {"kind": "random"}},
    )


def some_codes(task: Task, n_bits: int, seed: int, spread: float) -> tuple[la.Codes, la.Codes]:
    """Codes around one for each label: the smaller the spread, the fewer are in use."""
    random = np.random.default_rng(seed)
    centres = {label: random.random(n_bits) < 0.5 for label in sorted(set(task.gallery_labels.tolist()))}
    made = []
    for labels in (task.query_labels, task.gallery_labels):
        bits = np.array([centres[label] for label in labels.tolist()])
        made.append(la.Codes.pack(bits ^ (random.random(bits.shape) < spread)))
    return made[0], made[1]


def some_trials(
    task: Task, lengths: tuple[int, ...] = (12, 24), names: tuple[str, ...] = ("tight", "loose", "wild")
) -> Trials:
    trials = [
        examine(task, name, *some_codes(task, n_bits, place, (0.03, 0.2, 0.4)[place % 3]), 0.25, 0.001)
        for n_bits in lengths
        for place, name in enumerate(names)
    ]
    return Trials(task, tuple(trials))


@functools.cache
def plain_trials() -> Trials:
    task = a_task()
    features = np.random.default_rng(2).normal(size=(N_QUERIES + N_ITEMS, 4)).astype(np.float32)
    exact = la.evaluate(features[:N_QUERIES], features[N_QUERIES:], task.relevance, METRICS[:4], similarity="euclidean")
    assert isinstance(exact, Evaluation)
    return dataclasses.replace(some_trials(task), exact=exact, left_out=(("wide at 99 bits", "too <wide>"),))


@functools.cache
def plain_page() -> str:
    return render(plain_trials())


# Words and numbers


def test_the_page_is_the_same_every_time(tmp_path: Path) -> None:
    write_report(plain_trials(), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == plain_page()
    task = plain_trials().task
    chosen = [chosen_queries(task, task.relevance, 3, seed) for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]


def test_the_summary_gives_the_numbers() -> None:
    rows = plain_trials().rows()
    told = " ".join(summary(HasherComparison(plain_trials())))
    top = max(rows, key=lambda row: row["mAP"])
    assert f"3 hashers at 12 and 24 bits; {N_QUERIES} queries × {N_ITEMS} items." in told
    assert f"Highest mAP: {top['hasher']} at {top['bits']} bits, {top['mAP']:.3f}" in told
    tied = max(rows, key=lambda row: row["best"] - row["worst"])
    assert f"ties alone could move the mAP of {tied['hasher']} from {tied['worst']:.3f} to {tied['best']:.3f}" in told
    few = min(rows, key=lambda row: row["possible_utilisation"])
    assert (
        f"{few['hasher']} at {few['bits']} bits puts {N_ITEMS} items on only {few['distinct']} of 4,096 codes" in told
    )
    assert "At 12 bits tight leads both by mAP and by mLGAP@2." in told
    assert html.escape(told) in plain_page().replace("</p><p>", " ")


def test_every_row_of_the_table_gives_the_numbers() -> None:
    table = plain_page().partition("<tbody>")[2].partition("</tbody>")[0]
    rows = re.findall(r"<tr.*?</tr>", table)
    assert len(rows) == 6
    for text, row in zip(rows, plain_trials().rows(), strict=True):
        values = re.findall(r"<t[dh][^>]*data-v='([^']*)'", text)
        assert values[:2] == [row["hasher"], str(row["bits"])]
        assert float(values[2]) == pytest.approx(row["mAP"])
        assert float(values[3]) == pytest.approx(row["best"] - row["worst"])
        assert float(values[5]) == row["distinct"]
        assert f">{row['mAP']:.3f}<" in text
        assert f">{row['distinct']:,}<" in text
    foot = plain_page().partition("<tfoot>")[2].partition("</tfoot>")[0]
    exact = plain_trials().exact
    assert exact is not None
    assert "no hashing (euclidean)" in foot
    assert f">{exact['AP'].mean:.3f}<" in foot


def test_what_is_unknown_is_a_dash_and_never_nan() -> None:
    """Codes without features have no correlation within classes, and given codes no times."""
    task = a_task()
    trial = dataclasses.replace(some_trials(task).trials[0], fit_seconds=float("nan"), hash_seconds=float("nan"))
    unlabelled = dataclasses.replace(trial, usage=dataclasses.replace(trial.usage, mixed=None))
    page = render(Trials(task, (unlabelled,)), queries=1)
    row = page.partition("<tbody>")[2].partition("</tbody>")[0]
    assert row.count("data-v='' class=''>–<") + row.count("data-v='' class='first'>–<") == 4
    shown = Reader(page)
    assert not re.search(r"\bnan\b", shown.text, re.IGNORECASE)
    assert not any("NaN" in script for script in shown.scripts if script.startswith('{"hashers"'))
    assert "<tfoot>" not in page


def test_the_leaders_by_either_measure_are_told_apart() -> None:
    """One hasher puts each label on a code of its own; the other fills balls around them, but swaps some labels."""
    task = a_task()
    labels = [np.unique(labels, return_inverse=True)[1] for labels in (task.query_labels, task.gallery_labels)]
    points = np.array([[0] * 12, [1] * 6 + [0] * 6, [0] * 6 + [1] * 6])
    packed = [la.Codes.pack(points[of]) for of in labels]
    places = np.arange(N_ITEMS)
    swapped = np.where(places % 10 == 0, (labels[1] + 1) % 3, labels[1])
    balls = la.Codes.pack(points[swapped] ^ (places[:, None] % 13 == np.arange(12)))  # no bit flipped, or one of twelve
    trials = [examine(task, "points", *packed), examine(task, "balls", packed[0], balls)]
    told = " ".join(summary(HasherComparison(Trials(task, tuple(trials)))))
    by_map, by_lgap = (max(trials, key=lambda trial: trial.evaluation[name].mean) for name in ("AP", "LGAP@2"))
    assert (by_map.name, by_lgap.name) == ("points", "balls")
    spread = by_lgap.evaluation["LGAP@2"].mean
    assert f"points leads by mAP (1.000) but balls by mLGAP@2 ({spread:.3f}): points uses 1.0\u202f% of" in told


def test_numbers_are_short_and_honest() -> None:
    assert [number(value) for value in (1, 0.1234, 1e-5, -0.5)] == ["1.000", "0.123", "<0.001", "−0.500"]
    assert [percent(value) for value in (0, 1, 0.99999, 2.0**-40)] == [
        f"{x}\u202f%" for x in ("0", "100", "99.9", "<0.01")
    ]
    assert random_codes(10**6, 3) == pytest.approx(8)
    assert random_codes(2, 1) == pytest.approx(1.5)
    assert random_codes(77, 4096) == 77


def test_runs_are_the_counts_again() -> None:
    counts = np.sort(np.random.default_rng(0).integers(1, 6, 50))[::-1]
    steps = runs(counts)
    again = np.repeat([step["items"] for step in steps[:-1]], np.diff([step["code"] for step in steps]))
    assert again.tolist() == counts.tolist()


def test_the_chart_in_code_order_has_the_items_of_every_code() -> None:
    """A list of counts by code, and a 0 behind the last, where its step ends; beyond 16 bits by the first 12."""
    for lengths, n_bits in (((12, 24), 12), ((24,), 12), ((5,), 5)):
        comparison = HasherComparison(some_trials(a_task(), lengths))
        figure = next(figure for figure in all_figures(comparison) if figure.name == "code-order")
        for entry, panel in zip(comparison.of_length(lengths[0]), figure.panels, strict=True):
            numbers = entry.trial.gallery.unpack()[:, :n_bits] @ (1 << np.arange(n_bits)[::-1])
            counts = np.bincount(numbers, minlength=2**n_bits)
            assert panel.spec is not None
            assert [{"items": [*counts.tolist(), 0]}] in panel.spec["datasets"].values()
            assert f"{counts.max():,} items on {counts.argmax():0{n_bits}b}" in panel.told
        assert ("first 12 bits" in figure.reading) == (lengths == (24,))
        assert "numerical order" in figure.reading


# Examples


def brute_force(trial: Trial, query: int) -> np.ndarray:
    return (trial.queries.unpack()[query].astype(int) != trial.gallery.unpack()).sum(1)


def boxes(page: str) -> dict[tuple[int, int, int], list[tuple[dict[str, int], list[tuple[int, bool]]]]]:
    """Of each hasher's place, length and query: its boxes, and the items in them with their mark."""
    found: dict[tuple[int, int, int], list[tuple[dict[str, int], list[tuple[int, bool]]]]] = {}
    section = page.partition('<section id="examples">')[2].partition("</section>")[0]
    for panel in section.split('<div class="panel" ')[1:]:
        hasher, bits = (int(re.search(rf'data-{name}="(\d+)"', panel)[1]) for name in ("hasher", "bits"))  # type: ignore[index]
        for article in panel.split("<article")[1:]:
            query = int(re.search(r"<h3>Query (\d+)", article)[1])  # type: ignore[index]
            for box in article.split('<div class="tie" ')[1:]:
                numbers = {name: int(value) for name, value in re.findall(r'data-(\w+)="(\d+)"', box.partition(">")[0])}
                items = [
                    (int(i), kind == "hit") for kind, i in re.findall(r'<li class="(\w+)".*?<i class="\w+ g(\d+)"', box)
                ]
                found.setdefault((hasher, bits, query), []).append((numbers, items))
    return found


@pytest.mark.parametrize("pictures", [True, False])
def test_boxes_hold_the_items_of_their_distance(pictures: bool) -> None:
    task = a_task(pictures)
    trials = some_trials(task, (12, 16, 70))
    page = render(trials, queries=3)
    found = boxes(page)
    assert {(hasher, bits) for hasher, bits, _ in found} == {(h, b) for h in range(3) for b in (12, 70)}
    assert len({query for *_, query in found}) == 3
    names = ("tight", "loose", "wild")
    for (hasher, bits, query), groups in found.items():
        trial = next(trial for trial in trials.trials if (trial.name, trial.n_bits) == (names[hasher], bits))
        away, relevant = brute_force(trial, query), task.gallery_labels == task.query_labels[query]
        assert [group["distance"] for group, _ in groups] == np.unique(away)[: len(groups)].tolist()
        for group, items in groups:
            tied = np.flatnonzero(away == group["distance"])
            assert (group["tied"], group["relevant"]) == (len(tied), relevant[tied].sum())
            assert len(items) == min(len(tied), 12)
            assert set(dict(items)) <= set(tied.tolist())
            assert all(relevant[item] == hit for item, hit in items)
        shown = sum(group["tied"] for group, _ in groups)
        next_up = np.unique(away)[len(groups) :]
        assert not len(next_up) or next_up[0] > 3
        assert not len(next_up) or len(groups) >= 4 or shown >= 20
    assert ("background-image:url(data:image/" in page) == pictures
    assert len({task.query_labels[query] for *_, query in found}) == 3


def test_each_picture_is_in_the_page_once() -> None:
    rules = re.findall(r"\.([qg]\d+)\{background-image:url\((.*?)\)\}", plain_page())
    assert len(rules) == len(set(dict(rules)))
    used = set(re.findall(r'class="picture ([qg]\d+)"', plain_page()))
    assert used == set(dict(rules))


def test_groups_go_on_until_there_is_something_to_see() -> None:
    away = np.array([9, 9, 5, 7, 8, 8, 12])
    assert [group.distance for group in nearest_groups(away, away > 8)] == [5, 7, 8, 9]
    many = np.repeat([4, 5], [30, 3])
    assert [group.distance for group in nearest_groups(many, many > 4)] == [4]
    groups = nearest_groups(np.array([0, 0, 1, 1, 1, 1]), np.array([1, 1, 1, 0, 0, 0], bool))
    assert (
        top_five(groups)
        == "A “top 5” is all 2 at distance 0 and any 3 of the 4 at distance 1: from 2 to 3 of them relevant, by luck."
    )


def test_pictures_are_small_files() -> None:
    from io import BytesIO

    from PIL import Image

    random = np.random.default_rng(0)
    tiny = random.integers(0, 256, (8, 8, 3), np.uint8)
    kind, data = encoded(tiny)
    assert (np.asarray(Image.open(BytesIO(data)).convert("RGB")) == tiny).all(), kind
    _, data = encoded(np.zeros((300, 400, 3), np.uint8))
    assert Image.open(BytesIO(data)).size == (64, 48)


# What may not break it


def test_hostile_names_stay_text() -> None:
    task = a_task(labels=[HOSTILE, f"{HOSTILE}2", "x" * 300], title=HOSTILE)
    task = dataclasses.replace(task, about={HOSTILE: HOSTILE})
    trials = some_trials(task, names=(HOSTILE, "b", f"{HOSTILE}3"))
    page = render(trials, queries=2)
    reader = Reader(page)
    assert [attrs for tag, attrs in reader.found if tag == "img" or "onerror" in attrs] == []
    assert sum(tag == "script" for tag, _ in reader.found) == 3
    assert HOSTILE in reader.text
    assert "{{" not in page.replace(html.escape("{{data}}"), "").partition('<script type="application/json"')[0]
    policy = next(attrs["content"] for tag, attrs in reader.found if attrs.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe-eval" not in policy
    assert "script-src 'sha256-" in policy


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = plain_trials()
    for name in [name for name in sys.modules if name.startswith("lookalike.report.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(
        ModuleNotFoundError, match=r'needs altair, vl-convert-python and pillow: pip install "lookalike'
    ):
        render(trials)


def test_there_must_be_something_to_report() -> None:
    with pytest.raises(ValueError, match="no trial"):
        render(Trials(a_task(), ()))
    with pytest.raises(ValueError, match="queries must be"):
        render(plain_trials(), queries=-1)


def odd_trials() -> dict[str, Trials]:
    """Trials at the edges: one only, very long codes, other kinds of relevance, many, everything on one code."""
    task = a_task()
    random = np.random.default_rng(3)
    tags = [(random.random((n, 5)) < 0.4).astype(int) for n in (N_QUERIES, N_ITEMS)]
    tags[0][:, 0] = tags[1][0, 0] = 1
    of_tags = Task("Tags", la.shared_tags(*tags), np.full(N_QUERIES, ""), np.full(N_ITEMS, ""))
    codes = [la.Codes.pack(random.integers(0, 2, (n, 9))) for n in (N_QUERIES, N_ITEMS)]
    same = [la.Codes.pack(np.ones((n, 12), int)) for n in (N_QUERIES, N_ITEMS)]
    return {
        "one": Trials(task, some_trials(task).trials[:1]),
        "long": some_trials(task, (1, 4096), ("only",)),
        "tags": Trials(of_tags, (examine(of_tags, "given", *codes),)),
        "many": some_trials(a_task(pictures=False), (8,), tuple(f"hasher number {i}" for i in range(12))),
        "collapsed": Trials(task, (examine(task, "same", *same), examine(task, "same", *same))),
    }


@functools.cache
def odd_pages() -> dict[str, str]:
    return {name: render(trials, queries=2) for name, trials in odd_trials().items()}


def test_odd_trials_have_a_page() -> None:
    pages = odd_pages()
    assert "1 hasher at 12 bits" in pages["one"]
    assert 'id="filter"' not in pages["one"]
    assert "2⁴⁰⁹⁶" in pages["long"]
    assert "12 hashers at 8 bits" in pages["many"]
    assert "same (2)" in pages["collapsed"]
    assert len(pages["many"]) < 2_500_000


# In a browser


def column(page, place: int) -> list[str]:
    return page.eval_on_selector_all(
        f"#comparison tbody tr:not([hidden]) > :nth-child({place})", "all => all.map(cell => cell.dataset.v)"
    )


def test_a_browser_shows_everything(browser, tmp_path: Path) -> None:  # noqa: F811
    opened = Opened(browser, tmp_path / "page.html", plain_page())
    page = opened.page
    opened.check()
    assert len(page.query_selector_all("figure")) == 7
    assert len(plain_page().encode()) < 2_500_000

    header = page.locator("#comparison th[data-key=mAP]")
    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "descending"
    values = [float(value) for value in column(page, 3)]
    assert values == sorted(values, reverse=True)
    header.locator("button").focus()
    page.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "ascending"
    assert [float(value) for value in column(page, 3)] == sorted(values)
    page.locator("#comparison th[data-key=hasher] button").focus()
    page.keyboard.press("Space")
    assert column(page, 1) == sorted(column(page, 1))
    assert header.get_attribute("aria-sort") == "none"

    page.locator("#filter input[value='24']").check()
    assert set(column(page, 2)) == {"24"}
    assert page.locator("#rows").inner_text() == "3 of 6 rows"
    page.locator("#filter input[value='all']").check()
    assert len(column(page, 2)) == 6

    page.locator(".legend button[data-hasher='1']").click()
    assert page.locator("#comparison tr.dim").count() == 4
    page.wait_for_function("document.querySelectorAll('#curves-heading ~ .panels path[opacity=\"0.12\"]').length > 0")
    page.locator(".legend .everyone").click()
    assert page.locator(".dim").count() == 0

    visible = ".panel:not([hidden])"
    assert page.locator(visible).count() == 1
    page.locator("#example-hasher").select_option("2")
    page.locator("#example-bits input[value='24']").focus()
    page.keyboard.press("Space")
    assert page.locator(visible).count() == 1
    assert page.locator(visible).get_attribute("data-hasher") == "2"
    assert page.locator(visible).get_attribute("data-bits") == "24"
    assert opened.said == []


def test_it_fits_phones_and_darkness(browser, tmp_path: Path) -> None:  # noqa: F811
    colours = {}
    for scheme in ("light", "dark"):
        opened = Opened(
            browser,
            tmp_path / f"{scheme}.html",
            plain_page(),
            viewport={"width": 390, "height": 800},
            color_scheme=scheme,
        )
        opened.check()
        assert opened.page.evaluate("document.documentElement.scrollWidth") == 390
        style = "e => [getComputedStyle(e).fill, getComputedStyle(document.body).backgroundColor]"
        colours[scheme] = opened.page.eval_on_selector("[data-plot] svg text", style)
    light, dark = colours["light"], colours["dark"]
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    opened.page.emulate_media(media="print")
    assert opened.page.eval_on_selector("body", "e => getComputedStyle(e).backgroundColor") == "rgb(255, 255, 255)"
    assert not opened.page.locator(".controls").first.is_visible()


@pytest.mark.parametrize("name", ["one", "long", "tags", "many", "collapsed", "hostile"])
def test_a_browser_shows_odd_trials(browser, tmp_path: Path, name: str) -> None:  # noqa: F811
    if name == "hostile":
        task = a_task(labels=[HOSTILE, "y", "x" * 300], title=HOSTILE)
        content = render(some_trials(task, names=(HOSTILE, "long name " * 12)), queries=2)
    else:
        content = odd_pages()[name]
    opened = Opened(browser, tmp_path / "page.html", content, viewport={"width": 390, "height": 800})
    opened.check()
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 390
