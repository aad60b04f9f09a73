"""The organiser's page."""

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np
import pytest

from helpers.pages import HOSTILE, Reader
from helpers.visitors import CANT_TELL, EXPERTS_ONLY, N_PAIRS, NOT_SIMILAR, OWN, SIMILAR, World, problem, sent
from lookalike.discovery.agreement import agreement
from lookalike.discovery.formats import read_judgements
from lookalike.discovery.rules import RULES
from lookalike.discovery.votes import Votes
from lookalike.judging.pages.statistics import Figures, disagreements

# The organiser


def judged(world: World) -> Votes:
    """Three experts who do not always agree."""
    rng = np.random.default_rng(0)
    for name in ("ann", "bob", "eve"):
        browser = world.expert(name)
        for _ in range(4):
            votes = [sent(task["pair"], int(rng.choice([1, 1, 1, 0, 0, -1]))) for task in browser.claim()]
            if votes:
                browser.ask("/api/votes", {"votes": votes})
    return world.store.votes()


def test_the_organiser_sees_coverage_agreement_experts_and_disagreements(world: World) -> None:
    votes = judged(world)
    text = world.organiser().read("/organise").text
    found = agreement(votes)
    assert f"{len(votes.last()):,} of {2 * N_PAIRS} answers" in text
    assert f"{100 * len(votes.last()) / (2 * N_PAIRS):.1f} %" in text
    assert f"{found.alpha:.2f}".replace("-", "−") in text
    assert f"{found.ac1:.2f}".replace("-", "−") in text
    for figures in found.figures:
        assert re.search(rf"{figures.expert} {figures.votes} 2\.5 {100 * figures.similar:.1f} %", text), text
    split = disagreements(votes)
    assert f"Disagreements {len(split)}" in text
    assert len(split) > 3
    first = split[0]
    said = " ".join(name for name, answer in first.answers if answer == SIMILAR)
    assert f"{first.query} {first.item} similar {said}" in text


def test_disagreements_have_pictures_that_only_the_organiser_gets(world: World) -> None:
    judged(world)
    organiser = world.organiser()
    read = organiser.read("/organise")
    addresses = [str(a["src"]) for tag, a in read.found if tag == "img"]
    assert len(addresses) >= 8
    for address in addresses:
        answer = organiser.client.get(address)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/jpeg")
        assert world.expert().client.get(address).status_code == 401


def test_a_revoked_expert_is_out_at_once_and_a_new_link_lets_in_again(world: World) -> None:
    ann, organiser = world.expert(), world.organiser()
    old = world.link("ann")
    ann.vote(ann.claim()[0]["pair"])
    answer = organiser.form("/organise/revoke", name="ann")
    assert (answer.status_code, answer.headers["location"]) == (303, "/organise#links")
    for ask in EXPERTS_ONLY.values():
        assert "taken back" in problem(ask(ann), 401)
    page = organiser.read("/organise")
    assert old not in str(page.found)
    assert organiser.form("/organise/renew", name="ann").status_code == 303
    assert "newer link" in problem(world.stranger().client.get(old), 401)
    page = organiser.read("/organise")
    (new,) = [str(a["value"]) for _, a in page.found if a.get("aria-label") == "Link of ann"]
    again = world.stranger().open(new.replace("http://localhost:8000", OWN))
    assert again.ask("/api/claim", {"n": 1})["progress"]["done"] == 1  # votes stay
    assert problem(ann.post("/api/claim", {"n": 1}), 401)


def test_the_organiser_adds_experts(world: World) -> None:
    organiser = world.organiser()
    assert organiser.form("/organise/add", name="zoë & co").status_code == 303
    assert world.expert("zoë & co").claim()
    for name, words in {"ann": "already", "": "name", " x": "space", "a\nb": "one line", "x" * 101: "100"}.items():
        assert words in problem(organiser.form("/organise/add", name=name), 422)
    for act in ("revoke", "renew"):
        assert "nobody" in problem(organiser.form(f"/organise/{act}", name="nobody"), 422)
    assert "missing" in problem(organiser.form("/organise/revoke"), 422)


def test_links_end_after_the_days_that_were_given(world: World) -> None:
    organiser = world.organiser()
    before = int(time.time() * 1000)

    def days(name: str) -> float | None:
        found = world.store.expert(name)
        assert found is not None
        return None if found.expires is None else (found.expires - before) / 86_400_000

    organiser.form("/organise/add", name="dora", days="14")
    assert days("dora") == pytest.approx(14, abs=0.01)
    organiser.form("/organise/renew", name="ann", days=" 2 ")
    assert days("ann") == pytest.approx(2, abs=0.01)
    organiser.form("/organise/renew", name="dora", days="")
    assert days("dora") is None
    world.store.renew("eve", before - 1000)
    text = organiser.read("/organise").text
    ann = world.store.expert("ann")
    assert ann is not None
    assert ann.expires is not None
    assert f"ann works until {time.strftime('%d %B %Y', time.gmtime(ann.expires / 1000))}" in text
    assert "dora works, no end" in text
    assert f"eve expired on {time.strftime('%d %B %Y', time.gmtime(before / 1000 - 1))}" in text
    for wrong in ("0", "-1", "36501", "nan", "inf", "soon", "1e9"):
        assert "up to 36,500, or without end" in problem(organiser.form("/organise/add", name="zoe", days=wrong), 422)
        assert "without end" in problem(organiser.form("/organise/renew", name="dora", days=wrong), 422)
    assert world.store.expert("zoe") is None
    assert days("dora") is None


