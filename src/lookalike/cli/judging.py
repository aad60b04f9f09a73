"""`lookalike judge`: serving a study to experts, and its votes out and in."""

import contextlib
import difflib
import importlib
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter, validators

from lookalike.cli.looking import ALLOW_HOST, HOST, OPEN, allowed_hosts, open_page
from lookalike.cli.outputs import Output
from lookalike.cli.studies import RAW, STUDY, check_raw, keep_gold, open_judged, read_votes, write_export
from lookalike.cli.terminal import JSON, print_json, remark, table, tables

if TYPE_CHECKING:
    import socket

    from lookalike.judging.store.store import Expert, Store
    from lookalike.judging.store.types import Status
    from lookalike.study.study import Study

DAY = 86_400_000  # ms
NAMES = Annotated[tuple[str, ...], Parameter(help="names of experts", negative=())]

judge = App(
    name="judge",
    help="Let experts judge the pairs of a study in the browser.\n\n"
    "Example: lookalike judge shop --expert ann --expert bob --expert eve",
)

__all__ = ["judge"]


@judge.default
def serve(
    folder: STUDY,
    /,
    *,
    expert: Annotated[
        tuple[str, ...], Parameter(help="someone who judges, and gets a link; may be given several times", negative=())
    ] = (),
    expires: Annotated[
        float | None,
        Parameter(help="days after which the links of these experts end; never by default"),
    ] = None,
    experts_per_pair: Annotated[
        int | None, Parameter(help="how many judge each pair: as before, or 3", validator=validators.Number(gte=1))
    ] = None,
    order: Annotated[
        Literal["depth", "adaptive"] | None,
        Parameter(help="which pairs first: by rank, or those that tell most about the models: as before, or depth"),
    ] = None,
    budget: Annotated[
        int | Literal["all"] | None, Parameter(help="judge so many pairs of the pool: as before, or all")
    ] = None,
    gold: Annotated[
        Path | None, Parameter(help="pairs with known answers to mix in: .qrels, .csv, .parquet or .json")
    ] = None,
    database: Annotated[
        str | None,
        Parameter(help="keep votes in postgresql://USER@HOST/NAME; 'sqlite' goes back to the study's own file"),
    ] = None,
    question: Annotated[str | None, Parameter(help="what experts are asked, in one line")] = None,
    guide: Annotated[
        Path | None, Parameter(help="a text file: how they are to judge, shown at first and with the keys")
    ] = None,
    port: Annotated[
        int | None,
        Parameter(
            help="where the page is: as before, or 8000; 0 takes one that is free",
            validator=validators.Number(gte=0, lte=65535),
        ),
    ] = None,
    host: HOST = "127.0.0.1",
    allow_host: ALLOW_HOST = (),
    address: Annotated[
        str | None,
        Parameter(help="where browsers find it, behind a proxy: https://judge.example; as before; 'none' ends that"),
    ] = None,
    workers: Annotated[int, Parameter(help="processes that serve", validator=validators.Number(gte=1, lte=64))] = 1,
    open_browser: OPEN = None,
    as_json: Annotated[bool, Parameter(name="--json", help="print the links as one line of JSON, then serve")] = False,
) -> None:
    """Serve a study to experts: each judges by a personal link, and every answer is on disk before it is acknowledged.

    Example: lookalike judge shop --expert ann --expert bob --expert eve

    Example: lookalike judge shop --expert ann --order adaptive --budget 2000 --address https://judge.example
    """
    from lookalike.study.study import Study

    study = Study.open(folder)
    _needs_packages("pages.workers")
    from lookalike.judging.pages.workers import Service, Workers
    from lookalike.judging.store.location import remembered_database
    from lookalike.web.server import listen

    if study.catalogue.paths is None or study.queries.paths is None:
        raise ValueError("experts would see nothing: the catalogue has no column path, which says where the images are")
    _check_images(study)
    _names(address, host, allow_host)  # refused before anything is written
    text = None if guide is None else _text(guide)
    if gold is not None:
        keep_gold(study, gold)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(KeyboardInterrupt))  # Ctrl-C is how it ends
        with _opened(study, database) as store:
            _configure(store, experts_per_pair, order, budget)
            store.brief(question, text)
            before = store.served()
            address = before[0] if address is None else None if address == "none" else address.rstrip("/")
            hosts, secure = _names(address, host, allow_host)
            listening = stack.enter_context(listen(host, port if port is not None else before[1] or 8000))
            found = address or f"http://{hosts[0]}:{listening.getsockname()[1]}"
            if port != 0 or before == (None, None):  # another server beside it takes a free one, and goes
                store.remember_served(address, listening.getsockname()[1])
            links = _links(store, study, expert, expires, found)
            status = store.status()
        service = Service(str(study.path), remembered_database(study), hosts, secure)
        started = stack.enter_context(Workers(service, listening, workers)) if workers > 1 else None
        if as_json:
            _say_json(found, links, started.pids if started else None)
        else:
            _say(study, found, links, status)
        open_page(links["organiser"], open_browser)
        _run(service, listening) if started is None else started.watch()


