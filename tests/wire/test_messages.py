"""Messages are imported when they are wanted, by whichever thread wants them."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Imports take long, so that two threads meet in the middle of each other's.
TWO_THREADS = """
import sys, threading, time
from semel.wire import messages
from semel.wire.api import ApiKey

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("kio."):
            time.sleep(0.02 if "header" in name else 0.001)

def attempt(delay_s, work, *arguments):
    begin.wait()
    time.sleep(delay_s)
    try:
        work(*arguments)
    except BaseException as error:
        failed.append(error)

sys.meta_path.insert(0, Slow())
begin, failed = threading.Barrier(2), []
works = (0, messages.schema_of, ApiKey.METADATA, 5, "response"), (
    float(sys.argv[1]), messages._writer_of, ApiKey.CREATE_TOPICS, 7, "response"
)
threads = [threading.Thread(target=attempt, args=work) for work in works]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(failed)
"""


@pytest.mark.slow
@pytest.mark.parametrize("delay_s", ["0", "0.015", "0.07"])
def test_two_threads_may_want_their_first_messages_at_once(delay_s: str) -> None:
    done = subprocess.run([sys.executable, "-c", TWO_THREADS, delay_s], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
