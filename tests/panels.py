"""Studies to judge: vases that are drawn, a pool of pairs of them, and the judging app in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from lookalike.discovery.catalogue import Catalogue
from lookalike.discovery.pool import Pool
from lookalike.study import Study

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


def make_vases(folder: Path, *, n_items: int = N_ITEMS, name: str = "vases", side: int = 640) -> Study:
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
    study.write_pool(Pool.build({SECRET.replace(" ", "-"): run}, study.collection, k=K))
    return study


class Server:
    """A server of the judging app: where it is, and links to it."""

    def __init__(self, process: subprocess.Popen[str], facts: dict[str, Any]) -> None:
        self.process = process
        self.address: str = facts["address"]
        self.organiser: str = facts["organiser"]
        self.experts: dict[str, str] = facts["experts"]


@contextlib.contextmanager
def serving(study: Path, experts: list[str], *, experts_per_pair: int = 3, **more: str) -> Iterator[Server]:
    """Serve a study on a free port until the block ends."""
    command = [sys.executable, __file__, str(study), str(experts_per_pair), *experts]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **more}
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        try:
            yield Server(process, json.loads(line))
        finally:
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
        assert "Traceback" not in err, err


def main(folder: str, experts_per_pair: str, *experts: str) -> None:
    from lookalike.judging.app import create_judge_app, expert_link, organiser_link
    from lookalike.judging.links import Keys
    from lookalike.judging.store import Store
    from lookalike.web.pictures import Thumbnails
    from lookalike.web.serving import listen, serve

    study = Study.open(folder)
    with Store.open(None, study) as store, listen("127.0.0.1", int(os.environ.get("PORT", "0"))) as listening:
        store.configure(experts_per_pair=int(experts_per_pair))
        keys = Keys.of(study.path)
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        links = {name: expert_link(keys, store.add_expert(name), address) for name in experts}
        app = create_judge_app(study, store, keys, thumbnails=Thumbnails(study.path.parent / "thumbnails"))
        facts = {"address": address, "organiser": organiser_link(keys, store.organiser(), address), "experts": links}
        sys.stdout.write(json.dumps(facts) + "\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            serve(app, listening)


if __name__ == "__main__":
    main(*sys.argv[1:])
