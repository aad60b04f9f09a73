"""`lookalike judge`: serving a study to experts, and its votes out and in."""

from cyclopts import App

from lookalike.cli.judge.crowd import admit, experts
from lookalike.cli.judge.links import renew, revoke
from lookalike.cli.judge.serve import serve
from lookalike.cli.judge.status import status
from lookalike.cli.judge.votes import export, import_votes

judge = App(
    name="judge",
    help="Let experts judge the pairs of a study in the browser.\n\n"
    "Example: lookalike judge shop --expert ann --expert bob --expert eve",
)
judge.default(serve)
judge.command(status)
judge.command(export)
judge.command(import_votes, name="import")
judge.command(revoke)
judge.command(renew)
judge.command(admit)
judge.command(experts)

__all__ = ["judge"]
