"""`lookalike study`: making a study, adding models and votes, and taking results out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from lookalike.cli.counted import HowToJudge
from lookalike.cli.items import is_items, open_items
from lookalike.cli.options import (
    FLAT,
    FORMAT,
    JSON,
    RANDOM_TOO,
    RAW,
    REL,
    RULE,
    SEED,
    SIMILARITY,
    SMOOTHING,
    STUDY,
    ZERO,
    VectorOptions,
    check_raw,
    check_smoothing,
    chosen_format,
)
from lookalike.cli.outputs import Output
from lookalike.cli.studies import judgements_of, keep_gold, open_judged, read_votes, write_export
from lookalike.cli.tags import id_lines, make_map, tag, tags_facts, tags_line
from lookalike.cli.terminal import print_json, remark, rich_table, tables, tell
from lookalike.core.endings import ITEMS, JUDGEMENT_FILES, TABLES, either
from lookalike.core.errors import InputError
from lookalike.core.tables.table import ResultTable, TableHead

if TYPE_CHECKING:
    from lookalike.discovery import Catalogue, Votes
    from lookalike.study.study import Study

study = App(
    name="study",
    help="Make a study, add models and votes, take results out.\n\n"
    "Example: lookalike study new shop --catalogue items.csv --draw 2000",
)

study.command(tag)
study.command(make_map, name="map")

CATALOGUE = Annotated[Path, Parameter(help=f"the items: {either(TABLES)} with id, identity, category, path; or .json")]
QUERIES = Annotated[
    Path | None,
    Parameter(help="which of them are queries: ids, a line each, or seeds or annotations .json; or with --wild, items"),
]
MANIFEST = Annotated[Path | None, Parameter(help="the images that take part, .json; by default all")]
PHASE = Annotated[
    list[str] | None,
    Parameter(help="items are the images of this phase alone, queries of any; may be given several times"),
]
IMAGES = Annotated[Path | None, Parameter(help="where paths of images begin; by default the folder of the catalogue")]
STRATIFY = Annotated[str | None, Parameter(help="a column, such as category, of which each value gets its share")]

__all__ = ["read_catalogue", "study"]


@study.command
def new(
    folder: Annotated[Path, Parameter(help="the folder of the study"), Output(folder=True, owns="study")],
    /,
    *,
    catalogue: CATALOGUE,
    queries: QUERIES = None,
    manifest: MANIFEST = None,
    phase: PHASE = None,
    images: IMAGES = None,
    draw: Annotated[int | None, Parameter(help="draw so many queries from the catalogue")] = None,
    stratify: STRATIFY = None,
    wild: Annotated[
        bool, Parameter(help="the queries are no items of the catalogue, but a catalogue of their own")
    ] = False,
    name: Annotated[str | None, Parameter(help="of the study; by default that of the folder")] = None,
    seed: SEED = 0,
    as_json: JSON = False,
) -> None:
    """Make a study: a folder that holds a catalogue, queries, models, the pool, votes and results.

    Example: lookalike study new shop --catalogue items.csv --draw 2000 --stratify category

    Example: lookalike study new street --catalogue items.csv --queries photos.csv --wild

    Example: lookalike study new wild --catalogue metadata.json --queries seeds.json --phase gallery
    """
    from lookalike.study.study import Study
    from lookalike.study.task_images import task_images

    if (queries is None) == (draw is None):
        raise InputError("say which items are queries: --queries FILE, or --draw N")
    if draw is None and stratify is not None:
        raise InputError("--stratify is for queries that are drawn: add --draw")
    if wild and queries is None:
        raise InputError("the queries of a wild study come from elsewhere: pass their catalogue with --queries")
    task = task_images(read_catalogue(catalogue), manifest, phase or ())
    sentences: list[str] = []
    if wild and queries is not None and _is_catalogue(queries):
        described = read_catalogue(queries)
        chosen = _with_images(described, described, queries, images, folder)
        items = _with_images(task.catalogue, task.catalogue[task.items], catalogue, images, folder)[task.items]
    else:
        if queries is None:
            rows = task.draw(draw or 0, stratify=stratify, seed=seed)
        else:
            rows, sentences = task.queries(_ids(queries, task.catalogue), wild=wild)
        wild = not task.items[rows].all()
        located = _with_images(task.catalogue, task.used(rows), catalogue, images, folder)
        chosen, items = located[rows], located[task.items]
    created = Study.create(folder, name or folder.resolve().name, items, chosen, wild=wild)
    for sentence in sentences:
        remark(sentence)
    files = "items.npz queries.npz" if wild else "embeddings.npz"
    _say(created, f"Next: lookalike study add {folder} NAME {files}", as_json)


@study.command
def add(
    folder: STUDY,
    name: Annotated[str, Parameter(help="what the model is called")],
    gallery: Annotated[str, Parameter(help=f"embeddings or codes of the items: {ITEMS}; or a TREC run")],
    queries: Annotated[str | None, Parameter(help="those of the queries, if they are not items")] = None,
    /,
    *,
    columns: Annotated[VectorOptions, FLAT] = VectorOptions(),  # noqa: B008  # it never changes
    similarity: SIMILARITY = None,
    zero: ZERO = None,
    replace: Annotated[bool, Parameter(help="in place of the model of this name")] = False,
    as_json: JSON = False,
) -> None:
    """Add a model: its embeddings or codes, matched to the catalogue by `ids` where the file has them; or its run.

    Example: lookalike study add shop dino dino.npz

    Example: lookalike study add shop old-search search.run.gz
    """
    from lookalike.study.study import Study

    opened = Study.open(folder)
    if is_items(gallery):
        items = open_items(gallery, columns.columns, zero=zero)
        of_queries = open_items(queries, columns.columns, zero=zero) if queries is not None else None
        opened.add_model(
            name,
            None if of_queries is None else of_queries.vectors,
            items.vectors,
            similarity=similarity,
            replace=replace,
            query_ids=None if of_queries is None else of_queries.ids,
            gallery_ids=items.ids,
        )
    else:
        if queries is not None or columns.columns.named:
            raise InputError("a run is one file: it ranks items for the queries it names, and has no columns")
        opened.add_model(name, run=Path(gallery), similarity=similarity, replace=replace)
    pooled = opened.pool_path.exists()
    _say(opened, f"Next: lookalike pool {folder}" + (f" --top-up {name}" if pooled else ""), as_json)


@study.command
def remove(folder: STUDY, name: Annotated[str, Parameter(help="of the model")], /, *, as_json: JSON = False) -> None:
    """Forget a model; what it proposed stays in the pool.

    Example: lookalike study remove shop old-search
    """
    from lookalike.study.study import Study

    opened = Study.open(folder)
    opened.remove_model(name)
    _say(opened, f"{name} is removed", as_json)


@study.command
def queries(
    folder: STUDY,
    /,
    *,
    draw: Annotated[int | None, Parameter(help="draw so many from the catalogue")] = None,
    stratify: STRATIFY = None,
    file: Annotated[Path | None, Parameter(help="or take these: ids, a line each")] = None,
    seed: SEED = 0,
    as_json: JSON = False,
) -> None:
    """Choose which items of a study are its queries, before it has a pool.

    Example: lookalike study queries photos-study --draw 100 --stratify category
    """
    from lookalike.study.study import Study

    opened = Study.open(folder)
    if (draw is None) == (file is None):
        raise InputError("say which items are queries: --file FILE, or --draw N")
    if draw is None and stratify is not None:
        raise InputError("--stratify is for queries that are drawn: add --draw")
    items = opened.catalogue
    chosen = opened.set_queries(
        _ids(file, items) if file is not None else items.draw(draw or 0, stratify=stratify, seed=seed)
    )
    _say(chosen, f"Next: lookalike pool {folder}", as_json)


@study.command
def votes(
    folder: STUDY,
    file: Annotated[Path, Parameter(help=f"votes, {either(TABLES)}; or with --expert judgements, {JUDGEMENT_FILES}")],
    /,
    *,
    expert: Annotated[str | None, Parameter(help="whose judgements these are, where the file does not say")] = None,
    gold: Annotated[
        bool, Parameter(help="keep the judgements as gold pairs, to test experts with, in place of those before")
    ] = False,
    again: Annotated[bool, Parameter(help="add votes that are there already once more")] = False,
    as_json: JSON = False,
) -> None:
    """Add votes, each once, or keep gold pairs.

    Example: lookalike study votes shop votes.csv

    Example: lookalike study votes shop annotations.json --expert panel
    """
    from lookalike.study.study import Study

    opened = Study.open(folder)
    if gold and again:
        raise InputError("--again is of votes: gold pairs are replaced")
    if gold:
        before = opened.gold()
        replaced = f", in place of the {len(before):,} before" if before is not None else ""
        _say(opened, f"{keep_gold(opened, file):,} gold pairs{replaced}", as_json)
        return
    record = read_votes(opened, file, expert)
    if opened.pool_path.exists():
        gold_pairs = opened.gold()
        record.check([*opened.pool().pairs, *(gold_pairs.pairs if gold_pairs is not None else [])])
    own = int(opened.collection.is_own(*opened.collection.positions(record.pairs)).sum())
    if own:
        remark(f"{own:,} votes are on a query with another image of its own product: metrics leave these pairs out")
    added = opened.append_votes(record, again=again)
    n = len(record) - len(added)
    if as_json:
        print_json(_facts(opened) | {"added": len(added), "there_already": n})
        return
    same = "there already (same query, item, expert, answer and time): --again adds them once more"
    there = f", {n:,} were {same}" if n else ""
    done = f"added {_counted(added)}{there}" if len(added) or not n else f"nothing added, all {n:,} votes were {same}"
    _say(opened, f"{done}; now there are {_counted(opened.votes())}", as_json)


@study.command
def export(
    folder: STUDY,
    what: Annotated[Literal["judgements", "votes", "pool", "catalogue"], Parameter(help="what to write")],
    file: Annotated[
        Path,
        Parameter(help=f"judgements: {JUDGEMENT_FILES}; all others: {either(TABLES)}"),
        Output(),
    ],
    /,
    *,
    rule: RULE = None,
    smoothing: SMOOTHING = None,
    rel: REL = None,
    with_random: RANDOM_TOO = False,
    raw: RAW = False,
    as_json: JSON = False,
) -> None:
    """Write what a study holds to a file that other programs read.

    Example: lookalike study export shop judgements shop.qrels
    """
    from lookalike.study.image_paths import moved_paths

    check_raw(raw, file)
    check_smoothing(smoothing, rule)
    opened = open_judged(folder)
    if what in ("judgements", "votes"):
        how = HowToJudge(rule, smoothing, rel)
        write_export(opened, what, file, how, with_random=with_random, raw=raw)
    elif with_random:
        raise InputError(f"--with-random is for judgements: the {what} is written as it is")
    elif what == "catalogue":
        moved_paths(opened.catalogue, opened.path, file.parent).write(file, raw=raw)
    else:
        opened.pool().save(file, raw=raw)
    _say(opened, f"wrote {file}", as_json)


@study.command
def show(folder: STUDY, /, *, as_json: JSON = False, form: FORMAT = None) -> None:
    """What a study holds: models, pool, votes, how much experts agree, how many positives there are.

    Example: lookalike study show shop
    """
    from lookalike.discovery import agreement, prevalence
    from lookalike.discovery.prevalence import SECONDS, pace

    printed = chosen_format(form, as_json)
    opened = open_judged(folder)
    kinds, problems = _kinds(opened)
    for problem in problems.values():
        remark(problem)
    record = opened.counted_votes()
    pool = opened.pool() if opened.pool_path.exists() else None
    agreed = agreement(record, opened.gold()) if len(record) else None
    positives = None
    if len(record) and pool is not None:
        positives = prevalence(judgements_of(opened, HowToJudge()), pool, seconds=pace(record) or SECONDS)
    experts = [] if agreed is None else agreed.rows()
    facts = {"experts": experts, "prevalence": None if positives is None else positives.to_dict()}
    models = [(name, kinds.get(name) or f"cannot be read: {problems[name]}") for name in opened.models()]
    listed = ResultTable.of(["model", TableHead("kind")], models, notes=(_described(opened),))
    parts = {"pool": pool, "experts": agreed}
    others = [ResultTable.of_rows(part.rows(), title=name) for name, part in parts.items() if part is not None]

    def show_all() -> None:
        console = tables()
        console.print(_described(opened))
        console.print(rich_table(listed))
        console.print(str(pool) if pool is not None else f"no pool yet: lookalike pool {folder}")
        console.print(str(agreed) if agreed is not None else "no votes yet")
        if positives is not None:
            console.print(str(positives))
        if (line := tags_line(tagged)) is not None:
            console.print(line)

    tagged = tags_facts(opened)
    everything = _facts(opened) | facts | {"kinds": kinds, "problems": problems, "tags": tagged}
    tell(printed, lambda: everything, lambda: [listed, *others], show_all)


def _kinds(opened: "Study") -> tuple[dict[str, str], dict[str, str]]:
    """What each model is, and of those that cannot be read, why."""
    from lookalike.study.model import UNREADABLE, unreadable

    kinds, problems = {}, {}
    for name in opened.models():
        try:
            kinds[name] = opened.model(name, mapped=True).kind
        except UNREADABLE as error:
            problems[name] = unreadable(name, error)
    return kinds, problems


def _facts(opened: "Study") -> dict[str, Any]:
    """What a study holds, for other programs."""
    pool = opened.pool() if opened.pool_path.exists() else None
    return {
        "name": opened.name,
        "queries": len(opened.queries),
        "items": len(opened.catalogue),
        "wild": opened.wild,
        "models": opened.models(),
        "pool": None if pool is None else {"k": pool.k, "pairs": len(pool), "models": list(pool.models)},
        "votes": len(opened.votes()),
    }


def _say(opened: "Study", what: str, as_json: bool) -> None:
    """Print what the study holds now, then what was done."""
    if as_json:
        print_json(_facts(opened))
    else:
        tables().print(f"{_described(opened)}\n{what}")


def _described(opened: "Study") -> str:
    """What a study holds, in words."""
    from lookalike.report.numbers import plural

    queries = f"{plural(len(opened.queries), 'query')} from {'elsewhere' if opened.wild else 'the catalogue'}"
    return f"{opened.name}: {queries}, {plural(len(opened.catalogue), 'item')}, {plural(len(opened.models()), 'model')}"


def _counted(votes: "Votes") -> str:
    """How many votes there are, in words."""
    from lookalike.report.numbers import plural

    experts, pairs = len(votes.ballots.experts), len(votes.ballots.queries)
    return f"{plural(len(votes), 'vote')} of {plural(experts, 'expert')} on {plural(pairs, 'pair')}"


def read_catalogue(path: Path) -> "Catalogue":
    """The catalogue of a file."""
    from lookalike.discovery import Catalogue
    from lookalike.discovery.formats import read_metadata

    return read_metadata(path) if path.suffix == ".json" else Catalogue.read(path)


def _with_images(
    everything: "Catalogue", used: "Catalogue", file: Path, images: Path | None, folder: Path
) -> "Catalogue":
    """A catalogue with paths as the study sees them; says which images are missing of those that are used.

    In the released metadata a path is the id of an image, which need not be there unless --images says where.
    """
    from lookalike.study.image_paths import check_images, moved_paths

    if images is not None and not images.is_dir():
        raise FileNotFoundError(f"there is no folder {images}")
    root = file.parent if images is None else images
    missing = check_images(used, root, file, needed=images is not None or file.suffix != ".json")
    if missing is not None:
        remark(missing)
    return moved_paths(everything, root, folder)


def _is_catalogue(path: Path) -> bool:
    """Whether a file of queries describes them; if not, it only names images of the catalogue."""
    from lookalike.core.files import read_json

    if path.suffix != ".json" or not path.is_file():
        return path.suffix in (*TABLES, ".json")
    content = read_json(path.read_bytes(), path)
    return isinstance(content, dict) and "images" in content


def _ids(path: Path, items: "Catalogue") -> "list[str]":
    """The ids of queries in a file: seeds, annotations, a catalogue, or a line each."""
    from lookalike.discovery.formats import read_seeds

    if path.suffix == ".json":
        return [str(name) for name in read_seeds(path, items)]
    if path.suffix in TABLES:
        return [str(name) for name in read_catalogue(path).ids]
    return id_lines(path)
