"""The models of a study as pools and leaderboards take them, read when they are needed."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lookalike.core.codes import Codes

if TYPE_CHECKING:
    from lookalike.study.model import Stored
    from lookalike.study.study import Study

HELD = 1 << 30  # bytes of vectors that are held in memory; what is beyond is read again each time

__all__ = ["HELD", "ModelsInTurn"]


class ModelsInTurn(Mapping[str, Any]):
    """Models by name, each as `Stored.given`. Those that memory has room for are read once, others when asked for."""

    def __init__(self, study: "Study", held: int = HELD) -> None:
        self._study, self._names, self._room = study, study.models(), held
        self._held: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name in self._held:
            return self._held[name]
        if name not in self._names:
            raise KeyError(name)
        stored = self._study.model(name)
        size = _size(stored)
        if size <= self._room:
            self._room -= size
            self._held[name] = stored.given
        return stored.given

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _size(stored: "Stored") -> int:
    """The bytes of a model's vectors; a run counts as nothing, since a ranker keeps all of it anyway."""
    vectors = [part.words if isinstance(part, Codes) else part for part in (stored.queries, stored.gallery)]
    return sum(part.nbytes for part in vectors if part is not None)
