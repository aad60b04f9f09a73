"""The map of a study in the browser: its points, its thumbnails in sheets, and making it beside the server."""

import contextlib
import hashlib
import io
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.decode import pillow
from lookalike.core.errors import LookalikeError
from lookalike.study.map import ItemMap, read_map
from lookalike.web.guard import RequestRefusedError
from lookalike.web.look.snapshot import Shelf
from lookalike.web.thumbnails import THUMBNAIL, Drawn, Thumbnails, version_of

if TYPE_CHECKING:
    from lookalike.study.study import Study

__all__ = ["CELL", "COLOURS", "PER_SIDE", "MapMaker", "ShownMap", "ShownMaps"]

CELL, PER_SIDE = 80, 8  # pixels of a thumbnail in a sheet, and thumbnails in a row
PER_SHEET = PER_SIDE**2
COLOURS = 32  # values that colours and shapes can tell apart
WORKER = ["-m", "lookalike.study.map_worker"]
STEPS = 65_535  # a point's place is a whole number up to this


class ShownMap:
    """A map of a shelf as the page takes it."""

    def __init__(self, shelf: Shelf, made: ItemMap) -> None:
        self.shelf, self.made = shelf, made

    @cached_property
    def places(self) -> np.ndarray:
        """Whole numbers from 0 to STEPS, (n, 2); y grows downwards."""
        points = self.made.points.astype(np.float64) * [1, -1]
        return np.clip(np.rint((points + 1) / 2 * STEPS), 0, STEPS).astype(np.int64)

    @cached_property
    def order(self) -> np.ndarray:
        """Items so that neighbours in the order are mostly neighbours on the map: a part of the map is few sheets."""
        keys = np.zeros(len(self.places), np.uint64)
        for bit in range(16):  # the bits of x and y in turns: Morton's order
            for axis in (0, 1):
                value = (self.places[:, axis].astype(np.uint64) >> np.uint64(bit)) & np.uint64(1)
                keys |= value << np.uint64(2 * bit + axis)
        return np.argsort(keys, kind="stable")

    @property
    def n_sheets(self) -> int:
        """How many sheets of thumbnails there are; none where items have no pictures."""
        return 0 if self.shelf.catalogue.paths is None else -(-len(self.order) // PER_SHEET)

    def facts(self, mask: np.ndarray | None) -> dict[str, Any]:
        """All that the page draws. mask: the items that fit the filters, None for all."""
        catalogue, order = self.shelf.catalogue, self.order
        columns = []
        for column in self.shelf.columns:
            if column.choices is not None and len(column.choices) <= COLOURS:
                names = [value for value, _ in column.choices]
                numbers = {value: number for number, value in enumerate(names)}
                values = catalogue.column(column.name).astype(str)[order].tolist()
                columns.append(
                    {"name": column.name, "values": names, "of": [numbers.get(value, -1) for value in values]}
                )
        return {
            "x": self.places[order, 0].tolist(),
            "y": self.places[order, 1].tolist(),
            "ids": catalogue.ids[order].tolist(),
            "positions": order.tolist(),
            "groups": self.made.groups[order].tolist(),
            "fits": None if mask is None else mask[order].astype(int).tolist(),
            "columns": columns,
            "sheets": {"count": self.n_sheets, "cell": CELL, "side": PER_SIDE},
        }

    def sheet_version(self, number: int) -> str:
        """Another text whenever a picture of the sheet is another one."""
        versions = [version_of(self.shelf.path(item), THUMBNAIL) for item in self.sheet_items(number)]
        return hashlib.sha256(f"1 {CELL} {versions}".encode()).hexdigest()[:40]

    def sheet_items(self, number: int) -> list[int]:
        """The items of a sheet, row by row."""
        return [int(item) for item in self.order[number * PER_SHEET : (number + 1) * PER_SHEET]]

    def sheet(self, number: int, thumbnails: Thumbnails) -> Drawn:
        """Thumbnails of neighbours, as one picture; a picture that cannot be read leaves its place grey."""
        Image: Any = pillow()  # noqa: N806
        whole = Image.new("RGB", (CELL * PER_SIDE, CELL * PER_SIDE), (131, 144, 160))
        for place, item in enumerate(self.sheet_items(number)):
            drawn = thumbnails.of(self.shelf.path(item))
            if drawn.kind != "image/jpeg":
                continue
            small = Image.open(io.BytesIO(drawn.body)).convert("RGB")
            side = min(small.size)
            left, top = (small.width - side) // 2, (small.height - side) // 2
            small = small.resize((CELL, CELL), Image.Resampling.BILINEAR, (left, top, left + side, top + side))
            whole.paste(small, (place % PER_SIDE * CELL, place // PER_SIDE * CELL))
        file = io.BytesIO()
        whole.save(file, "JPEG", quality=84)
        return Drawn(file.getvalue(), "image/jpeg", self.sheet_version(number))


class ShownMaps:
    """The maps of a study's models, read once for each state of the study."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shelf: Shelf | None = None
        self._maps: dict[str, ShownMap] = {}

    def get(self, shelf: Shelf, model: str) -> ShownMap | None:
        """The map of a model; None if it has to be made."""
        with self._lock:
            if shelf is not self._shelf:
                self._shelf, self._maps = shelf, {}
            if model not in self._maps:
                stored = shelf.study.model(model, mapped=True)
                made = read_map(shelf.study, model, stored)
                if made is None:
                    return None
                self._maps[model] = ShownMap(shelf, made)
            return self._maps[model]


@dataclass
class Making:
    """A map that is being made, or why it was not."""

    model: str
    process: "subprocess.Popen[str] | None" = None
    done: int = 0
    total: int = 100
    what: str = "making the map"
    problem: str | None = None


class MapMaker:
    """Makes maps one at a time, each in a process of its own, so that pages are answered meanwhile."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now: Making | None = None
        self._problems: dict[str, str] = {}

    def state(self, model: str) -> dict[str, Any]:
        """How far the map of a model is."""
        with self._lock:
            making = self._now
            if making is not None and making.model == model:
                return {"making": True, "what": making.what, "done": making.done, "total": making.total}
            other = None if making is None else making.model
            return {"making": False, "problem": self._problems.get(model), "other": other}

    def make(self, study: "Study", model: str) -> None:
        """Begin to make the map of a model, unless one is being made."""
        if not study.can_change:
            raise RequestRefusedError(
                403,
                f"The study can only be read here, so that its map cannot be stored. Run lookalike study map "
                f"{study.path.name} --model {model} where it can be written.",
            )
        with self._lock:
            if self._now is not None:
                return
            self._problems.pop(model, None)
            command = [sys.executable, *WORKER, str(study.path), model]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603  # our own module
            self._now = Making(model, process)
        threading.Thread(target=self._follow, args=(self._now,), daemon=True).start()

    def _follow(self, making: Making) -> None:
        assert making.process is not None
        assert making.process.stdout is not None
        problem: str | None = "the process that made it has ended early"
        for line in making.process.stdout:
            with contextlib.suppress(json.JSONDecodeError):
                facts = json.loads(line)
                if "made" in facts or "problem" in facts:
                    problem = facts.get("problem")
                else:
                    making.what, making.done, making.total = facts["what"], facts["done"], facts["total"]
        making.process.stdout.close()
        making.process.wait()
        with self._lock:
            self._now = None
            if problem is not None:
                self._problems[making.model] = problem

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """While the server runs; at its end, a map that is being made is given up."""
        try:
            yield
        finally:
            with self._lock:
                process = None if self._now is None else self._now.process
            if process is not None:
                process.terminate()
                process.wait()


def model_map(maps: ShownMaps, shelf: Shelf, model: str) -> ShownMap | None:
    """The map of a model; a model that cannot be read is refused in a sentence."""
    try:
        return maps.get(shelf, model)
    except (LookalikeError, OSError, MemoryError) as error:
        raise RequestRefusedError(422, f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
