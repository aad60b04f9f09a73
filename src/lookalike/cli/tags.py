"""`lookalike study tag` and `lookalike study map`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from lookalike.cli.options import JSON, STUDY
from lookalike.cli.terminal import print_json, print_line, printable, progress, remark, tables
from lookalike.core.errors import FileError, InputError

if TYPE_CHECKING:
    from lookalike.study.study import Study

__all__ = ["id_lines", "make_map", "tag", "tags_facts", "tags_line"]


def tag(
    folder: STUDY,
    name: Annotated[str | None, Parameter(help="the tag; without it, all tags are listed")] = None,
    ids: Annotated[tuple[str, ...], Parameter(help="of the items; without them, those with the tag are listed")] = (),
    /,
    *,
    from_file: Annotated[
        Path | None, Parameter(name="--from", help="or take the ids of this file, one on a line")
    ] = None,
    remove: Annotated[bool, Parameter(help="take the tag away: from these items, or from all")] = False,
    as_json: JSON = False,
) -> None:
    """Give your own tags to items, as the basket of `lookalike look` does; list them, or take them away.

    Tags are to find items again. They are no labels: no metric counts them.

    Example: lookalike study tag photos-study holiday beach/001.jpg beach/002.jpg

    Example: lookalike study tag photos-study holiday > holiday.txt

    Example: lookalike study tag photos-study holiday --from old.txt --remove
    """
    from lookalike.study.study import Study
    from lookalike.study.tags import add_tag, clean_tag, read_tags, remove_tag

    opened = Study.open(folder)
    wanted = [*ids, *(id_lines(from_file) if from_file is not None else [])]
    if name is None:
        if remove or from_file is not None:
            raise InputError("say which tag: lookalike study tag STUDY TAG")
        _list_tags(opened, as_json)
        return
    if remove:
        n = remove_tag(opened, name, wanted if wanted or from_file is not None else None)
        _done(opened, f"{n:,} items lost the tag {clean_tag(name)!r}", n, as_json)
    elif wanted or from_file is not None:
        n = add_tag(opened, name, wanted)
        _done(opened, f"{n:,} items got the tag {clean_tag(name)!r}", n, as_json)
    else:
        tagged = read_tags(opened).ids(clean_tag(name))
        if as_json:
            print_json({"tag": clean_tag(name), "items": list(tagged)})
            return
        for item in tagged:
            print_line(item)


def make_map(
    folder: STUDY,
    /,
    *,
    model: Annotated[str | None, Parameter(help="whose vectors; by default a network's")] = None,
    as_json: JSON = False,
) -> None:
    """Make the map of a model for `lookalike look`, and store it. A map that fits the vectors stays.

    Example: lookalike study map photos-study --model efficientnet-lite0
    """
    from lookalike.study.finder import default_model
    from lookalike.study.map import make_map as make
    from lookalike.study.map import read_map
    from lookalike.study.study import Study

    opened = Study.open(folder)
    name = model or default_model(opened)
    made = read_map(opened, name, opened.model(name, mapped=True))
    fresh = made is None
    if made is None:
        with progress():
            made = make(opened, name)
    grouped = int((made.groups >= 0).sum())
    facts = {"model": name, "items": len(made.points), "near_duplicates": grouped, "made": fresh}
    if as_json:
        print_json(facts | {"file": str(opened.map_path(name))})
        return
    what = "made" if fresh else "there already, of the same vectors"
    tables().print(f"the map of {name} is {what}: {len(made.points):,} items, {grouped:,} with near-duplicates")


def tags_facts(opened: "Study") -> dict[str, dict[str, int]]:
    """How many items have each tag, and how many that had it are gone."""
    from lookalike.study.tags import read_tags

    counts = read_tags(opened).counts(opened.catalogue)
    return {name: {"items": there, "gone": gone} for name, (there, gone) in counts.items()}


def tags_line(facts: dict[str, dict[str, int]]) -> str | None:
    """All tags in a line; None where there are none."""
    words = [
        f"{printable(name)} {n['items']:,}" + (f" ({n['gone']:,} gone)" if n["gone"] else "")
        for name, n in facts.items()
    ]
    return f"tags: {', '.join(words)}" if words else None


def _list_tags(opened: "Study", as_json: bool) -> None:
    facts = tags_facts(opened)
    if as_json:
        print_json({"tags": facts})
        return
    for name, counts in facts.items():
        tables().print(f"{printable(name)}  {counts['items']:,}")
    gone = sum(counts["gone"] for counts in facts.values())
    if gone:
        remark(f"{gone:,} tags are of items that are not in the study any more; they come back with their items")
    if not facts:
        tables().print(f"no tags yet: lookalike study tag {opened.path.name} TAG ID…")


def _done(opened: "Study", words: str, n: int, as_json: bool) -> None:
    if as_json:
        facts: dict[str, Any] = {"changed": n, "tags": tags_facts(opened)}
        print_json(facts)
        return
    tables().print(printable(words))


def id_lines(path: Path) -> list[str]:
    """The ids in a file, a line each."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        return [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line]
    except UnicodeDecodeError as error:
        raise FileError(f"{path} is not a list of ids, a line each, in UTF-8: {error}", path=path) from error
