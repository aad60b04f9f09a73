"""The pages of practice, of the open link and of the guide with pictures, through the app in this process."""

from __future__ import annotations

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from helpers.pages import HOSTILE, Reader
from helpers.visitors import OWN, Browser, World, problem, sent
from lookalike.core.errors import FileError
from lookalike.judging.pages import crowd as crowd_pages
from lookalike.judging.pages.guide import check_guide, parse_guide
from lookalike.judging.pages.sessions import open_link
from lookalike.judging.store.crowd import close_crowd, crowd_link, member_of, open_crowd
from lookalike.judging.store.gates import CrowdTerms
from lookalike.judging.store.practice import Practice, PracticePair, set_practice
from lookalike.study.study import Study


def vase(number: int) -> str:
    return f"vase-{number:03}.png"


PRACTICE = Practice(tuple(PracticePair(vase(0), vase(30 + n), n % 2, f"{HOSTILE} {n}") for n in range(3)), 0.6)


@pytest.fixture
def offered(world: World) -> World:
    open_crowd(world.store, CrowdTerms("C0DE <i>", pairs_each=3, most_experts=4))
    return world


def address(world: World, query: str = "") -> str:
    number = crowd_link(world.store)
    assert number is not None
    return open_link(world.keys, number, OWN).removeprefix(OWN) + query


def come(world: World, query: str = "") -> Browser:
    """Open the link and press the button."""
    browser = world.stranger()
    path = address(world, query)
    browser.read(path)
    begun = browser.form(path)
    assert (begun.status_code, begun.headers["location"]) == (303, "/judge"), begun.text
    return browser


# Practice


def practise(browser: Browser, wrong: int = 0) -> list[dict[str, Any]]:
    """A round, of which the first answers are wrong; what is said of each answer."""
    told, number = [], None
    while True:
        at = browser.ask("/api/practice", {"round": number})
        if at["state"] == "result" and not told:
            number = at["round"] + 1
            continue
        if at["state"] != "pair":
            return [*told, at]
        assert [browser.client.get(at[side]).status_code for side in ("query", "item")] == [200, 200]
        assert "vase" not in str(at)  # no ids
        right = PRACTICE.in_order("ann", at["round"])[at["place"]].answer
        answer = {name: at[name] for name in ("mark", "round", "place")}
        told.append(browser.ask("/api/practice/answer", answer | {"answer": -1 if len(told) < wrong else right}))


def test_practice_comes_first_and_is_enforced(world: World) -> None:
    set_practice(world.store, PRACTICE)
    browser = Browser(world)
    assert browser.client.get(world.link("ann")).headers["location"] == "/judge"
    assert browser.client.get("/judge").headers["location"] == "/practice"
    read = browser.read("/practice")
    assert "nothing of this counts" in read.text
    claimed = browser.ask("/api/claim", {"n": 6})
    assert (claimed["tasks"], claimed["elsewhere"]) == ([], "/practice")
    *told, end = practise(browser, wrong=2)
    assert [one["right"] for one in told] == [False, False, True]
    assert all(one["why"].startswith(HOSTILE) for one in told)
    assert (end["state"], end["right"], end["of"], end["needed"]) == ("result", 1, 3, 2)
    assert browser.claim() == []
    organiser = world.organiser()
    page = organiser.read("/organise").text
    assert "1 waiting" in page
    assert "1 of 3 right" in page
    *_, end = practise(browser, wrong=1)
    assert end == {"state": "over"}
    assert browser.client.get("/practice").headers["location"] == "/judge"
    browser.read("/judge")
    assert len(browser.claim()) == 6
    bob = world.stranger()
    bob.client.get(world.link("bob"))
    bob.read("/practice")
    assert organiser.form("/organise/admit", name="bob").status_code == 303
    assert len(bob.claim()) == 6
    assert len(world.store.votes()) == 0
    assert "1 passed" not in organiser.client.get("/organise/export.csv").text
    rows = organiser.client.get("/organise/experts.csv").text.splitlines()
    assert rows[0].startswith("expert,link,participant")
    assert [row.split(",")[7:9] for row in rows[1:3]] == [["passed", "2"], ["admitted", "0"]]
    assert "another pair" in problem(
        world.expert("ann").post("/api/practice/answer", {"mark": PRACTICE.mark, "round": 9, "place": 0, "answer": 1}),
        409,
    ).replace("has changed", "another pair")


@pytest.mark.parametrize(
    "body",
    [
        {"round": 0},
        {"round": "1"},
        {"round": 2**40},
        {"more": 1},
        [],
        {"mark": "x", "round": 1, "place": 0, "answer": 1},
    ],
)
def test_practice_takes_only_what_its_page_sends(world: World, body: Any) -> None:
    set_practice(world.store, PRACTICE)
    browser = world.stranger()
    browser.client.get(world.link("ann"))
    browser.read("/practice")
    path = "/api/practice/answer" if "mark" in body else "/api/practice"
    assert "does not fit" in problem(browser.post(path, body), 422)