def test_within_the_open_page_it_says_what_was_done(world: World) -> None:
    organiser = world.organiser()
    for act, name, words in (
        ("add", HOSTILE, f"{HOSTILE} was added"),
        ("renew", "ann", "ann has a new link"),
        ("revoke", "ann", "The link of ann was revoked"),
    ):
        parts = {"csrf": (None, organiser.token), "name": (None, name)}
        answer = organiser.client.post(f"/organise/{act}", files=parts, headers={"hx-request": "true"})
        assert answer.status_code == 200
        found = Reader(answer.text).found
        assert [a["data-done"] for _, a in found if "data-done" in a] == [words]
        changed = [at for at, (_, a) in enumerate(found) if a.get("class") == "changed"]
        assert [found[at + 1][1]["title"] for at in changed] == [name]
    assert not [a for _, a in organiser.read("/organise").found if "data-done" in a]


def test_within_the_open_page_a_refusal_is_a_notice(world: World) -> None:
    organiser = world.organiser()
    parts = {"csrf": (None, organiser.token), "name": (None, "ann")}
    answer = organiser.client.post("/organise/add", files=parts, headers={"hx-request": "true"})
    assert (answer.status_code, answer.headers["hx-retarget"]) == (422, "#notice")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_votes_are_exported_with_their_experts(world: World, tmp_path: Path, kind: str) -> None:
    votes = judged(world)
    answer = world.organiser().client.get(f"/organise/export.{kind}")
    assert answer.headers["content-disposition"] == f'attachment; filename="vases-votes.{kind}"'
    path = tmp_path / f"votes.{kind}"
    path.write_bytes(answer.content)
    assert Votes.read(path).digest == votes.digest


@pytest.mark.parametrize("kind", ["qrels", "json"])
@pytest.mark.parametrize("rule", ["majority", "unanimous"])
def test_judgements_are_exported(world: World, tmp_path: Path, kind: str, rule: str) -> None:
    organiser = world.organiser()
    assert "Nothing has been judged" in problem(organiser.client.get(f"/organise/export.{kind}"), 404)
    votes = judged(world)
    path = tmp_path / f"judgements.{kind}"
    path.write_bytes(organiser.client.get(f"/organise/export.{kind}?rule={rule}").content)
    expected = RULES[rule](votes).by_pair
    assert {(query, item): grade for query, item, grade in read_judgements(path)} == expected


def test_other_exports_are_refused(world: World) -> None:
    organiser = world.organiser()
    assert "csv, parquet, qrels, json" in problem(organiser.client.get("/organise/export.exe"), 404)
    assert "no such rule" in problem(organiser.client.get("/organise/export.json?rule=x"), 422)
    assert organiser.client.get("/organise/export.csv").text.startswith("query,item,expert,answer")