@judge.command
def status(folder: STUDY, /, *, as_json: JSON = False) -> None:
    """How far the judging of a study is: coverage, agreement, experts, images that did not load.

    Example: lookalike judge status shop
    """
    from lookalike.discovery import agreement, coverage
    from lookalike.study.study import Study

    study = Study.open(folder)
    _needs_packages()
    with _opened(study) as store:
        found, votes, wrong = store.status(), store.votes(), store.check()
    covered = coverage(votes, study.pool()) if study.pool_path.exists() else None
    agreed = agreement(votes, study.gold()) if len(votes) else None
    if as_json:
        facts = asdict(found) | {
            "coverage": None if covered is None else covered.to_dict(),
            "agreement": None if agreed is None else agreed.to_dict(),
            "wrong": wrong,
        }
        print_json(facts)
        return
    say = tables().print
    say(f"{study.name}: {_progress(found)}; votes are kept in {found.database}")
    say(f"no pool yet: lookalike pool {folder}" if covered is None else str(covered))
    say(_expert_table(found))
    if agreed is not None:
        say(f"\n{agreed}")
    for image in found.missing:
        say(f"{image['expert']} could not see the {image['side']} of {image['query']} and {image['item']}")
    for sentence in wrong:
        remark(f"the database is not whole: {sentence}")


@judge.command
def export(
    folder: STUDY,
    file: Annotated[Path, Parameter(help="every vote: .csv or .parquet; or judgements: .qrels or .json"), Output()],
    /,
    *,
    rule: Annotated[
        Literal["majority", "unanimous", "dawid-skene"] | None,
        Parameter(help="how votes become judgements: majority by default"),
    ] = None,
    raw: RAW = False,
    as_json: JSON = False,
) -> None:
    """Write every vote with its expert, or the judgements that a rule makes of them.

    Example: lookalike judge export shop votes.csv

    Example: lookalike judge export shop judged.qrels --rule unanimous
    """
    what = {".csv": "votes", ".parquet": "votes", ".qrels": "judgements", ".json": "judgements"}.get(file.suffix)
    if what is None:
        raise ValueError(f"cannot write {file}: votes go to .csv or .parquet, judgements to .qrels or .json")
    if what == "votes" and rule is not None:
        raise ValueError("--rule is for judgements, .qrels or .json: votes are written as they are")
    check_raw(raw, file)
    n = write_export(open_judged(folder), what, file, rule or "majority", raw=raw)
    if as_json:
        print_json({"file": str(file), "what": what, "rows": n})
    else:
        tables().print(f"wrote {n:,} {what} to {file}")


@judge.command(name="import")
def import_votes(
    folder: STUDY,
    file: Annotated[
        Path, Parameter(help="votes, .csv or .parquet; or judgements: .qrels, .csv or .json, with --expert")
    ],
    /,
    *,
    expert: Annotated[str | None, Parameter(help="whose judgements these are, where the file does not say")] = None,
    add_experts: Annotated[bool, Parameter(help="let experts judge here whom the study does not know yet")] = False,
    as_json: JSON = False,
) -> None:
    """Add votes that were made elsewhere, all or none; those that are there already are not added again.

    Example: lookalike judge import shop votes.csv --add-experts
    """
    from lookalike.study.study import Study

    study = Study.open(folder)
    _needs_packages()
    votes = read_votes(study, file, expert)
    with _opened(study) as store:
        try:
            found = store.import_votes(votes, add_experts=add_experts)
        except ValueError as error:
            raise ValueError(str(error).replace("add_experts=True", "--add-experts")) from error
    if as_json:
        print_json(asdict(found))
        return
    beyond = f"; {found.beyond:,} are on pairs that had enough experts, and count too" if found.beyond else ""
    tables().print(f"{found.added:,} votes were added, {found.known:,} were there already{beyond}")


