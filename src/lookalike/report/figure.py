"""A figure: panels of charts with a heading, a reading aid, a text alternative, and the data as a table."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lookalike.report.html import text
from lookalike.report.vega import Spec

__all__ = ["Figure", "FigurePanel"]


@dataclass(frozen=True)
class FigurePanel:
    """One chart and its title."""

    title: str  # HTML
    told: str  # the text alternative
    spec: Spec | None  # None where no value is known
    of: Mapping[str, int] = field(default_factory=dict)  # what it is of, for the page's script: {"hasher": 3}
    hidden: bool = False  # until the reader chooses it


@dataclass(frozen=True)
class Figure:
    """Charts that answer one question."""

    name: str
    short: str  # in the page's menu
    heading: str
    reading: str  # HTML
    panels: list[FigurePanel]
    table: str
    least: str = "15rem"  # width of a panel
    most: int = 4  # panels in a row
    small: bool = False  # panels for two in a row on a phone
    controls: str = ""  # HTML over the panels

    def html(self) -> str:
        """The figure; its charts are drawn by the page's script."""
        panels = "".join(self._panel(number, panel) for number, panel in enumerate(self.panels))
        return (
            f'<section id="{self.name}"><figure role="group" aria-labelledby="{self.name}-heading">'
            f'<h2 id="{self.name}-heading">{self.heading}</h2><figcaption>{self.reading}</figcaption>{self.controls}'
            f'<div class="panels {"small" if self.small else ""}" style="--least:{self.least};--most:{self.most}">'
            f'{panels}</div><details class="data"><summary>The numbers</summary><div class="scroll" tabindex="0" '
            f'role="region" aria-label="Numbers: {self.heading}">{self.table}</div></details></figure></section>'
        )

    def specs(self) -> dict[str, Spec]:
        """What the page's script draws in each panel."""
        return {f"{self.name}-{number}": panel.spec for number, panel in enumerate(self.panels) if panel.spec}

    def _panel(self, number: int, panel: FigurePanel) -> str:
        of = "".join(f' data-{name}="{place}"' for name, place in panel.of.items())
        title = f"<h3>{panel.title}</h3>" if panel.title else ""
        plot = f'<div class="plot" data-plot="{self.name}-{number}" role="img" aria-label="{text(panel.told)}"></div>'
        inner = plot if panel.spec else "<p>There is no value to draw.</p>"
        return f'<div class="chart"{of}{" hidden" if panel.hidden else ""}>{title}{inner}</div>'
