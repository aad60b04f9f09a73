"""What do the ranking losses cost, beside autograd, beside what people use, and as batches and codes grow?

    python bench/losses.py [--quick] [--only NAME ...]

peers       forward and backward of tie_aware_ap, against autograd through a dense soft histogram, FastAP and
            SmoothAP (both of pytorch-metric-learning)
growth      the same over examples and bits, against the matrix products alone: codes · codesᵀ and slopes · codes
memory      the most that is held at a time, in matrices of examples × examples of float32
paper       how far the printed relaxation is from the exact one on codes, over sizes and how many items tie

One thread, float32 activations, alpha 1. Every time is the best of several runs, taking turns, side by side.
"""

import argparse
import datetime
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

os.environ |= {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "1"}  # read when libraries are loaded

import numpy as np
import torch
from torch import Tensor

from lookalike.learning import losses

REPEATS = 7
PER_CLASS = 16
torch.set_num_threads(1)


def best(*cases: Callable[[], Any], repeats: int = REPEATS) -> list[float]:
    """Best time of each, taking turns, after one run that is not counted."""
    times = [[] for _ in cases]
    for turn in range(repeats + 1):
        for case, kept in zip(cases, times, strict=True):
            started = time.perf_counter()
            case()
            if turn:
                kept.append(time.perf_counter() - started)
    return [min(kept) for kept in times]