@judge.command
def revoke(
    folder: STUDY,
    names: NAMES = (),
    /,
    *,
    organiser: Annotated[bool, Parameter(help="the organiser's link too: the next start prints a new one")] = False,
    as_json: JSON = False,
) -> None:
    """Take back the links of experts, at once; their votes stay, and pairs in their hands go to others.

    Example: lookalike judge revoke shop bob
    """
    from lookalike.study.study import Study

    if not names and not organiser:
        raise ValueError("say whose link is taken back: a name, or --organiser")
    study = Study.open(folder)
    _needs_packages()
    with _opened(study) as store:
        for name in names:
            _known(store, name)
        for name in names:
            store.revoke(name)
        if organiser:
            store.renew_organiser()
    gone = [*names, *["the organiser"] * organiser]
    if as_json:
        print_json({"revoked": gone})
    else:
        tables().print(f"taken back: the link of {', '.join(gone)}")


@judge.command
def renew(
    folder: STUDY,
    names: NAMES,
    /,
    *,
    expires: Annotated[float | None, Parameter(help="days after which the links end; never by default")] = None,
    address: Annotated[str | None, Parameter(help="where browsers find it; as it was served last by default")] = None,
    as_json: JSON = False,
) -> None:
    """Give experts new links, which make their old ones worthless.

    Example: lookalike judge renew shop bob --expires 14
    """
    from lookalike.study.study import Study

    study = Study.open(folder)
    _needs_packages()
    from lookalike.judging.pages.links import Keys
    from lookalike.judging.pages.sessions import expert_link

    keys = Keys.of(study.path)
    with _opened(study) as store:
        before, port = store.served()
        if port is None and address is None:
            raise ValueError("the study was never served: say where browsers will find it, with --address")
        found = address or before or f"http://127.0.0.1:{port}"
        for name in names:
            _known(store, name)
        links = {name: expert_link(keys, store.renew(name, _moment(expires)), found) for name in names}
    if as_json:
        print_json({"experts": links})
    else:
        tables().print(_link_lines(links))


def _needs_packages(part: Literal["pages.workers", "store.store"] = "store.store") -> None:
    """Raise where packages are missing that this part of judging needs."""
    try:
        importlib.import_module(f"lookalike.judging.{part}")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"judging needs {error.name}, which is not installed: pip install 'lookalike[judge]'"
        ) from error


@contextlib.contextmanager
def _opened(study: "Study", database: str | None = None) -> Iterator["Store"]:
    """The store of a study; what goes wrong with its database is said like any other error."""
    from lookalike.judging.store.location import forget_database
    from lookalike.judging.store.store import Store, StoreAwayError, StoreFullError

    if database is not None and database != "sqlite" and not database.startswith(("postgresql://", "postgres://")):
        raise ValueError("--database must be like postgresql://USER@HOST/NAME, or sqlite for the study's own file")
    try:
        if database == "sqlite":
            with Store.open(None, study) as before:
                before.copy_votes(study)
            forget_database(study)
            database = None
        with Store.open(database, study) as store:
            yield store
    except (StoreAwayError, StoreFullError) as error:
        raise ConnectionError(str(error)) from error


def _configure(store: "Store", experts_per_pair: int | None, order: str | None, budget: int | str | None) -> None:
    """Settings that were given, and for all others those of before."""
    settings: dict[str, Any] = dict(store.status().settings)
    given = {"experts_per_pair": experts_per_pair, "order": order, "budget": budget}
    settings |= {name: value for name, value in given.items() if value is not None}
    if settings["budget"] == "all":
        settings["budget"] = None
    elif settings["budget"] is not None and settings["budget"] < 1:
        raise ValueError(f"--budget must be a number of pairs from 1, or all, got {settings['budget']}")
    store.configure(**settings)


def _text(path: Path) -> str:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        return path.read_text(encoding="utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text in UTF-8: {error}") from error


