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
    from lookalike.study.combined import Ingredient
    from lookalike.study.finder import Finder, Looks
    from lookalike.study.study import Study

__all__ = ["search"]

QUERY = Annotated[
    str, Parameter(help="an image file, the id or file name of an item, words, or several of them with + and -")
]


def search(
    folder: STUDY,
    query: QUERY,
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

    Words can be searched for where the encoder has a text side. Parts are added and taken away.

    Example: lookalike search shop "photo.jpg + red - dress"
    """
    from lookalike.study.combined import is_single, like_parts
    from lookalike.study.finder import Finder
    from lookalike.study.study import Study

    if paths and (as_json or html or form):
        raise InputError("--paths prints nothing but paths: leave out --json, --format and --html")
    printed = chosen_format(form, as_json)
    opened = Study.open(folder)
    ingredients = _ingredients(opened, query)
    finder = Finder(opened, model or _model_for(opened, ingredients))
    _check_words(finder, ingredients)
    looks = like_parts(finder, ingredients, k, among=_searched(opened, where, tag))
    if html:
        from lookalike.report.search_results import write_looks

        write_looks(output, finder, looks, _picture(opened, ingredients), query)
    if paths:
        _print_paths(finder, looks)
        return

    def show() -> None:
        if not is_single(ingredients):
            tables().print(printable(", ".join(each.label for each in ingredients)))
        _show_looks(finder, looks)
        if html:
            say_how_to_open(output)

    facts = _looks_facts(finder, looks, query, ingredients)
    tell(printed, lambda: facts, lambda: [ResultTable.of_rows(facts["found"])], show)


def _ingredients(opened: "Study", query: str) -> list["Ingredient"]:
    """What is searched for, part by part."""
    from lookalike.study.combined import read_ingredients
    from lookalike.study.item_names import ItemNames

    return read_ingredients(query, ItemNames(opened.catalogue), lambda text: _file(opened, text))


def _file(opened: "Study", text: str) -> tuple[Path, str] | int | None:
    """The file that a text names, as an item of the study if it is one; None if there is none."""
    path = Path(text)
    try:
        if not path.is_file():
            return None
    except (OSError, ValueError):  # too long for a name, or holding what no name can
        return None
    if opened.folder is None:
        return path, text
    images = (opened.path / opened.folder["images"]).resolve()
    for there in (path.parent.resolve() / path.name, path.resolve()):  # it may be a link, and is then named as one
        if there.is_relative_to(images):
            named = (opened.catalogue.ids == there.relative_to(images).as_posix()).nonzero()[0].tolist()
            if named:
                return int(named[0])
    return path, text


def _model_for(opened: "Study", ingredients: list["Ingredient"]) -> str:
    """The model to search by if none is named: where words are searched for, the first that takes them."""
    from lookalike.study.finder import default_model, models_for_words

    by_words = models_for_words(opened) if any(each.kind == "words" for each in ingredients) else []
    return default_model(opened, by_words or None)


def _check_words(finder: "Finder", ingredients: list["Ingredient"]) -> None:
    """Raise if words are searched for that the model cannot encode, with the item that may have been meant."""
    words = next((each.part.text for each in ingredients if each.kind == "words"), None)
    if words is None or (lacking := finder.lacks_for_words) is None:
        return
    from lookalike.study.item_names import ItemNames

    if Path(words).is_dir():
        raise StudyError(f"{words} is a folder: give an image file of it")
    similar = ItemNames(finder.study.catalogue).similar(words)
    hint = f"ids are like {finder.study.catalogue.ids[0]}" if similar is None else f"did you mean {similar}?"
    raise StudyError(f"there is no file {words}, and no item of that id in the study: {hint} As words: {lacking}")


def _picture(opened: "Study", ingredients: list["Ingredient"]) -> Path | None:
    """The file of the first picture that is searched for."""
    for each in ingredients:
        if each.kind == "picture" and each.part.sign > 0:
            return opened.image_path(each.item) if each.item is not None else Path(str(each.picture))
    return None


def _part_facts(ingredient: "Ingredient") -> dict[str, Any]:
    part = ingredient.part
    kind = "item" if ingredient.item is not None else ingredient.kind
    return {"kind": kind, "text": ingredient.name or part.text, "sign": part.sign, "weight": part.weight}


def _searched(opened: "Study", where: str | None, tag: str | None) -> Any:
    """Which items are searched, a mask; None for all. An error where both options fit no item together."""
    masks = ([] if where is None else [_among(opened, where)]) + ([] if tag is None else [_tagged(opened, tag)])
    among = masks[0] & masks[-1] if masks else None
    if among is not None and not among.any():
        raise StudyError(f"no item has {where} and the tag {tag!r}: leave one of them out")
    return among


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


def _looks_facts(finder: "Finder", looks: "Looks", query: str, ingredients: list["Ingredient"]) -> dict[str, Any]:
    from lookalike.study.combined import is_single

    single = is_single(ingredients)
    facts = {
        "query": query,
        "is_item": single and ingredients[0].item is not None,
        "model": finder.model,
        "measure": "Hamming distance" if finder.n_bits is not None else finder.similarity,
        "index": finder.index.kind,
        "found": _rows(finder, looks),
        "more_as_near_as_the_last": looks.more,
    }
    return facts if single else facts | {"parts": [_part_facts(each) for each in ingredients]}


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
