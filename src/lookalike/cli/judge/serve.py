"""`lookalike judge STUDY`: a study is served to experts."""

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, validators

from lookalike.cli.browser import allowed_hosts, open_page
from lookalike.cli.judge.crowd import CROWD, NOTHING_SAID, PASS, PRACTICE, set_crowd, set_practice_of
from lookalike.cli.judge.links import link_lines, moment
from lookalike.cli.judge.status import progress_of, warn_of_too_few_experts
from lookalike.cli.judge.store import needs_packages, open_store
from lookalike.cli.options import ALLOW_HOST, HOST, OPEN, STUDY
from lookalike.cli.studies import read_gold
from lookalike.cli.terminal import remark, tables
from lookalike.core.endings import JUDGEMENT_FILES
from lookalike.core.errors import FileError, InputError, StudyError

if TYPE_CHECKING:
    import socket

    from lookalike.judging.pages.workers import Service, Workers
    from lookalike.judging.store.store import Store
    from lookalike.judging.store.types import Status
    from lookalike.study.study import Study

EXPERT = Annotated[
    tuple[str, ...], Parameter(help="someone who judges, and gets a link; may be given several times", negative=())
]
EXPIRES = Annotated[float | None, Parameter(help="days after which the links of these experts end; never by default")]
EXPERTS_PER_PAIR = Annotated[
    int | Literal["all"] | None,
    Parameter(help="how many judge each pair, or all, also those who come later: as before, or 3"),
]
SCALE = Annotated[
    str | None,
    Parameter(
        help='answers in 2 to 5 steps, "0 not alike, 1 related, 2 alike": as before; it stays once there are votes'
    ),
]
ORDER = Annotated[
    Literal["depth", "adaptive"] | None,
    Parameter(help="which pairs first: by rank, or those that tell most about the models: as before, or depth"),
]
BUDGET = Annotated[int | Literal["all"] | None, Parameter(help="judge so many pairs of the pool: as before, or all")]
GOLD = Annotated[Path | None, Parameter(help=f"pairs with known answers to mix in: {JUDGEMENT_FILES}")]
DATABASE = Annotated[
    str | None,
    Parameter(help="keep votes in postgresql://USER@HOST/NAME; 'sqlite' goes back to the study's own file"),
]
QUESTION = Annotated[str | None, Parameter(help="what experts are asked, in one line")]
GUIDE = Annotated[Path | None, Parameter(help="a text file: how they are to judge, shown at first and with the keys")]
LAYOUT = Annotated[
    Literal["pairs", "sheet"] | None,
    Parameter(help="show pairs one after the other, or a query with all its candidates: as before, or pairs"),
]
SHEET_SIZE = Annotated[
    int | None,
    Parameter(help="candidates on a sheet, at most: as before, or 12", validator=validators.Number(gte=2, lte=24)),
]
PORT = Annotated[
    int | None,
    Parameter(
        help="where the page is: as before, or 8000; 0 takes one that is free",
        validator=validators.Number(gte=0, lte=65535),
    ),
]
ADDRESS = Annotated[
    str | None,
    Parameter(help="where browsers find it, behind a proxy: https://judge.example; as before; 'none' ends that"),
]
WORKERS = Annotated[int, Parameter(help="processes that serve", validator=validators.Number(gte=1, lte=64))]
LINKS_AS_JSON = Annotated[bool, Parameter(name="--json", help="print the links as one line of JSON, then serve")]

__all__ = ["serve"]


def serve(
    folder: STUDY,
    /,
    *,
    expert: EXPERT = (),
    expires: EXPIRES = None,
    experts_per_pair: EXPERTS_PER_PAIR = None,
    scale: SCALE = None,
    order: ORDER = None,
    budget: BUDGET = None,
    gold: GOLD = None,
    database: DATABASE = None,
    question: QUESTION = None,
    guide: GUIDE = None,
    layout: LAYOUT = None,
    sheet_size: SHEET_SIZE = None,
    practice: PRACTICE = None,
    pass_share: PASS = None,
    crowd: CROWD = NOTHING_SAID,
    port: PORT = None,
    host: HOST = "127.0.0.1",
    allow_host: ALLOW_HOST = (),
    address: ADDRESS = None,
    workers: WORKERS = 1,
    open_browser: OPEN = None,
    as_json: LINKS_AS_JSON = False,
) -> None:
    """Serve a study to experts: each judges by a personal link, and every answer is on disk before it is acknowledged.

    Example: lookalike judge shop --expert ann --expert bob --expert eve

    Example: lookalike judge shop --expert ann --order adaptive --budget 2000 --address https://judge.example
    """
    study = _study_with_images(folder)
    doors = _Doors(host, port, allow_host, address)
    doors.names(address)  # refused before anything is written
    text = None if guide is None else _guide(guide, study)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(KeyboardInterrupt))  # Ctrl-C is how it ends
        with open_store(study, database) as store:
            _set_answers(store, scale, gold, new_practice=practice is not None)
            _configure(store, experts_per_pair, order, budget)
            store.brief(question, text)
            _set_layout(store, layout, sheet_size)
            set_practice_of(store, study, practice, pass_share)
            set_crowd(store, crowd)
            site = _open_site(store, doors, stack)
            links = _links(store, study, expert, expires, site.address)
            status = store.status()
        if "open" not in links:
            warn_of_too_few_experts(status)
        service, started = _start(study, site, workers, stack)
        if as_json:
            _say_json(site.address, links, started.pids if started else None)
        else:
            _say(study, site.address, links, status)
        open_page(links["organiser"], open_browser)
        service.run(site.listening) if started is None else started.watch()