def _names(address: str | None, host: str, allow_host: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """The names it answers to, and whether browsers come by https."""
    from urllib.parse import urlsplit

    hosts = allowed_hosts(host, allow_host)
    if address is None or address == "none":
        return hosts, False
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise ValueError(f"--address must be like https://judge.example, with no path, got {address!r}")
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return (*hosts, name), parts.scheme == "https"


def _links(
    store: "Store", study: "Study", names: tuple[str, ...], expires: float | None, address: str
) -> dict[str, Any]:
    """The organiser's link and those of experts, by name."""
    from lookalike.judging.pages.links import Keys
    from lookalike.judging.pages.sessions import expert_link, organiser_link

    keys, until = Keys.of(study.path), _moment(expires)
    for name in names:
        store.add_expert(name, until)
    links = {}
    for one in store.experts():
        if one.name in names and one.revoked is not None:
            remark(f"the link of {one.name} was taken back: lookalike judge renew {study.path.name} {one.name}")
        elif one.revoked is None and (not names or one.name in names):
            links[one.name] = expert_link(keys, one, address)
    return {"organiser": organiser_link(keys, store.organiser(), address), "experts": links}


def _known(store: "Store", name: str) -> "Expert":
    found = store.expert(name)
    if found is None:
        there = {expert.name.casefold(): expert.name for expert in store.experts()}
        near = [there[close] for close in difflib.get_close_matches(name.casefold(), there, 1)]
        hint = (
            f"did you mean {near[0]}?" if near else f"there is {', '.join(list(there.values())[:10]) or 'nobody yet'}"
        )
        raise ValueError(f"there is no expert {name!r} in this study: {hint}")
    return found


def _moment(days: float | None) -> int | None:
    """So many days from now, in milliseconds since 1970."""
    if days is None:
        return None
    if not 0 < days <= 36_500:
        raise ValueError(f"--expires takes days, more than 0 and up to 36,500, got {days:g}")
    return int(time.time() * 1000 + days * DAY)


def _run(service: Any, listening: "socket.socket") -> None:
    from lookalike.judging.store.store import StoreAwayError, StoreFullError

    try:
        service.run(listening)
    except (StoreAwayError, StoreFullError) as error:
        raise ConnectionError(str(error)) from error


def _check_images(study: "Study") -> None:
    """Say which images of the pool are not there, before an expert finds out."""
    pool = study.pool()
    wanted = [
        (catalogue, position)
        for catalogue, positions in ((study.queries, pool.queries), (study.catalogue, pool.items))
        for position in sorted(set(positions.tolist()))
    ]
    paths = dict.fromkeys(
        study.path / str(catalogue.paths[position]) for catalogue, position in wanted if catalogue.paths is not None
    )
    gone = [path for path in paths if not path.is_file()]
    if gone:
        remark(f"{len(gone):,} of {len(paths):,} images of the pool are missing, such as {gone[0]}")


def _say(study: "Study", address: str, links: dict[str, Any], found: "Status") -> None:
    from lookalike.web.guard import LOOPBACK, host_of

    say = tables().print
    settings = found.settings
    say(f"{study.name} is judged at {address} (Ctrl-C ends it)")
    say(f"{_progress(found)}, {settings['experts_per_pair']} a pair, in the order of {settings['order']}")
    say(f"\nthe organiser's page, for you alone:\n{links['organiser']}")
    if links["experts"]:
        say(f"\nfor each expert, a link of their own:\n{_link_lines(links['experts'])}")
    if not links["experts"]:
        say("nobody judges yet: add experts with --expert NAME, or on the organiser's page")
    if address.startswith("http://") and host_of(address.partition("//")[2]) not in LOOPBACK:
        remark("links and answers travel unencrypted: put it behind https before it leaves your network")


def _say_json(address: str, links: dict[str, Any], pids: list[int] | None) -> None:
    import os

    tables().print(json.dumps({"address": address, **links, "workers": pids or [os.getpid()]}))


def _link_lines(links: dict[str, str]) -> str:
    """A line for each link, whole however long it is."""
    width = max(map(len, links))
    return "\n".join(f"{name:{width}}  {link}" for name, link in links.items())


def _expert_table(found: "Status") -> Any:
    now = time.time() * 1000
    made = table(("judged", ""), ("in hand", ""), ("later", ""), ("last vote", ""), ("link", ""), first="expert")
    for row in found.experts:
        if row["revoked"] is not None:
            link = "taken back"
        else:
            link = "open" if row["expires"] is None or int(row["expires"]) > now else "expired"
        last = "–" if row["last"] is None else _ago((now - int(row["last"])) / 1000)
        made.add_row(str(row["name"]), f"{row['done']:,}", f"{row['held']:,}", f"{row['later']:,}", last, link)
    return made


def _progress(found: "Status") -> str:
    share = found.everybody_done / found.everybody_total if found.everybody_total else math.nan
    percent = "" if math.isnan(share) else f" ({share:.1%})"
    pool = f" of the {found.in_pool:,} of the pool" if found.to_judge < found.in_pool else ""
    gold = f" and {found.gold:,} gold pair{'s' * (found.gold != 1)}" if found.gold else ""
    done = f"{found.everybody_done:,} of {found.everybody_total:,} answers{percent}"
    return f"{done} to {found.to_judge:,} pairs{pool}{gold}"


def _ago(seconds: float) -> str:
    """How long ago, roughly.

    >>> _ago(30), _ago(150), _ago(9000), _ago(400_000)
    ('just now', '2 min ago', '2 h ago', '4 days ago')
    """
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min ago"
    return f"{seconds // 3600:.0f} h ago" if seconds < 2 * 86_400 else f"{seconds // 86_400:.0f} days ago"
