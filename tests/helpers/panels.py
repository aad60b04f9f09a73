"""Studies to judge: vases that are drawn, a pool of pairs of them, and the judging app in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from lookalike.discovery.catalogue import Catalogue
from lookalike.discovery.pool import Pool
from lookalike.study.study import Study

N_ITEMS, N_QUERIES, K = 48, 12, 5
SECRET = "the model that nobody may see"


def vase(number: int, side: int = 640) -> Image.Image:
    """A vase: neighbours in number are much alike."""
    rng = np.random.default_rng(number // 4)
    own = np.random.default_rng(1000 + number)
    ground = tuple(int(v) for v in rng.integers(222, 246, 3))
    glaze = tuple(int(v) for v in np.clip(rng.integers(40, 200, 3) + own.integers(-14, 15, 3), 0, 255))
    image = Image.new("RGB", (side, side), ground)
    draw = ImageDraw.Draw(image)
    heights = np.linspace(0, 1, 200)
    belly, neck, foot = rng.uniform(0.2, 0.34), rng.uniform(0.05, 0.12), rng.uniform(0.08, 0.16)
    middle = rng.uniform(0.45, 0.7) + own.uniform(-0.02, 0.02)
    width = neck + (belly - neck) * np.exp(-(((heights - middle) / 0.24) ** 2)) + (foot - neck) * heights**4
    width += 0.05 * np.exp(-((heights / 0.05) ** 2))
    top, bottom = 0.14 * side, 0.88 * side
    left = [(side / 2 - side * w, top + (bottom - top) * h) for w, h in zip(width, heights, strict=True)]
    right = [(side - x, y) for x, y in reversed(left)]
    shade = tuple(int(v * 0.86) for v in ground)
    draw.ellipse((side * 0.2, bottom - side * 0.035, side * 0.86, bottom + side * 0.05), fill=shade)
    draw.polygon(left + right, fill=glaze)
    for band in range(int(rng.integers(0, 4))):
        at = int(200 * (0.35 + 0.12 * band + own.uniform(-0.01, 0.01)))
        light = tuple(min(255, int(v * 1.35) + 25) for v in glaze)
        draw.polygon(left[at : at + 9] + [(side - x, y) for x, y in reversed(left[at : at + 9])], fill=light)
    gleam = tuple(min(255, v + 42) for v in glaze)
    shine = [(side / 2 - 0.62 * (side / 2 - x), y) for x, y in left[30:150]]
    draw.line(shine, fill=gleam, width=max(2, side // 60), joint="curve")
    return image


def make_vases(folder: Path, *, n_items: int = N_ITEMS, name: str = "vases", side: int = 640, k: int = K) -> Study:
    """A study of vases with a pool of the nearest by number, and gold pairs."""
    photos = folder / "photos"
    photos.mkdir(parents=True)
    paths = [f"vase-{number:03}.png" for number in range(n_items)]
    for number, path in enumerate(paths):
        vase(number, side).save(photos / path)
    catalogue = Catalogue(paths, paths=[f"../photos/{path}" for path in paths])
    queries = np.arange(N_QUERIES) * (n_items // N_QUERIES)
    study = Study.create(folder / "study", name, catalogue, queries)
    numbers = np.arange(n_items)
    scores = -np.abs(numbers[queries][:, None] - numbers[None]) - numbers[None] / 1000.0
    run = {
        str(paths[query]): {paths[item]: float(scores[row, item]) for item in numbers.tolist() if item != query}
        for row, query in enumerate(queries.tolist())
    }
    study.add_model(SECRET.replace(" ", "-"), run=run)
    study.write_pool(Pool.build({SECRET.replace(" ", "-"): run}, study.collection, k=k))
    return study


class Server:
    """A server of the judging app: where it is, links to it, and what it has said."""

    def __init__(self, process: subprocess.Popen[str], log: Path, facts: dict[str, Any]) -> None:
        self.process, self._log = process, log
        self.address: str = facts["address"]
        self.organiser: str = facts["organiser"]
        self.experts: dict[str, str] = facts["experts"]
        self.workers: list[int] = facts["workers"]
        self.open: str = facts.get("open", "")  # the link for everybody

    @property
    def said(self) -> str:
        """All that it has said until now."""
        return self._log.read_text(encoding="utf-8")


@contextlib.contextmanager
def serving(study: Path, experts: list[str], *options: str, port: str | None = "0") -> Iterator[Server]:
    """Serve a study by the command until the block ends; port None: the one that it remembers."""
    named = [part for name in experts for part in ("--expert", name)]
    at = [] if port is None else ["--port", port]
    command = [sys.executable, "-m", "lookalike", "judge", str(study), *named, *at, "--json", *options]
    surroundings = {**os.environ, "LOOKALIKE_CACHE": str(study.parent / "cache")}
    handle, name = tempfile.mkstemp(".log", "server-", study.parent)
    with (
        os.fdopen(handle, "w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=surroundings) as process,
    ):
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, Path(name).read_text(encoding="utf-8")
            server = Server(process, Path(name), json.loads(line))
            yield server
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        finally:
            process.kill()  # nothing, where it has ended; else leaving the block would wait for it for ever
        assert "Traceback" not in server.said, server.said


class Visitor:
    """Someone who comes by a link, as a browser does: with cookies, and the token that the page holds."""

    def __init__(self, link: str) -> None:
        self.address = link.partition("/join/")[0]
        jar = urllib.request.HTTPCookieProcessor()
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), jar)
        self.page = self.get(link)
        found = re.search(r'(?:data-csrf|name="csrf" value)="([^"]+)"', self.page)
        assert found, self.page
        self.token = found[1]

    def get(self, path: str) -> str:
        """What is at a path, or a whole address."""
        where = path if path.startswith("http") else self.address + path
        with self._opener.open(where, timeout=60) as answer:
            return str(answer.read().decode(errors="replace"))

    def post(self, path: str, **body: Any) -> Any:
        """What the page's script gets for what it sends."""
        request = urllib.request.Request(
            self.address + path,
            json.dumps(body).encode(),
            {"content-type": "application/json", "x-csrf-token": self.token},
        )
        with self._opener.open(request, timeout=60) as answer:
            return json.load(answer)

    def judge(self, n: int, answer: Callable[[int], int] = lambda _: 1) -> list[str]:
        """Judge up to n pairs; what became of each answer."""
        said: list[str] = []
        while len(said) < n and (tasks := self.post("/api/claim", n=min(6, n - len(said)))["tasks"]):
            votes = [
                {"client": str(uuid.uuid4()), "pair": task["pair"], "answer": answer(task["pair"]), "seconds": 1.5}
                for task in tasks
            ]
            said += [vote["status"] for vote in self.post("/api/votes", votes=votes)["votes"]]
        return said
