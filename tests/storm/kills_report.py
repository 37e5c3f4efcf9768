"""What killing workers at random has shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median


@dataclass
class Report:
    """What was seen. `seconds` are from a worker's death to the next run of a job it had."""

    seed: int
    kills: int = 0
    jobs: int = 0
    runs: int = 0
    rescued: int = 0
    interrupted: int = 0
    exhausted: int = 0
    exit_code: int | None = None
    locks: int = 0
    seconds: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        ordered = sorted(self.seconds) or [0.0]
        rows = {
            "processes killed": self.kills,
            "jobs": self.jobs,
            "runs": self.runs,
            "runs cut off by a kill": self.interrupted,
            "jobs freed of the dead": self.rescued,
            "of these on their last attempt": self.exhausted,
            "s to the next run, median": f"{median(ordered):.1f}",
            "s to the next run, 95 %": f"{ordered[int(len(ordered) * 0.95) - 1]:.1f}",
            "s to the next run, longest": f"{ordered[-1]:.1f}",
            "locks left": self.locks,
            "exit code": self.exit_code,
            "seed": self.seed,
        }
        width = max(map(len, rows))
        lines = [f"{name:<{width}}  {value:>10}" for name, value in rows.items()]
        return "\n".join([*lines, *(f"FAULT: {fault}" for fault in self.faults)])