def test_pages_of_disagreements(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lookalike.judging.pages.organiser.PER_PAGE", 2)
    votes = judged(world)
    organiser = world.organiser()
    shown: list[str] = []
    n_pages = -(-len(disagreements(votes)) // 2)
    for page in range(1, n_pages + 1):
        read = organiser.read(f"/organise?page={page}")
        shown += [str(a["src"]) for tag, a in read.found if tag == "img"]
    assert len(shown) == 2 * len(disagreements(votes))
    assert organiser.client.get("/organise?page=999").status_code == 200
    assert organiser.client.get("/organise?page=0").status_code == 422


def test_before_anything_is_judged_the_page_says_so(world: World) -> None:
    text = world.organiser().read("/organise").text
    assert "Coverage 0 %" in text
    assert "No pair has two decided votes: how far experts agree is not known" in text
    assert "nan" not in text.lower().replace("unanimous", "").split()


def test_the_organiser_sees_the_terms_in_force(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lookalike.judging.pages.organiser.FRESH", 0.0)
    said = "2 experts judge each pair, in the order of depth, with no budget: all 60 pairs of the pool."
    assert f"{said} Asked: “Do they look alike?”, without a guide." in world.organiser().read("/organise").text
    world.store.configure(experts_per_pair=1, order="adaptive", budget=20)
    world.store.brief("<i>Same</i> potter?", "Look.")
    text = world.organiser().read("/organise").text
    assert "1 expert judges each pair, in the order of adaptive, within a budget: 20 of the 60 pairs" in text
    assert "Asked: “<i>Same</i> potter?”, with a guide." in text


def test_the_page_says_what_it_counts(world: World) -> None:
    ann, bob = world.expert("ann"), world.expert("bob")
    pairs = [task["pair"] for task in ann.claim(4)]
    ann.vote(*pairs[:2], answer=CANT_TELL)
    ann.vote(pairs[2])
    bob.vote(world.same(pairs[0], "ann", "bob"), answer=CANT_TELL)
    bob.vote(world.same(pairs[2], "ann", "bob"))
    text = world.organiser().read("/organise").text
    assert "Of 60 pairs, 2 have all 2 answers and 1 some, “can’t tell” among them; 2 have no answer but “can’t" in text
    assert "100 % of 1 pairs with two decided votes or more are unanimous" in text


def test_a_pair_that_was_put_off_and_filled_by_others_is_put_off_no_more(world: World) -> None:
    ann = world.expert("ann")
    pair = ann.claim(1)[0]["pair"]
    ann.ask("/api/later", {"pair": pair})

    def put_off() -> int:
        figures = Figures.of(world.store.status(), world.store.votes(), None, 0)
        return next(line.later for line in figures.experts if line.name == "ann")

    assert put_off() == 1
    for name in ("bob", "eve"):
        world.expert(name).vote(world.same(pair, "ann", name))
    assert put_off() == 0


def test_figures_of_time(world: World) -> None:
    now = int(time.time() * 1000)
    seconds = {"ann": [0.4, 0.6, 30.0], "bob": [1.0, 601.0, 600.0], "eve": [None, None, None]}
    for name, took in seconds.items():
        browser = world.expert(name)
        tasks = browser.claim(3)
        votes = [sent(task["pair"], seconds=one, at=now - 60_000) for task, one in zip(tasks, took, strict=True)]
        browser.ask("/api/votes", {"votes": votes})
    figures = Figures.of(world.store.status(), world.store.votes(), None, now)
    lines = {line.name: line for line in figures.experts}
    assert {name: line.quick for name, line in lines.items()} == {"ann": True, "bob": False, "eve": False}
    assert lines["ann"].worked == pytest.approx(31)
    assert lines["bob"].worked == 601  # the break of more than ten minutes is none of it
    assert np.isnan(lines["eve"].worked)
    assert figures.per_minute == 9
    assert figures.left == 2 * N_PAIRS - 9
    assert figures.hours_to_end == pytest.approx(figures.left / 9 / 60)
    late = Figures.of(world.store.status(), world.store.votes(), None, now + 3_600_000)
    assert np.isnan(late.hours_to_end)
    text = world.organiser().read("/organise").text
    assert re.search(r"ann quick 3 .* 31 s \d+ min ago bob 3 .* 10 min \d+ min ago eve 3 .* – \d+ min ago", text), text
    assert re.search(r"answers a minute lately: at this pace it ends in about \d+ minutes\. About \d", text), text


@pytest.mark.parametrize(
    ("hours", "words"),
    [
        (0.01, "in less than a minute"),
        (0.02, "in about 1 minute"),
        (0.5, "in about 30 minutes"),
        (3.21, "in about 3.2 hours"),
        (47, "in about 47 hours"),
        (72, "in 3 days, on 04 January 1970"),
        (1e9, "in more than ten years"),
    ],
)
def test_how_far_the_end_is(world: World, hours: float, words: str) -> None:
    from lookalike.judging.pages.app import JudgePages, _date

    pieces = JudgePages(date=_date).environment.get_template("organise_pieces.html").module
    assert str(pieces.ending(hours, 0)) == words  # type: ignore[attr-defined]


def test_figures_of_a_record(world: World) -> None:
    votes = judged(world)
    figures = Figures.of(world.store.status(), votes, None, int(time.time() * 1000))
    assert figures.coverage == len(votes.last()) / (2 * N_PAIRS)
    assert figures.median_seconds == 2.5
    assert figures.hours_left == pytest.approx((2 * N_PAIRS - len(votes.last())) * 2.5 / 3600)
    assert figures.per_minute == len(votes)  # all within this minute
    kappas = [row["kappa"] for row in figures.agreement.kappa_rows() if row["kappa"] == row["kappa"]]
    assert figures.kappas == (min(kappas), max(kappas))
    for pair in figures.disagreements:
        assert pair.count(SIMILAR) > 0 < pair.count(NOT_SIMILAR)
    shares = [min(pair.count(1), pair.count(0)) / (pair.count(1) + pair.count(0)) for pair in figures.disagreements]
    assert shares == sorted(shares, reverse=True)
    last = {(q, i): set() for q, i in votes.last().pairs}  # type: ignore[var-annotated]
    for pair, answer in zip(votes.last().pairs, votes.last().answers.tolist(), strict=True):
        last[pair].add(answer)
    assert {(p.query, p.item) for p in figures.disagreements} == {pair for pair, said in last.items() if {0, 1} <= said}
