#!/usr/bin/env python3
"""Runs the test programs that Cargo built, several at once, and reports where the time went.

    cargo test --no-run --message-format json … | suites.py [--lanes N] [--report FILE] [--logs DIR] [SUITE…]

Reads Cargo's messages from standard input. Without SUITE it runs all test programs. Each lane runs one program after
the other, the slowest first. The suite `cql` mostly waits for clusters of several nodes, and its tests have bounds: it
has precedence over all others (nice). One more lane runs the programs that only compute, in the idle time of the
processors, and after them others. The output of a program appears as a whole when it ends.

    --lanes N       lanes, in addition to that one (2)
    --report FILE   appends a line for each suite and for each of the ten slowest tests
    --logs DIR      writes the output of each program to DIR/SUITE.log while it runs

Exit status: 0 if all suites ran and passed, 1 if not, 2 if Cargo named no program for a SUITE.
"""

import argparse
import itertools
import json
import os
import pathlib
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time

# The slowest first, so that no lane ends long before the others. An unlisted suite runs last.
SLOWEST_FIRST = ["cql", "console", "consistency", "api", "cli", "conformance", "postgres", "engine", "lib"]
SLOWEST_TESTS = 10
CRATES = pathlib.Path(__file__).parents[2] / "crates"
LIBRARIES = {"lib"} | {f"lib {folder.name}" for folder in CRATES.iterdir()}
# These only compute, so they may take long. A suite with deadlines is not among them: next to busy lanes, the idle time
# may not come within a deadline.
IDLE_TIME = LIBRARIES | {"engine", "operator", "tidy", "bin liststore", "bin liststore-operator"}
# The nice values of suites; 0 for others. Only root gets a negative one. Servers treat their threads differently with
# another value than 0, so most suites run with 0.
NICE = {"cql": -5} | dict.fromkeys(IDLE_TIME, 19)
# Suites with a separate harness, which does not support `--report-time`.
OWN_HARNESS = {"console", "consistency"}
# The output of a test is between its name and its result.
BEGAN = re.compile(rb"^test (?P<name>\S+)\s+\.\.\.")
ENDED = re.compile(rb"(?:^|\.\.\. )(?:ok|FAILED)(?: <(?P<seconds>[\d.]+)s>)?\s*$")


def programs(messages):
    """The test programs of Cargo's messages, by the name of their suite."""
    found = {}
    for line in messages:
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("reason") != "compiler-artifact" or not message.get("executable"):
            continue
        if message["profile"]["test"]:
            target = message["target"]
            is_lib = "lib" in target["kind"]
            is_bin = "bin" in target["kind"]
            name = target["name"]
            if is_lib:
                # The server's is `lib`, and crates/contract's is `lib contract`.
                name = name.replace("liststore", "lib", 1).replace("_", " ")
            elif is_bin:
                name = f"bin {name}"
            found[name] = (message["executable"], pathlib.Path(message["manifest_path"]).parent)
    return found


def drain(waiting):
    """Takes from a queue until it is empty."""
    while True:
        try:
            yield waiting.get_nowait()
        except queue.Empty:
            return


def run(name, executable, folder, log):
    """Runs one suite. Returns its exit status and (seconds, test) of each test that ended."""
    command = [executable]
    environment = {**os.environ, "CARGO_MANIFEST_DIR": str(folder)}
    if name not in OWN_HARNESS:
        # Only this switch makes the stable harness print the time of each test.
        environment["RUSTC_BOOTSTRAP"] = "1"
        command += ["-Z", "unstable-options", "--report-time"]
    nice = NICE.get(name, 0)
    if nice > 0 or (nice < 0 and os.geteuid() == 0):
        command = ["nice", "-n", str(nice), *command]
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    tests, test, previous = [], None, time.monotonic()
    try:
        for line in process.stdout:
            log.write(line)
            if began := BEGAN.match(line):
                test = began["name"].decode()
            if test and (ended := ENDED.search(line)):
                now = time.monotonic()
                # A harness without times runs one test after the other.
                seconds = float(ended["seconds"]) if ended["seconds"] else now - previous
                tests.append((seconds, f"{name} {test}"))
                test, previous = None, now
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process.wait(), tests


def main():
    arguments = argparse.ArgumentParser(add_help=False)
    arguments.add_argument("-h", "--help", action="store_true")
    arguments.add_argument("--lanes", type=int, default=2)
    arguments.add_argument("--report", type=pathlib.Path)
    arguments.add_argument("--logs", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()))
    arguments.add_argument("suites", nargs="*")
    arguments = arguments.parse_args()
    if arguments.help:
        print(__doc__.strip())
        return 0
    found = programs(sys.stdin)
    if unknown := [name for name in arguments.suites if name not in found]:
        print(f"cargo built no suite {', '.join(unknown)}: it built {', '.join(sorted(found)) or 'none'}", file=sys.stderr)
        return 2
    if not found:
        print("cargo built no test program: its errors are above", file=sys.stderr)
        return 2
    rank = {name: place for place, name in enumerate(SLOWEST_FIRST)}
    ordered = sorted(arguments.suites or found, key=lambda name: (rank.get(name, len(rank)), name))
    printing, suites, tests = threading.Lock(), [], []

    def lane(*queues):
        for name in itertools.chain.from_iterable(map(drain, queues)):
            with printing:
                print(f"-- suite {name} started", flush=True)
            began = time.monotonic()
            path = arguments.logs / f"{name.replace(' ', '-')}.log"
            try:
                with path.open("wb", buffering=0) as log:
                    status, ended = run(name, *found[name], log)
                status, output = f"exit status {status}", path.read_bytes()
            except OSError as error:
                # Such as a full disk. The other suites still run.
                status, ended, output = f"{error}", [], b""
            seconds = time.monotonic() - began
            result = "ok" if status == "exit status 0" else "FAILED"
            with printing:
                suites.append((result, seconds, name))
                tests.extend(ended)
                sys.stdout.buffer.write(output)
                print(f"-- suite {name}: {result} ({status}) after {seconds:.0f} s", flush=True)

    computing, others = queue.SimpleQueue(), queue.SimpleQueue()
    for name in ordered:
        (computing if name in IDLE_TIME else others).put(name)
    lanes = [threading.Thread(target=lane, args=[others]) for _ in range(max(1, arguments.lanes))]
    lanes.append(threading.Thread(target=lane, args=[computing, others]))
    for thread in lanes:
        thread.start()
    for thread in lanes:
        thread.join()

    lines = [f"{result:<9} {seconds:4.0f} s  suite {name}" for result, seconds, name in suites]
    lines += [f"slowest   {seconds:4.0f} s  {name}" for seconds, name in sorted(tests, reverse=True)[:SLOWEST_TESTS]]
    if arguments.report:
        with arguments.report.open("a") as report:
            report.writelines(line + "\n" for line in lines)
    print("\n".join(lines), flush=True)
    return 0 if len(suites) == len(ordered) and all(result == "ok" for result, _, _ in suites) else 1


if __name__ == "__main__":
    sys.exit(main())
