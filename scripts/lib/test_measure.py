"""Tests of measure.py: a signal to a script also ends the servers that were starting."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

LIB = Path(__file__).resolve().parent
SECONDS_MAX = 120

HEAD = f"""
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, {str(LIB)!r})
import measure
from measure import *
SCRIPTS = measure.SCRIPTS = Path.cwd()
"""

# A server that does not become ready. It writes its process ID.
STARTING = """
def main():
    server = Started(["sh", "-c", "echo $$ >pid; exec sleep 600"], "log")
    server.await_true(lambda: False, "the server", seconds_max=600)
run_script(main)
"""

ON_CASSANDRA = """
def main():
    with cassandra(Path.cwd() / "nodes"):
        pass
run_script(main)
"""

# In place of scripts/cassandra: its nodes have separate sessions, and it ends them if the start is interrupted.
CASSANDRA = """#!/usr/bin/env bash
[ "$1" = start ] || exit 0
undo() { trap '' INT TERM HUP; kill -KILL "$(cat pid)"; }
trap undo EXIT
trap 'exit 130' INT TERM HUP
setsid sleep 600 >/dev/null &
echo $! >pid
while :; do sleep 0.05; done
"""


def lives(pid):
    """Whether a process runs. One that has ended and was not collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def await_true(condition, what):
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {SECONDS_MAX} s")
        time.sleep(0.02)


class SignalsDuringAStart(unittest.TestCase):
    def nothing_stays(self, program, send):
        with tempfile.TemporaryDirectory() as folder:
            script, pid_file = Path(folder, "cassandra"), Path(folder, "pid")
            script.write_text(CASSANDRA)
            script.chmod(0o755)
            process = subprocess.Popen(
                [sys.executable, "-c", HEAD + program], cwd=folder, stderr=subprocess.DEVNULL, start_new_session=True
            )
            try:
                await_true(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"), "a server starts")
                pid = int(pid_file.read_text())
                self.assertTrue(lives(pid))
                send(process.pid)
                self.assertGreater(process.wait(SECONDS_MAX), 128)
                await_true(lambda: not lives(pid), "the server ends")
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                if pid_file.exists() and lives(int(pid_file.read_text())):
                    os.kill(int(pid_file.read_text()), signal.SIGKILL)

    def test_a_server_ends_with_the_script(self):
        self.nothing_stays(STARTING, lambda pid: os.kill(pid, signal.SIGTERM))

    def test_cassandra_ends_with_the_script(self):
        self.nothing_stays(ON_CASSANDRA, lambda pid: os.kill(pid, signal.SIGTERM))

    def test_cassandra_ends_with_the_group_of_the_script(self):
        self.nothing_stays(ON_CASSANDRA, lambda pid: os.killpg(pid, signal.SIGINT))


if __name__ == "__main__":
    unittest.main()
