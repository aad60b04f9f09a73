"""A scale on the pages: words as text, answers that fit it, and what the organiser sees and exports."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from helpers.pages import HOSTILE
from helpers.visitors import OWN, World, sent
from lookalike.discovery.formats import read_judgements
from lookalike.discovery.judgements import Judgements
from lookalike.discovery.rules import judge_by
from lookalike.discovery.scale import Scale
from lookalike.judging.pages.statistics import disagreements
from lookalike.judging.store.crowd import crowd_link, join_crowd, open_crowd
from lookalike.judging.store.gates import CrowdTerms
from lookalike.judging.store.practice import Practice, PracticePair, set_practice
from lookalike.judging.store.remarks import all_verdicts
from lookalike.judging.store.scale import set_scale
from lookalike.judging.store.types import Answer
from lookalike.study.study import Study

WORDS = ("no", " ".join(HOSTILE.replace(",", "").split())[:40].strip(), "{{ 7 * 7 }}", "yes")


@pytest.fixture
def graded(study: Study) -> Iterator[World]:
    made = World(study)
    set_scale(made.store, Scale(WORDS))
    made.store.configure("all")
    with TestClient(made.app, base_url=OWN), made.store:
        yield made


def test_without_a_scale_the_page_is_as_before(world: World) -> None:
    page = world.expert().client.get("/judge").text
    assert json.loads(html.unescape(re.search(r'data-steps="([^"]*)"', page)[1])) == ["Not similar", "Similar"]  # type: ignore[index]
    assert "data-scale" not in page
    assert "scale.css" not in page
    assert [re.findall(rf'data-act="{act}" data-answer="(.*?)"', page) for act in ("no", "unsure", "yes")] == [
        ["0"], ["-1"], ["1"],
    ]  # fmt: skip


def test_words_of_a_scale_are_text(graded: World) -> None:
    browser = graded.expert()
    page = browser.client.get("/judge").text
    assert json.loads(html.unescape(re.search(r'data-steps="([^"]*)"', page)[1])) == list(WORDS)  # type: ignore[index]
    assert WORDS[1] not in page  # but escaped
    assert "49" not in browser.read("/judge").text
    shown = re.findall(r'data-answer="\d" .*?<span>(.*?)</span>', page, re.DOTALL)
    assert [html.unescape(words) for words in shown] == list(WORDS)
    assert re.findall(r'aria-keyshortcuts="(\d)"', page) == ["1", "2", "3", "4"]
    organised = graded.organiser().client.get("/organise").text
    assert WORDS[1] not in organised
    assert html.unescape(organised).count(WORDS[1]) >= 1


def test_answers_must_be_on_the_scale_of_the_page(graded: World) -> None:
    browser, mark = graded.expert(), Scale(WORDS).mark
    pairs = [task["pair"] for task in browser.claim(6)]
    answers = [sent(pair, grade, scale=mark) for pair, grade in zip(pairs, (3, 2, 1, 0, -1, 4), strict=True)]
    answers += [sent(pairs[0], 1), sent(pairs[0], 1, scale="0" * 16)]  # a page from before there was a scale
    found = browser.ask("/api/votes", {"votes": answers})["votes"]
    assert [vote["status"] for vote in found] == ["kept"] * 5 + ["scale"] * 3
    assert found[-1]["words"] == "The answers that can be given have changed: load this page again."
    assert graded.store.votes().answers.tolist() == [3, 2, 1, 0, -1]
    for wrong in (sent(pairs[0], 5, scale=mark), sent(pairs[0], 1, scale="x"), sent(pairs[0], 1, scale=7)):
        answer = browser.post("/api/votes", {"votes": [wrong]})
        assert (answer.status_code, answer.json()["problem"][:26]) == (422, "What was sent does not fit")


def test_the_organiser_sees_and_exports_grades(graded: World, tmp_path: Path) -> None:
    mark = Scale(WORDS).mark
    for name, grades in {"ann": (3, 3, 1), "bob": (0, 3, 2), "eve": (3, 3, -1)}.items():
        browser = graded.expert(name)
        tasks = sorted(browser.ask("/api/claim", {"n": 3})["tasks"], key=lambda task: task["pair"])
        mine = {graded.store.claim(name, 3)[n]: grade for n, grade in enumerate(grades)}
        numbers = {graded.keys.disguised(f"pair {name}", task.pair): grade for task, grade in mine.items()}
        assert set(numbers) == {task["pair"] for task in tasks}
        votes = [sent(pair, grade, scale=mark) for pair, grade in numbers.items()]
        assert {vote["status"] for vote in browser.ask("/api/votes", {"votes": votes})["votes"]} == {"kept"}
    votes = graded.store.votes()
    spreads = [pair.answers for pair in disagreements(votes)]
    assert spreads == sorted(spreads, key=lambda said: -_variance([grade for _, grade in said if grade >= 0]))
    organiser = graded.organiser()
    text = organiser.read("/organise").text
    for words in ("Krippendorff’s ordinal alpha", "Gwet’s AC2", "Cohen’s weighted kappa", "with grades, by median"):
        assert words in text
    judged = judge_by("median", votes)
    (tmp_path / "all.qrels").write_bytes(organiser.client.get("/organise/export.qrels").content)
    assert Judgements.of(read_judgements(tmp_path / "all.qrels")).by_pair == judged.by_pair
    rows = organiser.client.get("/organise/export.json").json()
    assert {tuple(row["key"]): row["value"] for row in rows} == judged.binary.by_pair
    assert set(judged.by_pair.values()) > {0, 3} or len(set(judged.by_pair.values())) > 1
    table = organiser.client.get("/organise/export.csv").text
    assert "yes" in table
    assert organiser.client.get("/organise/export.qrels?rule=mean").status_code == 200
    assert organiser.client.get("/organise/export.qrels?rule=best").status_code == 422


def test_verdicts_are_grades_of_the_scale(graded: World, tmp_path: Path) -> None:
    (task,) = graded.store.claim("ann", 1)
    for name, grade in {"ann": 3, "bob": 0, "eve": 2}.items():
        assert graded.store.vote(name, [Answer(f"{name} 1", task.pair, grade)]) == ["kept"]
    organiser = graded.organiser()
    page = organiser.client.get("/organise/verdicts").text
    assert re.findall(r'name="answer" value="(-?\d)"', page) == ["0", "1", "2", "3", "-1"]
    assert re.findall(r'data-key="(\d)"', page) == ["1", "2", "3", "4"]
    assert "the median decides" in page
    assert WORDS[1] not in page  # but escaped
    form = {"query": task.query, "item": task.item, "client": "c", "at": "0"}
    refused = organiser.form("/organise/verdict", **form, answer="4")
    assert (refused.status_code, "A verdict is a grade of the scale" in html.unescape(refused.text)) == (422, True)
    assert organiser.form("/organise/verdict", **form, answer="1").status_code == 303
    votes, verdicts = graded.store.votes(), all_verdicts(graded.store)
    pair = (task.query, task.item)
    assert judge_by("median", votes).by_pair[pair] == 2
    judged = judge_by("verdict", votes, verdicts=verdicts, rel=1)
    assert (judged.by_pair[pair], judged.rel, judged.positives) == (1, 1, 1)
    assert organiser.client.get("/organise/export.csv?what=verdicts").text.splitlines()[1].split(",")[2] in (
        WORDS[1], f'"{WORDS[1]}"', "\"'" + WORDS[1].replace('"', '""') + '"', '"' + WORDS[1].replace('"', '""') + '"',
    )  # fmt: skip
    assert organiser.client.get("/organise/export.qrels?rule=verdict").text.split()[-1] == "1"


def test_practice_is_on_the_scale(graded: World) -> None:
    query, item = graded.study.pool().pairs[0]
    browser = graded.expert("bob")
    set_practice(graded.store, Practice((PracticePair(query, item, 2, "So it is."),)))
    page = browser.client.get("/practice").text
    assert re.findall(r'data-answer="(-?\d)"', page) == ["0", "1", "2", "3", "-1"]
    assert json.loads(html.unescape(re.search(r'data-steps="([^"]*)"', page)[1])) == list(WORDS)  # type: ignore[index]
    assert WORDS[1] not in page  # but escaped
    with pytest.raises(ValueError, match="the answers of the practice are on the scale"):
        set_scale(graded.store, Scale(("no", "yes")))
    assert set_scale(graded.store, Scale(("no", "yes")), new_practice=True)


def test_nobody_waits_for_a_crowd(graded: World) -> None:
    open_crowd(graded.store, CrowdTerms("C0DE"))
    for name in ("ann", "bob", "eve"):
        (task,) = graded.store.claim(name, 1)
        graded.store.vote(name, [Answer(f"{name} 1", task.pair, 1)])
    before = graded.store.status()
    member = join_crowd(graded.store, crowd_link(graded.store) or 0, None)
    after = graded.store.status()
    assert (after.complete, after.everybody_total) == (before.complete, before.everybody_total)
    assert member.name not in graded.study.terms().experts


def _variance(grades: list[int]) -> float:
    mean = sum(grades) / len(grades)
    return sum((grade - mean) ** 2 for grade in grades) / len(grades)
