"""`lookalike index`."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, validators

from lookalike.cli.options import FORMAT, JSON, SEED, STUDY, chosen_format
from lookalike.cli.terminal import progress, table, tables, tell
from lookalike.core.errors import InputError, StudyError
from lookalike.core.tables.table import ResultTable

if TYPE_CHECKING:
    from lookalike.study.study import Study

__all__ = ["index"]


def index(
    folder: STUDY,
    /,
    *,
    model: Annotated[str | None, Parameter(help="which of the study; by default all that have vectors")] = None,
    hasher: Annotated[
        str | None,
        Parameter(help="hash the embeddings first, by ITQ or another; the codes become a model of the study"),
    ] = None,
    bits: Annotated[int | None, Parameter(help="length of the codes (64)", validator=validators.Number(gte=1))] = None,
    kind: Annotated[
        Literal["auto", "exact", "ivf", "hnsw"], Parameter(help="auto is exact where that takes milliseconds, else ivf")
    ] = "auto",
    recall: Annotated[
        float, Parameter(help="that an approximate index is to reach", validator=validators.Number(gt=0, lte=1))
    ] = 0.99,
    seed: SEED = 0,
    as_json: JSON = False,
    form: FORMAT = None,
) -> None:
    """Make the models of a study fast to search, and measure how many of the nearest an index finds, and how fast.

    Example: lookalike index photos-study

    Example: lookalike index photos-study --model efficientnet-lite0 --hasher ITQ --bits 64
    """
    from lookalike.study.finder import build_index, default_model
    from lookalike.study.hashed_models import hash_model
    from lookalike.study.study import Study

    printed = chosen_format(form, as_json)
    opened = Study.open(folder)
    if bits is not None and hasher is None:
        raise InputError("--bits is the length of codes that a hasher makes: add --hasher ITQ")
    with progress():
        if hasher is not None:
            names = [hash_model(opened, model or default_model(opened), hasher, bits or 64, seed)]
        else:
            names = [model] if model is not None else _searchable(opened)
        rows = [_measured(name, build_index(opened, name, kind=kind, target=recall, seed=seed)) for name in names]
    facts = {"study": str(opened.path), "indexes": rows}
    tell(printed, lambda: facts, lambda: [ResultTable.of_rows(rows)], lambda: _show(rows))


def _show(rows: list[dict[str, Any]]) -> None:
    """Print a row for each index."""
    shown = table(
        ("items", ""), ("of", ""), ("index", ""), ("recall", "bold"), ("times as fast as exact", ""), first="model"
    )
    for row in rows:
        recall_text = "1, exact" if row["recall"] is None else f"{row['recall']:.4f} of the first {row['k']}"
        speed = "1" if row["speedup"] is None else f"{row['speedup']:.1f}"
        shown.add_row(row["model"], f"{row['items']:,}", row["of"], row["kind"], recall_text, speed)
    tables().print(shown)


def _measured(name: str, built: Any) -> dict[str, Any]:
    of = f"codes of {built.items.n_bits} bits" if built.similarity is None else f"{built.items.shape[1]:,} numbers"
    measured = built.measured
    return {
        "model": name,
        "items": len(built),
        "of": of,
        "kind": built.kind,
        "recall": None if measured is None else measured.recall,
        "k": None if measured is None else measured.k,
        "queries": None if measured is None else measured.n_queries,
        "speedup": None if measured is None else measured.speedup,
    }


def _searchable(opened: "Study") -> list[str]:
    names = [name for name in opened.models() if (opened.path / "models" / f"{name}.npz").is_file()]
    if not names:
        raise StudyError(f"the study {opened.name!r} has no model to search by: lookalike encode makes one")
    return names