def make_batch(n: int, n_bits: int) -> tuple[Tensor, Tensor]:
    """Clustered activations, and labels in order, as many of each class: SmoothAP takes no others."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(n) // PER_CLASS
    centres = torch.randn(int(labels.max()) + 1, n_bits, generator=generator)
    return centres[labels] + 0.7 * torch.randn(n, n_bits, generator=generator), labels


def step(loss: Callable[[Tensor, Tensor], Tensor], n: int, n_bits: int) -> Callable[[], None]:
    """Forward and backward of a loss, as in training."""
    activations, labels = make_batch(n, n_bits)
    activations.requires_grad_()

    def run() -> None:
        activations.grad = None
        loss(activations, labels).backward()

    return run


def ours(activations: Tensor, labels: Tensor) -> Tensor:
    return losses.tie_aware_ap(activations, labels, alpha=1.0, compiled=True)


def plain(activations: Tensor, labels: Tensor) -> Tensor:
    return losses.tie_aware_ap(activations, labels, alpha=1.0, compiled=False)


def dense(activations: Tensor, labels: Tensor) -> Tensor:
    """The same value by autograd, through a tensor (examples, examples, bits + 1): what one would write first."""
    codes = torch.tanh(activations)
    n, n_bits = codes.shape
    distances = ((n_bits - codes @ codes.T) / 2).clamp(0, n_bits)
    weights = (1 - (distances[:, :, None] - torch.arange(n_bits + 1)).abs()).clamp(min=0)
    weights = weights * (1 - torch.eye(n))[:, :, None]
    relevant = (labels[:, None] == labels).float().fill_diagonal_(0)
    c, p = weights.sum(1).double(), torch.einsum("ijd,ij->id", weights, relevant).double()
    x, before = c.cumsum(1) - c + 1, p.cumsum(1) - p
    some = c.clamp(min=1e-6)  # moved off 0, and off 1 below, where its two quotients are 0 / 0
    h = (torch.digamma(x + some) - torch.digamma(x)) / some
    off = torch.where((some - 1).abs() < 1e-6, some + 1e-5, some)
    g = (1 - x * h) / (off - 1)
    values = (p * ((before + 1) * h + (p - 1) * g)).sum(1)
    n_relevant = relevant.sum(1)
    return 1 - (values[n_relevant > 0] / n_relevant[n_relevant > 0]).mean()


def product(n: int, n_bits: int) -> Callable[[], Any]:
    """The products that no loss of all pairs can do without: distances, and slopes back to codes."""
    codes, slopes = torch.tanh(make_batch(n, n_bits)[0]), torch.rand(n, n)
    return lambda: (codes @ codes.T, slopes @ codes)


def peers(quick: bool) -> None:
    from pytorch_metric_learning.losses import FastAPLoss, SmoothAPLoss

    n, n_bits = (64, 16) if quick else (512, 64)
    cases: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "tie_aware_ap": ours,
        "tie_aware_ap, compiled=False": plain,
        "dense soft histogram, autograd": dense,
        "FastAP, its 10 bins": FastAPLoss(),
        f"FastAP, {n_bits} bins": FastAPLoss(num_bins=n_bits),
        "SmoothAP": SmoothAPLoss(),  # takes M / classes for the number of classes: its time is right, its value not
    }
    print(f"\npeers: forward and backward, {n} examples, {n_bits} bits")
    away = [abs(float(one(*make_batch(n, n_bits)) - ours(*make_batch(n, n_bits)))) for one in (plain, dense)]
    print(f"  the value is that of compiled=False to {away[0]:.0e}, that of the dense histogram to {away[1]:.0e}")
    times = best(*(step(loss, n, n_bits) for loss in cases.values()), repeats=2 if quick else REPEATS)
    for name, seconds in zip(cases, times, strict=True):
        print(f"  {name:<32}{seconds * 1e3:9.1f} ms   {seconds / times[0]:7.1f} times tie_aware_ap")


def growth(quick: bool) -> None:
    sizes = (64, 128) if quick else (128, 256, 512, 1024, 2048)
    lengths = (8, 16) if quick else (16, 32, 64, 128)
    grow("examples", [(n, 64) for n in sizes], quick)
    grow("bits", [(128 if quick else 512, n_bits) for n_bits in lengths], quick)


def grow(what: str, sizes: list[tuple[int, int]], quick: bool) -> None:
    print(f"\ngrowth with {what}: ms, in brackets times the size before")
    print(f"  {'examples':>8} {'bits':>5} {'compiled':>16} {'plain':>16} {'products':>16}   compiled / products")
    before: list[float] = []
    for n, n_bits in sizes:
        times = best(step(ours, n, n_bits), step(plain, n, n_bits), product(n, n_bits), repeats=2 if quick else REPEATS)
        factors = [f"({now / then:.1f})" for now, then in zip(times, before, strict=True)] if before else ["", "", ""]
        shown = " ".join(f"{now * 1e3:9.2f} {factor:>6}" for now, factor in zip(times, factors, strict=True))
        print(f"  {n:8} {n_bits:5} {shown}   {times[0] / times[2]:.1f}")
        before = times


def memory(quick: bool) -> None:
    sizes = [(128, 16)] if quick else [(512, 64), (2048, 128)]
    cases = ["ours", "plain", "dense"]
    for n, n_bits in sizes:
        print(f"\nmemory: {n} examples, {n_bits} bits, float32; one matrix is {n * n * 4 / 2**20:.1f} MiB")
        for name in cases:
            if name == "dense" and n > 512:
                print(f"  {name:<8} not tried: one of its tensors alone is {n_bits + 1} matrices")
                continue
            command = [sys.executable, __file__, "--held", name, str(n), str(n_bits)]
            resident, allocated = map(float, subprocess.run(command, capture_output=True, check=True).stdout.split())
            matrix = n * n * 4
            print(
                f"  {name:<8}{resident / matrix:8.2f} matrices resident at most ({resident / 2**20:.1f} MiB)"
                f", {allocated / matrix:.2f} of torch's own allocations"
            )


def held(name: str, n: int, n_bits: int) -> None:
    """In a process of its own: what a step adds to the resident memory at its peak, and torch's count of it."""
    loss = {"ours": ours, "plain": plain, "dense": dense}[name]
    step(loss, 32, n_bits)()  # compiles, and loads what is loaded once
    run = step(loss, n, n_bits)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    start = status("VmRSS")
    run()
    resident = status("VmHWM") - start
    print(resident, most_allocated(run))


