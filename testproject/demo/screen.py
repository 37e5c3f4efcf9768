"""What the demo prints: one line that is refreshed on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from testproject.demo.demonstration import Progress

# Seconds between two lines where there is no terminal.
SPARSELY = 5.0


class Screen:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._open = False
        self._shown = 0.0
        self.interval = 0.5 if self._live else 1.0
        """Seconds between two calls of `show`."""

    def say(self, text: str) -> None:
        self.close()
        print(text, file=self._stream, flush=True)

    def show(self, elapsed: float, progress: Progress) -> None:
        """Tell how far it is."""
        if not self._live and elapsed < self._shown + SPARSELY and progress.left:
            return
        self._shown = elapsed
        parts = [
            f"{elapsed:4.0f} s",
            f"{progress.calls:,} calls",
            f"{progress.missing:,} without a row",
            f"{progress.runs:,} printer runs",
        ]
        if progress.supersedings is not None:
            parts.append(f"{progress.supersedings:,} supersedings")
        line = "  ".join(parts)
        if self._live:
            # Back to the start, and clear what a longer line has left.
            print(f"\r\x1b[K{line}", end="", file=self._stream, flush=True)
            self._open = True
        else:
            print(line, file=self._stream, flush=True)

    def close(self) -> None:
        """End the line that is being refreshed."""
        if self._open:
            self._open = False
            print(file=self._stream, flush=True)
