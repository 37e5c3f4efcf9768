"""What is told of a database that cannot be reached: enough to see it, never a flood.

All parts of a process tell it here. At most one line a second comes out, and fewer the longer an
outage lasts; the others are counted in the next one. When all parts work again, that is told, too.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from weakref import WeakKeyDictionary

logger = logging.getLogger("graphile_worker")

# Between two lines, in seconds: doubled with each line of one outage.
SHORTEST_SILENCE = 1.0
LONGEST_SILENCE = 60.0

# An outage shorter than this is over before anyone can have looked, in seconds.
WORTH_TELLING = 2.0

# An error's text is cut here: characters.
LONGEST_TEXT = 500


class Outages:
    """The outages of one process; may be used from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # Since when each part has failed, without a success in between. Weak: a part that is thrown
        # away while it fails will never tell that it works again.
        self._failing: WeakKeyDictionary[object, float] = WeakKeyDictionary()
        self._began = 0.0
        self._last_line = -math.inf
        self._silence = SHORTEST_SILENCE
        self._unsaid = 0

    def failed(self, who: object, part: str, error: BaseException) -> None:
        """Tell that a part has failed and will try again. `who` tells it from others of its kind.

        Logs that, or counts it.
        """
        now = self._clock()
        with self._lock:
            if not self._failing:
                self._began = now
                self._silence = SHORTEST_SILENCE
            self._failing.setdefault(who, now)
            if now < self._last_line + self._silence:
                self._unsaid += 1
                return
            if self._last_line >= self._began:
                self._silence = min(LONGEST_SILENCE, self._silence * 2)
            self._last_line = now
            unsaid, self._unsaid = self._unsaid, 0
        said = getattr(getattr(error, "diag", None), "message_primary", None) or str(error)
        text = " ".join(said.split()) or type(error).__name__
        more = f" (and {unsaid} more such errors since)" if unsaid else ""
        logger.warning("The %s will try again: %s%s", part, text[:LONGEST_TEXT], more)

    def works(self, who: object) -> None:
        """Tell that a part that had failed has succeeded again; logs the end of a long outage."""
        now = self._clock()
        with self._lock:
            since = self._failing.pop(who, None)
            if since is None or self._failing:
                return
            lasted = now - self._began
        if lasted >= WORTH_TELLING:
            logger.warning("The database can be worked with again, after %.0f s.", lasted)

    def gone(self, who: object) -> None:
        """Tell that a part has ended, whatever state it was in."""
        with self._lock:
            self._failing.pop(who, None)


outages = Outages()