# The open link


def test_anybody_judges_by_the_open_link_and_sees_the_code_at_the_end(offered: World) -> None:
    visitor = offered.stranger()
    welcome = visitor.read(address(offered, "?PROLIFIC_PID=5f1a&SESSION_ID=x"))
    assert "3 pairs one after the other" in welcome.text
    assert "5f1a" in welcome.text
    assert offered.store.status().experts[0]["name"] == "ann"  # looking at a link makes nobody an expert
    assert len(offered.store.experts()) == 3
    browser = come(offered, "?PROLIFIC_PID=5f1a")
    page = browser.read("/judge")
    assert "crowd-0001" in page.text
    assert "C0DE" not in browser.client.get("/judge").text
    assert browser.client.get("/end").headers["location"] == "/judge"
    tasks = browser.claim(12)
    assert len(tasks) == 3
    assert browser.vote(*(task["pair"] for task in tasks)) == ["kept"] * 3
    assert browser.ask("/api/claim", {"n": 12})["elsewhere"] == "/end"
    end = browser.client.get("/end")
    assert 'value="C0DE &lt;i&gt;"' in end.text
    assert "3 pairs are judged" in Reader(end.text).text
    again = come(offered, "?prolific_pid=5f1a")  # the same person in another browser
    assert "crowd-0001" in again.read("/judge").text
    assert "C0DE" in again.client.get("/end").text
    assert browser.client.get(address(offered)).headers["location"] == "/judge"  # the cookie knows them
    other = browser.client.get(address(offered, "?PROLIFIC_PID=another"))
    assert other.status_code == 200  # somebody else at the same computer
    organiser = offered.organiser()
    page = organiser.read("/organise").text
    assert "1 of at most 4" in page
    assert "5f1a" in page
    assert "Link of crowd-0001" not in organiser.client.get("/organise").text
    assert "crowd-0001,open,5f1a," in organiser.client.get("/organise/experts.csv").text
    offered.store.revoke("crowd-0001")
    assert "taken back" in problem(browser.post("/api/claim", {"n": 1}), 401)


def test_the_link_can_be_closed_and_the_cap_is_said_kindly(offered: World) -> None:
    path = address(offered)
    for _ in range(4):
        come(offered)
    late = offered.stranger()
    late.read(path)
    assert "Enough people take part" in problem(late.form(path), 403)
    assert "closed, or it is not whole" in problem(late.client.get(path[:-1]), 410)
    close_crowd(offered.store)
    assert "closed, or it is not whole" in problem(late.form(path), 410)
    assert "closed, or it is not whole" in problem(late.client.get(path), 410)
    with_link = offered.link("ann").rpartition("/")[2]
    assert problem(late.client.get(f"/crowd/{with_link}"), 410)  # a personal link is no open one, nor the other way
    assert problem(late.client.get(path.replace("/crowd/", "/join/")), 401)
    assert len(offered.store.experts()) == 7


def test_nobody_is_made_an_expert_by_another_site_or_without_the_token(offered: World) -> None:
    browser, path = offered.stranger(), address(offered)
    assert browser.form(path).status_code == 403
    browser.read(path)
    parts = {"csrf": (None, browser.token)}
    assert browser.client.post(path, files=parts, headers={"origin": "http://evil.example"}).status_code == 403
    assert "not one" in problem(browser.client.get(address(offered, "?PROLIFIC_PID={{%25PROLIFIC_PID%25}}")), 422)
    assert "not one" in problem(browser.form(address(offered, "?participant=" + "x" * 101)), 422)
    assert len(offered.store.experts()) == 3


def test_many_from_one_address_have_to_wait(offered: World, monkeypatch: pytest.MonkeyPatch) -> None:
    open_crowd(offered.store, CrowdTerms("C", most_experts=100))
    path = address(offered)
    monkeypatch.setattr(crowd_pages, "LOOPBACK", frozenset({"testclient"}))  # a proxy here says for whom it asks
    for _ in range(int(crowd_pages.AT_ONCE)):
        come(offered)
    browser = offered.stranger()
    browser.read(path)
    assert "wait a minute" in problem(browser.form(path), 429)
    parts = {"csrf": (None, browser.token)}
    elsewhere = browser.client.post(path, files=parts, headers={"x-forwarded-for": "1.2.3.4, 192.0.2.7"})
    assert elsewhere.status_code == 303


