"""`lookalike search`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, validators

from lookalike.cli.options import FORMAT, JSON, STUDY, chosen_format
from lookalike.cli.outputs import Output
from lookalike.cli.terminal import print_line, printable, remark, say_how_to_open, table, tables, tell
from lookalike.core.errors import InputError, StudyError
from lookalike.core.tables.table import ResultTable

if TYPE_CHECKING:
    from lookalike.study.finder import Finder, Looks
    from lookalike.study.study import Study

__all__ = ["search"]


def search(
    folder: STUDY,
    image: Annotated[str, Parameter(help="an image file, or the id of an item of the study")],
    /,
    *,
    k: Annotated[int, Parameter(name=["-k", "--k"], help="how many to show", validator=validators.Number(gte=1))] = 20,
    model: Annotated[str | None, Parameter(help="which of the study; by default a network's")] = None,
    where: Annotated[str | None, Parameter(help="search only items with this value, such as category=shoes")] = None,
    tag: Annotated[str | None, Parameter(help="search only items with this tag of yours")] = None,
    paths: Annotated[
        bool, Parameter(help="print the paths of the files alone, one on a line, for other programs")
    ] = False,
    html: Annotated[bool, Parameter(help="write a page with the pictures")] = False,
    output: Annotated[Path, Parameter(help="where to write the page"), Output(".html", only_with="html")] = Path(
        "lookalike-search.html"
    ),
    as_json: JSON = False,
    form: FORMAT = None,
) -> None:
    """Find what looks like an image: the nearest items of a study, with their distances and ties.

    Example: lookalike search photos-study cat.jpg

    Example: lookalike search photos-study shoes/001.jpg -k 50 --html

    Example: lookalike search photos-study cat.jpg --paths > similar.txt
    """
    from lookalike.study.finder import Finder, default_model
    from lookalike.study.study import Study

    if paths and (as_json or html or form):
        raise InputError("--paths prints nothing but paths: leave out --json, --format and --html")
    printed = chosen_format(form, as_json)
    opened = Study.open(folder)
    finder = Finder(opened, model or default_model(opened))
    item = _item(opened, image)
    among = None if where is None else _among(opened, where)
    if tag is not None:
        among = _tagged(opened, tag) if among is None else among & _tagged(opened, tag)
    looks = (
        finder.like_item(item, k, among=among) if item is not None else finder.like_picture(Path(image), k, among=among)
    )
    if html:
        from lookalike.report.search_results import write_looks

        query = opened.image_path(item) if item is not None else Path(image)
        write_looks(output, finder, looks, query, image)
    if paths:
        _print_paths(finder, looks)
        return

    def show() -> None:
        _show_looks(finder, looks)
        if html:
            say_how_to_open(output)

    facts = _looks_facts(finder, looks, image, item is not None)
    tell(printed, lambda: facts, lambda: [ResultTable.of_rows(facts["found"])], show)


def _item(opened: "Study", image: str) -> int | None:
    """The item that is meant by an id, or by the path of its file; None for another file."""
    ids = opened.catalogue.ids
    named = [*(ids == image).nonzero()[0].tolist()]
    if named:
        return int(named[0])
    path = Path(image)
    if not path.exists():
        from lookalike.core.checks import nearest

        similar = nearest(image, ids[:100_000].tolist(), cutoff=0.5)
        hint = f": ids are like {ids[0]}" if similar is None else f": did you mean {similar}?"
        raise StudyError(f"there is no file {image}, and no item of that id in the study{hint}")
    if opened.folder is None:
        return None
    images = (opened.path / opened.folder["images"]).resolve()
    for there in (path.parent.resolve() / path.name, path.resolve()):  # it may be a link, and is then named as one
        if there.is_relative_to(images):
            named = (ids == there.relative_to(images).as_posix()).nonzero()[0].tolist()
            if named:
                return int(named[0])
    return None


def _among(opened: "Study", where: str) -> Any:
    column, equals, value = where.partition("=")
    if not equals:
        raise InputError(f"--where must be COLUMN=VALUE, such as category=shoes, got {where!r}")
    values = opened.catalogue.column(column.strip())
    among = values.astype(str) == value
    if not among.any():
        some = ", ".join(sorted(set(values.astype(str).tolist()))[:5])
        raise StudyError(f"no item has the {column} {value!r}: values are {some}, …")
    return among


def _tagged(opened: "Study", tag: str) -> Any:
    from lookalike.study.tags import clean_tag, read_tags

    return read_tags(opened).mask(clean_tag(tag), opened.catalogue)


def _rows(finder: "Finder", looks: "Looks") -> list[dict[str, Any]]:
    """What was found, a dictionary for each item; tied items share the ranks from the first to the last of them."""
    from lookalike.study.finder import grouped

    catalogue = finder.study.catalogue
    labels = {"category": catalogue.categories, "identity": catalogue.identities}
    rows = []
    for group in grouped(looks):
        for item in group.items:
            row: dict[str, Any] = {
                "id": str(catalogue.ids[item]),
                "rank": group.first,
                "last_rank": group.first + group.size - 1,
                "distance" if finder.n_bits is not None else "score": group.distance,
            }
            row |= {name: str(values[item]) for name, values in labels.items() if values is not None}
            if (path := finder.study.image_path(item)) is not None:
                row["path"] = str(path)
            rows.append(row)
    return rows


def _looks_facts(finder: "Finder", looks: "Looks", image: str, is_item: bool) -> dict[str, Any]:
    return {
        "query": image,
        "is_item": is_item,
        "model": finder.model,
        "measure": "Hamming distance" if finder.n_bits is not None else finder.similarity,
        "index": finder.index.kind,
        "found": _rows(finder, looks),
        "more_as_near_as_the_last": looks.more,
    }


def _print_paths(finder: "Finder", looks: "Looks") -> None:
    """The paths of what was found, the nearest first; items without a file are told on standard error."""
    found = [row.get("path") for row in _rows(finder, looks)]
    if missing := found.count(None):
        remark(f"{missing} of {len(found)} items have no image file")
    for path in found:
        if path is not None:
            print_line(str(Path(path).parent.resolve() / Path(path).name))


def _show_looks(finder: "Finder", looks: "Looks") -> None:
    from lookalike.study.finder import grouped, nearness

    catalogue = finder.study.catalogue
    labels = {"category": catalogue.categories, "identity": catalogue.identities}
    named = {name: values for name, values in labels.items() if values is not None}
    word, shown = nearness(finder)
    rows = table((word, "bold"), first="rank")
    for name in ("item", *named):
        rows.add_column(name, no_wrap=True)
    for group in grouped(looks):
        for item in group.items:
            columns = (str(values[item]) for values in (catalogue.ids, *named.values()))
            rows.add_row(group.ranks, shown(group.distance), *map(printable, columns))
    say = tables().print
    what = f"Hamming distance of {finder.n_bits} bits" if finder.n_bits is not None else str(finder.similarity)
    say(f"{finder.model}, {what}{'' if finder.index.kind == 'exact' else f', {finder.index.kind}'}\n")
    say(rows)
    if looks.more:
        say(f"and {looks.more:,} more that {'is' if looks.more == 1 else 'are'} as near as the last")
