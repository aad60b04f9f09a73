"""`lookalike duplicates`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from lookalike.cli.options import JSON, STUDY
from lookalike.cli.outputs import Output
from lookalike.cli.terminal import print_json, printable, progress, remark, tables
from lookalike.core.errors import InputError

if TYPE_CHECKING:
    from lookalike.study.duplicates import CopiedFile, Duplicates
    from lookalike.study.study import Study

SHOWN = 50  # groups on the terminal
EXACT = Annotated[bool, Parameter(help="only files that are the same byte for byte")]
NEAR = Annotated[
    float | None,
    Parameter(help="how near copies are: a cosine such as 0.95, or bits of codes; by default as in the report"),
]
MODEL = Annotated[str | None, Parameter(help="by which files look the same; by default a network's")]
DECIDED = Annotated[
    bool, Parameter(help="only copies that somebody decided to drop, on the page Duplicates of lookalike look")
]
KEEPING = Annotated[
    Literal["largest", "oldest", "first"],
    Parameter(help="which file of a group stays: the largest picture, the oldest file, the first name"),
]
MOVE = Annotated[
    Path | None, Parameter(help="move the copies to this folder, which must be new or empty"), Output(folder=True)
]
LINK = Annotated[
    bool, Parameter(help="let copies of the same bytes become hard links; the originals stay in the study")
]
APPLY = Annotated[bool, Parameter(help="do it; without this, only say what would happen")]
UNDO_FILE = Annotated[Path | None, Parameter(help="put back what an earlier run moved: the file that it named")]
NOT_DUPLICATES = Annotated[
    tuple[str, str] | None, Parameter(help="remember that two items are not duplicates, and never list them again")
]
UNITS = {"bits": "{:.0f} bits", "cosine": "cosine {:.4f}", "distance": "distance {:.4f}"}

__all__ = ["duplicates"]


def duplicates(
    folder: STUDY,
    /,
    *,
    exact: EXACT = False,
    near: NEAR = None,
    model: MODEL = None,
    decided: DECIDED = False,
    keep: KEEPING = "largest",
    move: MOVE = None,
    link: LINK = False,
    apply: APPLY = False,
    undo: UNDO_FILE = None,
    not_duplicates: NOT_DUPLICATES = None,
    as_json: JSON = False,
) -> None:
    """Find copies of images, keep one of each, and move the others away or link them. Nothing is ever deleted.

    Files that are the same byte for byte are told apart from files that look the same. Without --apply, nothing
    changes.

    Example: lookalike duplicates photos-study

    Example: lookalike duplicates photos-study --near 0.95 --keep oldest --move copies --apply

    Example: lookalike duplicates photos-study --exact --link --apply

    On the page Duplicates of lookalike look, you decide by eye. --decided does what was decided there.

    Example: lookalike duplicates photos-study --decided --move copies --apply
    """
    from lookalike.study.duplicates import decided_duplicates, find_duplicates, remember_apart
    from lookalike.study.finder import default_model
    from lookalike.study.study import Study

    _check_options(exact, near, model, decided, move, link, apply)
    opened = Study.open(folder)
    if undo is not None:
        _undo(opened, undo, as_json)
        return
    if not_duplicates is not None:
        tables().print("remembered" if remember_apart(opened, [not_duplicates]) else "that is remembered already")
        return
    with progress():
        if decided:
            found = decided_duplicates(opened)
        else:
            by = None if exact else model or default_model(opened)
            found = find_duplicates(opened, model=by, near=near, keep=keep)
    for note in found.notes:
        remark(note)
    undo_file = _change(opened, found, move, apply) if move is not None or link else None
    if as_json:
        print_json(_facts(opened, found) | {"undo": None if undo_file is None else str(undo_file)})
        return
    _show(opened, found)
    _say_what_happened(opened, found, move, link, undo_file)


def _check_options(
    exact: bool, near: float | None, model: str | None, decided: bool, move: Path | None, link: bool, apply: bool
) -> None:
    """Raise for options that contradict each other."""
    if decided and (exact or near is not None or model is not None):
        raise InputError(
            "--decided takes what was decided, and searches for nothing: leave out --exact, --near, --model"
        )
    if exact and (near is not None or model is not None):
        raise InputError("--exact compares bytes alone: leave out --near and --model")
    if move is not None and link:
        raise InputError("--move and --link are two ways: choose one")
    if apply and move is None and not link:
        raise InputError("--apply needs to know what to do: add --move FOLDER or --link")


def _change(opened: "Study", found: "Duplicates", move: Path | None, apply: bool) -> Path | None:
    """Move or link the copies, if it is to be done; returns the undo file."""
    from lookalike.study.duplicate_actions import plan_links, plan_moves

    plan = plan_links(opened, found) if move is None else plan_moves(opened, found, move)
    for note in plan.notes:
        remark(note)
    if not apply:
        return None
    with progress():
        return plan.apply(
            opened, lambda path: remark(f"it was not finished; what was moved can be put back: --undo {path}")
        )


def _undo(opened: "Study", path: Path, as_json: bool) -> None:
    from lookalike.study.duplicate_actions import put_back

    with progress():
        n_back = put_back(opened, path)
    if as_json:
        print_json({"moved_back": n_back})
        return
    tables().print(f"{n_back:,} file{'s' * (n_back != 1)} moved back")


def _nearness(found: "Duplicates", copy: "CopiedFile") -> str:
    if copy.same_bytes:
        return "same bytes"
    if found.unit is None:
        return "decided"
    return UNITS[found.unit].format(copy.nearness)


def _show(opened: "Study", found: "Duplicates") -> None:
    """A line for each file, the kept one first."""
    say = tables().print
    ids = opened.catalogue.ids
    for group in found.groups[:SHOWN]:
        say(f"keep  {printable(str(ids[group.kept]))}")
        for copy in group.copies:
            say(f"copy  {printable(str(ids[copy.position]))}  ({_nearness(found, copy)})")
        say("")
    if len(found.groups) > SHOWN:
        say(f"… and {len(found.groups) - SHOWN:,} more groups (--json lists all)\n")


def _say_what_happened(
    opened: "Study", found: "Duplicates", move: Path | None, link: bool, undo_file: Path | None
) -> None:
    """How many copies there are, what was done with them, and what to do next."""
    from lookalike.study.duplicate_actions import images_of

    say = tables().print
    if found.n_apart:
        say(f"{found.n_apart:,} pair{'s' * (found.n_apart != 1)} set aside: somebody said that they are no duplicates")
    if not found.groups:
        say("no duplicates")
        return
    n_same = sum(copy.same_bytes for copy in found.copies)
    limit = "" if found.unit is None or found.limit is None else f", up to {UNITS[found.unit].format(found.limit)}"
    say(
        f"{len(found.groups):,} groups: {len(found.copies):,} copies, {_size(found.n_bytes)}, "
        f"{n_same:,} of them the same byte for byte{limit}"
    )
    if undo_file is not None and move is not None:
        say(f"the copies are in {move}; next: lookalike encode {images_of(opened)}, so that the study knows")
    elif undo_file is not None:
        say(f"{n_same:,} files are now hard links; their originals are in {undo_file.parent}")
        say("they still take their space: remove that folder when you are sure")
    elif link and not n_same:
        say("none of the copies has the same bytes: there is nothing to link")
    elif move is not None or link:
        say("nothing was changed: add --apply to do it")
    else:
        say("nothing was changed: --move FOLDER or --link, with --apply, does something about them")
    if undo_file is not None:
        say(f"to put everything back: lookalike duplicates {opened.path} --undo {undo_file}")


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:,.1f} kB"


def _facts(opened: "Study", found: "Duplicates") -> dict[str, Any]:
    """All groups as plain values."""
    ids = opened.catalogue.ids
    groups = [
        {
            "keep": str(ids[group.kept]),
            "copies": [
                {"id": str(ids[copy.position]), "same_bytes": copy.same_bytes, "nearness": copy.nearness}
                for copy in group.copies
            ],
        }
        for group in found.groups
    ]
    return {
        "unit": found.unit, "limit": found.limit, "groups": groups, "bytes": found.n_bytes, "notes": found.notes,
        "set_aside": found.n_apart,
    }  # fmt: skip