def _study_with_images(folder: Path) -> "Study":
    """A study that experts can judge: they see images."""
    from lookalike.study.study import Study

    study = Study.open(folder)
    needs_packages("pages.workers")
    if study.catalogue.paths is None or study.queries.paths is None:
        raise StudyError("experts would see nothing: the catalogue has no column path, which says where the images are")
    _check_images(study)
    return study


@dataclass(frozen=True)
class _Doors:
    """Where the pages are to be, as the options say it."""

    host: str
    port: int | None
    allow_host: tuple[str, ...]
    address: str | None

    def names(self, address: str | None) -> tuple[tuple[str, ...], bool]:
        """The names that the pages answer to, and whether browsers come by https."""
        from urllib.parse import urlsplit

        hosts = allowed_hosts(self.host, self.allow_host)
        if address is None or address == "none":
            return hosts, False
        try:
            parts = urlsplit(address)
        except ValueError:  # such as a bracket without its twin
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
            raise InputError(f"--address must be like https://judge.example, with no path, got {address!r}")
        name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return (*hosts, name), parts.scheme == "https"


@dataclass(frozen=True)
class _Site:
    """Where the pages are: a socket, the address for browsers, the names it answers to, and whether it is https."""

    listening: "socket.socket"
    address: str
    hosts: tuple[str, ...]
    secure: bool


def _open_site(store: "Store", doors: _Doors, stack: contextlib.ExitStack) -> _Site:
    """Listen where the options say, or else where it was served before; the store remembers where."""
    from lookalike.web.server import listen

    before_address, before_port = store.served()
    if doors.address is None:
        address = before_address
    else:
        address = None if doors.address == "none" else doors.address.rstrip("/")
    hosts, secure = doors.names(address)
    listening = stack.enter_context(listen(doors.host, doors.port if doors.port is not None else before_port or 8000))
    port = listening.getsockname()[1]
    never_served = before_address is None and before_port is None
    if doors.port != 0 or never_served:  # another server beside it takes a free one, and goes
        store.remember_served(address, port)
    return _Site(listening, address or f"http://{hosts[0]}:{port}", hosts, secure)


def _start(
    study: "Study", site: _Site, workers: int, stack: contextlib.ExitStack
) -> tuple["Service", "Workers | None"]:
    """What is served, and the processes that serve it where they are several."""
    from lookalike.judging.pages.workers import Service, Workers
    from lookalike.judging.store.location import remembered_database

    service = Service(str(study.path), remembered_database(study), site.hosts, site.secure)
    return service, stack.enter_context(Workers(service, site.listening, workers)) if workers > 1 else None


def _set_answers(store: "Store", scale: str | None, gold: Path | None, *, new_practice: bool) -> None:
    """Set the scale and the gold pairs, which have grades of it: both, or none."""
    from lookalike.discovery import Scale
    from lookalike.judging.store.scale import set_scale, stored_scale

    chosen = stored_scale(store) if scale is None else Scale.parse(scale)
    pairs = None if gold is None else read_gold(store.study, gold, chosen)
    set_scale(store, chosen, new_gold=pairs is not None, new_practice=new_practice)
    if pairs is not None:
        store.study.set_gold(pairs)


