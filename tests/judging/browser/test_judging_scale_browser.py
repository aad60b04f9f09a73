"""Three experts on one study with a scale of three steps, by keyboard and by touch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from helpers.panels import serving
from helpers.tabs import N_PAIRS, PHONE, UNSURE, Site, of, until
from lookalike.discovery.scale import Scale
from lookalike.judging.store.scale import set_scale
from lookalike.judging.store.sheets import set_layout
from lookalike.judging.store.store import Store
from lookalike.study.study import Study

SCALE = "0 not alike, 1 related <b>, 2 alike"
CONTRAST = """() => {
    const light = (text) => {
        const most = text.startsWith("color(") ? 1 : 255;
        const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((v) => Number(v) / most)
            .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
    return [...document.querySelectorAll(".scale [class^=t]")].map((button) => {
        const { color, backgroundColor } = getComputedStyle(button);
        const tone = getComputedStyle(button.querySelector(".level")).stroke;
        return [ratio(color, backgroundColor), ratio(tone, backgroundColor), tone];
    });
}"""


def test_three_experts_judge_on_a_scale(tabs: Any, study: Study) -> None:
    options = ("--scale", SCALE, "--experts-per-pair", "all", "--budget", "8")
    with serving(study.path, ["ann", "bob", "eve"], *options) as server:
        by_keys = {"1": 0, "2": 1, "3": 2, " ": UNSURE}
        wide = tabs(color_scheme="dark").judge(server.experts["ann"])
        assert wide.page.evaluate("JSON.parse(judge.dataset.steps)") == ["not alike", "related <b>", "alike"]
        assert wide.page.locator(".say button").all_inner_texts()[:3] == ["not alike\n1", "related <b>\n2", "alike\n3"]
        before = wide.shown()
        for idle in ("ArrowLeft", "ArrowRight", "j", "k", "4", "5"):  # which say nothing on a scale
            wide.page.keyboard.press(idle)
        assert (wide.shown(), wide.page.evaluate("waiting().length")) == (before, 0)
        keys = ["1", "2", "3", " ", "3", "3", "2", "1"]
        wide.press(*keys[:-1])
        wide.press("u")  # the last answer again, marked
        assert wide.page.get_attribute("[data-answer='1']", "aria-pressed") == "true"
        wide.press("3", keys[-1])
        until(wide.page, "document.querySelector('#panel').innerText.includes('That was all, ann')")
        wide.saved()
        assert of(study.votes(), "ann") == [*(by_keys[key] for key in keys[:-1]), 2, 0]
        phone = tabs(viewport=PHONE, is_mobile=True, has_touch=True).judge(server.experts["bob"])
        taps = ["step2", "unsure", *["step0", "step1"] * 3]
        boxes = [button.bounding_box() for button in phone.page.locator(".say button").all()]
        assert min(box["height"] for box in boxes) >= 40
        assert min(box["width"] for box in boxes) >= 44
        assert phone.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        phone.tap(*taps)
        phone.saved()
        assert of(study.votes(), "bob") == [2, UNSURE, *[0, 1] * 3]
        third = tabs(color_scheme="light").judge(server.experts["eve"])
        for tab in (third, tabs(color_scheme="dark").judge(server.experts["eve"])):
            contrasts = tab.page.evaluate(CONTRAST)
            assert min(words for words, _, _ in contrasts) >= 4.5
            assert min(tone for _, tone, _ in contrasts) >= 3
            assert len({tone for *_, tone in contrasts}) == 3
        for button in itertools.islice(itertools.cycle(range(3)), 8):  # by mouse
            third.ready()
            third.page.click(f"[data-answer='{button}']")
        until(third.page, "document.querySelector('#panel').innerText.includes('That was all, eve')")
        third.saved()
        organiser = tabs().open(server.organiser)
        until(organiser.page, "document.body.innerText.includes('24 of 24 answers')")
        text = organiser.page.inner_text("#page")
        assert "8 have all answers and 0 some" in text
        assert "All experts judge each pair" in text
        assert "answers: 0 not alike, 1 related <b>, 2 alike" in text
        assert organiser.page.locator(".said").count() >= 4
    votes = study.votes()
    assert votes.scale == Scale.parse(SCALE)
    assert len(votes.last()) == 24 < 3 * N_PAIRS


def test_sheets_have_the_steps_of_the_scale(tabs: Any, host: Callable[..., Site], study: Study) -> None:
    with Store.open(None, study) as store:
        set_scale(store, Scale.parse(SCALE))
        set_layout(store, "sheet", 4)
    tab = tabs().open(host("ann", experts_per_pair="all").experts["ann"])
    tab.begin()
    until(tab.page, "sheet && complete && performance.now() - visible > BREATH + 20")
    n = tab.page.locator(".cell").count()
    assert tab.page.evaluate("STEPS") == ["not alike", "related <b>", "alike"]
    for key in ("3", "ArrowRight", "2"):  # alike, then related
        tab.page.keyboard.press(key)
    tab.page.keyboard.press("Enter")
    tab.saved()
    assert sorted(study.votes().answers.tolist()) == [*[0] * (n - 2), 1, 2]
