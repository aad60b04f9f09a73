"""A browser, a study to judge in it, and servers of that study."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.pages import chromium
from helpers.panels import make_vases
from helpers.tabs import Site, Tab, hosting
from lookalike.study.study import Study


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    make_vases(folder, side=240)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def study(template: Path, tmp_path: Path) -> Study:
    shutil.copytree(template, tmp_path / "shop")
    return Study.open(tmp_path / "shop" / "study")


@pytest.fixture
def host(study: Study) -> Iterator[Callable[..., Site]]:
    """Servers of the study, until all pages are closed."""
    with contextlib.ExitStack() as stack:
        yield lambda *experts, **terms: stack.enter_context(hosting(study, *experts, **terms))


@pytest.fixture
def server(host: Callable[..., Site]) -> Site:
    return host("ann", "bob", "eve")


@pytest.fixture
def tabs(browser: Any, host: Callable[..., Site]) -> Iterator[Any]:
    """Pages, which are closed before a server is: what they ask for last is not to be cut off."""
    opened: list[Tab] = []

    def tab(**options: Any) -> Tab:
        opened.append(Tab(browser, **options))
        return opened[-1]

    yield tab
    for one in opened:
        one.context.close()
        assert one.alone() == []
