"""Models of a study are read when they are asked for, and held while there is room."""

from __future__ import annotations

import numpy as np
import pytest

import lookalike as la
from lookalike.study.models_in_turn import ModelsInTurn
from lookalike.study.study import Study


@pytest.fixture
def study(closed: Study) -> Study:
    rows = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
    closed.add_model("big", gallery=rows)
    closed.add_model("codes", gallery=la.Codes.pack(rows > 5))
    closed.add_model("run", run={str(closed.queries.ids[0]): {str(closed.catalogue.ids[1]): 1.0}})
    return closed


def test_models_are_those_of_the_study(study: Study) -> None:
    models = ModelsInTurn(study)
    assert list(models) == study.models() == ["big", "codes", "run"]
    assert len(models) == 3
    assert "big" in models
    assert "gone" not in models
    with pytest.raises(KeyError, match="gone"):
        models["gone"]
    queries, gallery, similarity = models["big"]
    assert np.array_equal(gallery, np.arange(1, 13).reshape(4, 3))
    assert np.array_equal(queries, gallery[[0, 2]])
    assert similarity == "cosine"
    assert models["run"] == study.model("run").given


@pytest.mark.parametrize(("room", "reads"), [(1 << 20, 3), (0, 4), (80, 3)])
def test_models_are_held_while_there_is_room(
    study: Study, room: int, reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vectors of `big` take 72 bytes, those of `codes` 48; a run counts as nothing."""
    names: list[str] = []
    read = Study.model

    def counted(self: Study, name: str) -> object:
        names.append(name)
        return read(self, name)

    monkeypatch.setattr(Study, "model", counted)
    models = ModelsInTurn(study, held=room)
    for name in ("big", "codes", "big", "run", "run"):
        assert models[name] is not None
    assert len(names) == reads
    assert names.count("run") == 1
