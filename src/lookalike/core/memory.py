"""How much memory this process may still take."""

from pathlib import Path

__all__ = ["available_memory"]


def available_memory(root: Path = Path("/")) -> int:
    """Bytes of memory that are free for this process, by the machine and by its control groups; 0 if nobody says.

    root: of the files in which Linux says it.
    """
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return 0
    free: list[int | None] = [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    own = [line.removeprefix("0::").strip("/") for line in groups if line.startswith("0::")]
    for path in [Path(name) for name in own]:
        free += [_left_in(root / "sys/fs/cgroup" / group) for group in (path, *path.parents)]
    return max(0, min((size for size in free if size is not None), default=0))


def _left_in(group: Path) -> int | None:
    """Bytes that a control group has left; None if it has no limit."""
    try:
        limit, used = (group / "memory.max").read_text().strip(), (group / "memory.current").read_text().strip()
    except OSError:
        return None
    return int(limit) - int(used) if limit.isdecimal() else None
