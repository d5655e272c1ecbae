"""What holds for every test."""

from __future__ import annotations

import signal

# A shell's background job ignores Ctrl-C, and so would each process a test starts and then interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
