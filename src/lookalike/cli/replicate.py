"""`lookalike replicate`."""

import math
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from lookalike.cli.options import FORMAT, JSON, chosen_format
from lookalike.cli.outputs import Output
from lookalike.cli.terminal import progress, prose, say_how_to_open, table, tables, tell

if TYPE_CHECKING:
    from lookalike.core.tables.table import ResultTable
    from lookalike.experiments.claims import MeasuredNumber, PaperClaim
    from lookalike.experiments.replicate import Replication

WIDTH = 24  # of the longest name

__all__ = ["replicate"]


def replicate(
    names: Annotated[tuple[str, ...], Parameter(help="claims to try again; by default all")] = (),
    /,
    *,
    list_claims: Annotated[bool, Parameter(name="--list", help="show the claims, and try none")] = False,
    budget: Annotated[
        Literal["quick", "full"], Parameter(help="quick: minutes in all, on small parts of the data; full: hours")
    ] = "quick",
    results: Annotated[
        Path,
        Parameter(help="a folder for the result of each claim; what is there already is not tried again"),
        Output(folder=True),
    ] = Path("lookalike-replication"),
    again: Annotated[bool, Parameter(help="try claims again whose results are there")] = False,
    report: Annotated[Path | None, Parameter(help="write a page with all numbers and charts"), Output(".html")] = None,
    as_json: JSON = False,
    form: FORMAT = None,
) -> None:
    """Try the claims of the papers again on real data, and say of each whether it holds.

    Example: lookalike replicate --budget quick --report replication.html

    Example: lookalike replicate pool-bias dispersion
    """
    from lookalike.experiments.replicate import choose
    from lookalike.experiments.replicate import replicate as try_again

    printed = chosen_format(form, as_json)
    claims = choose(names)
    if list_claims:
        _list(claims, printed)
        return
    if report is not None:
        from lookalike.report import check_installed

        check_installed()
    with progress():
        found = try_again(claims, budget, results, again=again, watch=_line if printed == "table" else None)
    if report is not None:
        from lookalike.report.replication import write_replication

        write_replication(found, report)

    def show() -> None:
        if names:
            for claim, result in zip(claims, found, strict=True):
                _detail(claim, result)
        _summary(found, results)
        if report is not None:
            say_how_to_open(report)

    tell(printed, lambda: [result.to_dict() for result in found], lambda: _tables(found), show)


def _tables(found: "list[Replication]") -> "list[ResultTable]":
    """A row for each claim with its verdict, and a row for each number."""
    from lookalike.core.tables.table import ResultTable

    verdicts = [
        {"claim": r.claim, "verdict": r.verdict, "parts seen": sum(check.held for check in r.checks),
         "parts": len(r.checks), "seconds": r.seconds, "why": r.why} for r in found
    ]  # fmt: skip
    columns = ("value", "from", "to", "printed")
    numbers = [
        {"claim": result.claim, "number": number.name, **dict(zip(columns, _values(number), strict=True))}
        for result in found
        for number in result.numbers
    ]
    return [ResultTable.of_rows(verdicts), *([ResultTable.of_rows(numbers, title="Numbers")] if numbers else [])]


def _list(claims: "list[PaperClaim]", printed: str) -> None:
    """Print the claims without trying them."""
    from lookalike.core.tables.table import ResultTable

    names = ("name", "title", "paper", "place", "says", "protocol", "data", "criterion", "settings")
    facts = [{fact: getattr(claim, fact) for fact in names} for claim in claims]
    tell(printed, lambda: facts, lambda: [ResultTable.of_rows(facts, names[:4])], lambda: _show_list(claims))


def _show_list(claims: "list[PaperClaim]") -> None:
    """Print the claims of each paper."""
    for paper, of_paper in groupby(claims, key=lambda claim: claim.paper):
        tables().print(f"\n{paper}")
        for claim in of_paper:
            tables().print(f"  {claim.name:{WIDTH}}{claim.title} ({claim.place})")


def _line(result: "Replication") -> None:
    """Print one verdict as soon as it is there."""
    seen = f"{sum(check.held for check in result.checks)} of {len(result.checks)} parts" if result.checks else "–"
    time = "from before" if result.kept else f"{result.seconds:.1f} s"
    why = f"  {result.why}" if result.why else ""
    tables().print(f"{result.claim:{WIDTH}}{result.verdict:22}{seen:>16}{time:>14}{why}")


def _detail(claim: "PaperClaim", result: "Replication") -> None:
    """Print what a claim says, which parts of it were seen, and the numbers."""
    say = prose().print
    say(f"\n{claim.title}\n{claim.paper}, {claim.place}: {claim.says}\n\n{claim.protocol} Data: {claim.data}. "
        f"It holds where: {claim.criterion}\n\nIt {result.verdict}{': ' * bool(result.why)}{result.why}.")  # fmt: skip
    for check in result.checks:
        say(f"  {'yes' if check.held else 'no '}  {check.sentence}")
    if not result.numbers:
        return
    rows = table(("value", "bold"), ("from", ""), ("to", ""), ("printed", ""), first="number")
    for number in result.numbers:
        rows.add_row(number.name, *map(_shown, _values(number)))
    tables().print(rows)


def _values(number: "MeasuredNumber") -> tuple[float, float, float, float]:
    return number.value, number.low, number.high, number.printed


def _shown(value: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _summary(found: "list[Replication]", results: Path) -> None:
    """Print how many claims hold, and where the results are."""
    from lookalike.experiments.claims import VERDICTS

    counts = {verdict: sum(result.verdict == verdict for result in found) for verdict in VERDICTS}
    several = {"holds": "hold", "holds in part": "hold in part", "does not hold": "do not hold"}
    told = ", ".join(
        f"{count} {several.get(verdict, verdict) if count > 1 else verdict}"
        for verdict, count in counts.items()
        if count
    )
    seconds = sum(result.seconds for result in found if not result.kept)
    tables().print(f"\nOf {len(found)} claims: {told}. {seconds:,.0f} seconds. Results are in {results}/")
