"""`lookalike judge revoke` and `renew`: the links of experts; and what a link is shown as."""

import time
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from lookalike.cli.judge.store import needs_packages, open_store
from lookalike.cli.options import JSON, STUDY
from lookalike.cli.terminal import print_json, tables
from lookalike.core.errors import InputError, StudyError

if TYPE_CHECKING:
    from lookalike.judging.store.store import Store

DAY = 86_400_000  # ms
NAMES = Annotated[tuple[str, ...], Parameter(help="names of experts", negative=())]

__all__ = ["NAMES", "check_expert", "link_lines", "moment", "renew", "revoke"]


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
        raise InputError("say whose link is taken back: a name, or --organiser")
    study = Study.open(folder)
    needs_packages()
    with open_store(study) as store:
        for name in names:
            check_expert(store, name)
        for name in names:
            store.revoke(name)
        if organiser:
            store.renew_organiser()
    revoked = [*names, *["the organiser"] * organiser]
    if as_json:
        print_json({"revoked": revoked})
    else:
        tables().print(f"taken back: the link of {', '.join(revoked)}")


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
    needs_packages()
    from lookalike.judging.pages.links import Keys
    from lookalike.judging.pages.sessions import expert_link

    keys = Keys.of(study.path)
    with open_store(study) as store:
        before, port = store.served()
        if port is None and address is None:
            raise StudyError("the study was never served: say where browsers will find it, with --address")
        base = address or before or f"http://127.0.0.1:{port}"
        for name in names:
            check_expert(store, name)
        links = {name: expert_link(keys, store.renew(name, moment(expires)), base) for name in names}
    if as_json:
        print_json({"experts": links})
    else:
        tables().print(link_lines(links))


def check_expert(store: "Store", name: str) -> None:
    """Raise where the study has no expert of this name; the error says who there is."""
    from lookalike.core.checks import nearest

    if store.expert(name) is not None:
        return
    experts = [expert.name for expert in store.experts()]
    similar = nearest(name, experts, cutoff=0.6)
    hint = f"there is {', '.join(experts[:10]) or 'nobody yet'}" if similar is None else f"did you mean {similar}?"
    raise StudyError(f"there is no expert {name!r} in this study: {hint}")


def moment(days: float | None) -> int | None:
    """So many days from now, in milliseconds since 1970."""
    if days is None:
        return None
    if not 0 < days <= 36_500:
        raise InputError(f"--expires takes days, more than 0 and up to 36,500, got {days:g}")
    return int(time.time() * 1000 + days * DAY)


def link_lines(links: dict[str, str]) -> str:
    """A line for each link, whole however long it is."""
    width = max(map(len, links))
    return "\n".join(f"{name:{width}}  {link}" for name, link in links.items())
