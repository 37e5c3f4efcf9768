"""``manage.py`` on a leash: the worker ends when whoever holds its standard input lets go.

Run as ``python -m testproject.demo.leash COMMAND ...``. The other end of the pipe closes when the
demo wants the worker to stop, and also when the demo is killed; so there is one way to stop, and it
works on every system.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from testproject import manage

# Seconds that a worker may take to stop once it was told to. When the demo was killed the database
# goes, too, and then there is nothing that could be written any more.
PATIENCE = 10.0


def end_with_standard_input() -> None:
    while os.read(0, 1024):
        pass
    stop()
    threading.Event().wait(PATIENCE)
    os._exit(1)


def stop() -> None:
    """Stop as SIGTERM does. To the main thread, or its wait would not be interrupted."""
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, signal.SIGTERM)
    else:
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=end_with_standard_input, daemon=True).start()
    sys.argv[0] = "manage.py"
    manage.main()