def status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def most_allocated(run: Callable[[], None]) -> int:
    """The highest sum of what torch has allocated and not freed, from the profiler's events in order of time."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        run()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return int(np.cumsum([0, *changes]).max())


def paper(quick: bool) -> None:
    lengths, seeds = (8, 16, 32, 64), range(2 if quick else 10)
    for kind, noise in {"random codes": 1e9, "mixed classes": 2.0, "separated classes": 0.5}.items():
        print(
            f"\npaper: exact - printed loss, {kind}, 10 classes; mean of {len(seeds)} seeds / largest / mean tie size"
        )
        print("  examples" + "".join(f"{f'{n_bits} bits':>25}" for n_bits in lengths))
        for n in (64,) if quick else (64, 128, 256, 512, 1024):
            cells = [distance(n, n_bits, noise, seeds) for n_bits in lengths]
            print(f"  {n:8}" + "".join(f"{mean:11.4f} {most:7.4f} {ties:5.1f}" for mean, most, ties in cells))
            POINTS.extend({"codes": kind, "examples": n, "distance": mean, "ties": ties} for mean, _, ties in cells)


POINTS: list[dict[str, Any]] = []  # what `paper` found, to be plotted


def plot(path: Path) -> None:
    """A figure of how far the printed relaxation is from the exact one."""
    import altair as alt

    chart = alt.Chart(alt.Data(values=POINTS)).mark_line(point=True)
    chart = chart.encode(
        alt.X("ties:Q", title="items at the distance of an item").scale(type="log"),
        alt.Y("distance:Q", title="exact − printed loss"),
        alt.Color("examples:O", title="examples").scale(scheme="viridis"),
        alt.Column("codes:N", title=None, sort=["random codes", "mixed classes", "separated classes"]),
    )
    chart.properties(width=220, height=220).resolve_scale(x="independent").save(path)


def distance(n: int, n_bits: int, noise: float, seeds: range) -> tuple[float, float, float]:
    """Mean and largest distance of the two relaxations, and how many items are at the distance of an item."""
    away, ties = [], []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        labels = torch.randint(0, 10, (n,), generator=generator)
        centres = torch.randn(10, n_bits, generator=generator)
        codes = (centres[labels] + noise * torch.randn(n, n_bits, generator=generator)).sign()
        exact, printed = (float(losses.tie_aware_ap(codes, labels, relaxation=r)) for r in ("exact", "paper"))
        away.append(exact - printed)
        counts = np.stack([np.bincount(row, minlength=n_bits + 1) for row in ((n_bits - codes @ codes.T) / 2).int()])
        ties.append((counts**2).sum() / counts.sum())
    return float(np.mean(away)), float(max(away, key=abs)), float(np.mean(ties))


def version_of(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"no {name}"


def main() -> None:
    sections = {"peers": peers, "growth": growth, "memory": memory, "paper": paper}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything runs")
    parser.add_argument("--only", nargs="+", choices=sections, default=list(sections))
    parser.add_argument("--plot", type=Path, help="write a figure of paper to this .svg or .png")
    parser.add_argument("--held", nargs=3, help=argparse.SUPPRESS)  # memory starts this file again
    chosen = parser.parse_args()
    if chosen.held:
        held(chosen.held[0], *map(int, chosen.held[1:]))
        return
    packages = ", ".join(map(version_of, ("lookalike", "torch", "numba", "pytorch-metric-learning")))
    print(f"{platform.machine()}, {os.cpu_count()} cores, one used, Python {platform.python_version()}, {packages}")
    print(f"{datetime.datetime.now(datetime.UTC).date()}, load {os.getloadavg()[0]:.1f}")
    for name in chosen.only:
        sections[name](chosen.quick)
    if chosen.plot:
        plot(chosen.plot)


if __name__ == "__main__":
    main()