def test_who_was_screened_out_is_told_kindly(world: World) -> None:
    gold = [(vase(0), vase(40 + n), 0) for n in range(3)]
    world.study.set_gold(gold)
    world.store.configure(experts_per_pair=2)
    open_crowd(world.store, CrowdTerms("C0DE", 6, 10, screen=1.0, screen_after=2))
    codes = {None: "There is no completion code", "OTHER": 'value="OTHER"'}
    for number, (code, words) in enumerate(codes.items(), 1):
        open_crowd(world.store, CrowdTerms("C0DE", 6, 10, screen=1.0, screen_after=2, screened_code=code))
        browser = come(world)
        browser.read("/judge")
        while tasks := browser.claim(1):
            browser.vote(tasks[0]["pair"], answer=-1)
        page = browser.client.get("/end").text
        assert words in page
        assert "C0DE" not in page
        member = member_of(world.store, f"crowd-{number:04}")
        assert member is not None
        assert member.screened is not None
    organiser = world.organiser()
    assert "2 screened out" in organiser.read("/organise").text
    assert organiser.client.get("/organise/export.qrels").status_code == 404  # of their votes, no judgement is made
    assert organiser.form("/organise/admit", name="crowd-0001").status_code == 303
    assert "1 screened out" in organiser.read("/organise").text


def test_the_crowd_practises_too(offered: World) -> None:
    set_practice(offered.store, PRACTICE)
    assert "after a short practice" in offered.stranger().read(address(offered)).text
    browser = come(offered)
    assert browser.client.get("/judge").headers["location"] == "/practice"
    assert browser.client.get("/end").headers["location"] == "/judge"
    browser.read("/practice")
    assert browser.post("/api/votes", {"votes": [sent(1)]}).json()["votes"][0]["status"] == "unknown"


# The guide


GUIDE = f"""# Forms <script>

Look at the **form**, not the *colour* of {HOSTILE}
![alike](item:{vase(3)})  ![not <b>alike</b>](query:{vase(0)})

* 2 * 3 * 4
* cups
  and mugs
"""


def test_a_guide_has_pictures_and_nothing_else_is_markup(world: World) -> None:
    check_guide(GUIDE, world.study, "guide.md")
    world.store.brief(guide=GUIDE)
    browser = world.expert()
    html = browser.client.get("/judge").text
    part = html[html.index('<div class="guide">') : html.index("Say what you see")]
    assert "<h3>Forms &lt;script&gt;</h3>" in part
    assert "<strong>form</strong>" in part
    assert "<em>colour</em>" in part
    assert "<li>2 * 3 * 4</li><li>cups and mugs</li>" in part
    assert "<script" not in part
    pictures = re.findall(r'<img src="([^"]+)" alt="([^"]*)"', part)
    assert [alt for _, alt in pictures] == ["alike", "not &lt;b&gt;alike&lt;/b&gt;"]
    other = world.expert("bob")
    for source, _ in pictures:
        assert "vase" not in source
        assert browser.client.get(source).status_code == 200
        assert "for you" in problem(other.client.get(source), 404)  # by signed addresses, for one expert each
        assert problem(world.stranger().client.get(source), 401)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("![x](http://evil.example/a.png)", "line 3: images of a guide are those of the study"),
        ("![x](../photos/vase-001.png)", "line 3: images of a guide are those of the study"),
        ("![x](item:)", "line 3: images of a guide are those of the study"),
        ("![x](item:vase-999.png)", "line 3: there is no item 'vase-999.png' in the study"),
        ("![x](query:vase-001.png)", "line 3: there is no query 'vase-001.png' in the study"),
        ("so ![x](item:vase-001.png)", "line 3: images stand on a line of their own, got 'so' beside them"),
    ],
)
def test_a_wrong_image_of_a_guide_is_refused_with_its_line(study: Study, line: str, words: str) -> None:
    with pytest.raises(FileError, match=re.escape(words)):
        check_guide(f"# Look\n\n{line}\n", study, "guide.md")


def test_a_guide_of_before_stays_text(world: World) -> None:
    world.store.brief(guide="![x](http://a/b.png)\n\n![gone](item:nothing)")
    html = world.expert().client.get("/judge").text
    assert "<p>![x](http://a/b.png)</p>" in html
    assert "no longer in the study" in html
    assert [block.kind for block in parse_guide("a\n# b\n- c\n- d\ne\n\nf")] == ["text", "heading", "list", "text"]


def test_the_app_without_practice_or_crowd_is_as_before(world: World) -> None:
    with TestClient(world.app, base_url=OWN) as client:
        assert problem(client.get("/crowd/x.y"), 410)
    page = world.organiser().client.get("/organise").text
    assert 'id="people"' not in page
    assert "elsewhere" not in world.expert().ask("/api/claim", {"n": 1})