def _configure(store: "Store", experts_per_pair: int | str | None, order: str | None, budget: int | str | None) -> None:
    """Set what the options say; all else stays as it was."""
    settings: dict[str, Any] = dict(store.status().settings)
    options = {"experts_per_pair": experts_per_pair, "order": order, "budget": budget}
    settings |= {name: value for name, value in options.items() if value is not None}
    if settings["budget"] == "all":
        settings["budget"] = None
    elif settings["budget"] is not None and settings["budget"] < 1:
        raise InputError(f"--budget must be a number of pairs from 1, or all, got {settings['budget']}")
    if settings["experts_per_pair"] != "all" and settings["experts_per_pair"] < 1:
        raise InputError(f"--experts-per-pair must be a number from 1, or all, got {settings['experts_per_pair']}")
    store.configure(**settings)


def _set_layout(store: "Store", layout: Literal["pairs", "sheet"] | None, sheet_size: int | None) -> None:
    """Set how pages show pairs; a size without sheets is a mistake."""
    from lookalike.judging.store.sheets import read_layout, set_layout

    if sheet_size is not None and (layout or read_layout(store).name) != "sheet":
        raise InputError("--sheet-size is for sheets, and pairs are shown one after the other: add --layout sheet")
    set_layout(store, layout, sheet_size)


def _guide(path: Path, study: "Study") -> str:
    """The text of a guide, whose images the study has."""
    from lookalike.judging.pages.guide import check_guide

    text = _text(path)
    check_guide(text, study, str(path))
    return text.strip()


def _text(path: Path) -> str:
    """The text of a file in UTF-8."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(f"{path} is not a text in UTF-8: {error}", path=path) from error


def _links(
    store: "Store", study: "Study", names: tuple[str, ...], expires: float | None, address: str
) -> dict[str, Any]:
    """The organiser's link and those of experts, by name."""
    from lookalike.judging.pages.links import Keys
    from lookalike.judging.pages.sessions import expert_link, open_link, organiser_link
    from lookalike.judging.store.crowd import crowd_link, crowd_members

    keys, until = Keys.of(study.path), moment(expires)
    for name in names:
        store.add_expert(name, until)
    links, crowd, number = {}, {member.expert for member in crowd_members(store)}, crowd_link(store)
    for judge in store.experts():
        if judge.name in crowd and judge.name not in names:
            continue
        if judge.name in names and judge.revoked is not None:
            remark(f"the link of {judge.name} was taken back: lookalike judge renew {study.path.name} {judge.name}")
        elif judge.revoked is None and (not names or judge.name in names):
            links[judge.name] = expert_link(keys, judge, address)
    anybody = {} if number is None else {"open": open_link(keys, number, address)}
    return {"organiser": organiser_link(keys, store.organiser(), address), "experts": links} | anybody


def _check_images(study: "Study") -> None:
    """Say which images of the pool are not there, before an expert finds out."""
    pool = study.pool()
    in_pool = [
        (catalogue, position)
        for catalogue, positions in ((study.queries, pool.queries), (study.catalogue, pool.items))
        for position in sorted(set(positions.tolist()))
    ]
    paths = dict.fromkeys(
        study.path / str(catalogue.paths[position]) for catalogue, position in in_pool if catalogue.paths is not None
    )
    missing = [path for path in paths if not path.is_file()]
    if missing:
        remark(f"{len(missing):,} of {len(paths):,} images of the pool are missing, such as {missing[0]}")


def _say(study: "Study", address: str, links: dict[str, Any], status: "Status") -> None:
    """Print where the study is judged, how far it is, and every link."""
    from lookalike.discovery.scale import BINARY
    from lookalike.web.guard import LOOPBACK, host_of

    say = tables().print
    settings = status.settings
    say(f"{study.name} is judged at {address} (Ctrl-C ends it)")
    each = "all experts" if settings["experts_per_pair"] == "all" else settings["experts_per_pair"]
    say(f"{progress_of(status)}, {each} a pair, in the order of {settings['order']}")
    if status.scale != str(BINARY):
        say(f"answers: {status.scale}")
    say(f"\nthe organiser's page, for you alone:\n{links['organiser']}")
    if links["experts"]:
        say(f"\nfor each expert, a link of their own:\n{link_lines(links['experts'])}")
    if "open" in links:
        say(f"\none link for all, by which anybody may judge:\n{links['open']}")
    elif not links["experts"]:
        say("nobody judges yet: add experts with --expert NAME, or on the organiser's page")
    if address.startswith("http://") and host_of(address.partition("//")[2]) not in LOOPBACK:
        remark("links and answers travel unencrypted: put it behind https before it leaves your network")


def _say_json(address: str, links: dict[str, Any], pids: list[int] | None) -> None:
    """Print the address, the links and the processes as one line of JSON."""
    import os

    tables().print(json.dumps({"address": address, **links, "workers": pids or [os.getpid()]}))
