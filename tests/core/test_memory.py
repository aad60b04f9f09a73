"""How much memory a process may take: by the machine, and by the control groups that it is in."""

from __future__ import annotations

from pathlib import Path

import pytest

from lookalike.core.memory import available_memory

GB = 1 << 30


def machine(root: Path, limits: dict[str, tuple[str, int]], group: str = "/job/step") -> Path:
    """The files of a machine with 8 GB free. limits: of each group, its limit and what it uses."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: {16 << 20} kB\nMemAvailable: {8 << 20} kB\n")
    (root / "proc/self/cgroup").write_text(f"1:name=systemd:/other\n0::{group}\n")
    for name, (limit, used) in limits.items():
        folder = root / "sys/fs/cgroup" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text(f"{used}\n")
    return root


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, 8 * GB),
        ({"job/step": ("max", GB)}, 8 * GB),
        ({"job/step": ("max", GB), "job": (str(3 * GB), GB)}, 2 * GB),
        ({".": (str(5 * GB), GB)}, 4 * GB),
        ({"job/step": (str(64 * GB), GB)}, 8 * GB),
        ({"job/step": (str(GB), 2 * GB)}, 0),
        ({"other": (str(GB), 0)}, 8 * GB),
    ],
)
def test_the_least_that_anybody_allows(tmp_path: Path, limits: dict[str, tuple[str, int]], expected: int) -> None:
    assert available_memory(machine(tmp_path, limits)) == expected


def test_where_nobody_says_it(tmp_path: Path) -> None:
    assert available_memory(tmp_path) == 0


def test_this_machine() -> None:
    assert Path("/proc/meminfo").exists() == (available_memory() > 0)
