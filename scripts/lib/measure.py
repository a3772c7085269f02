"""What the comparisons share: servers that are started and always stopped, runs of `liststore
bench`, and ratios with their spread.

Needs nothing but the standard library. Everything that it starts listens on loopback alone, and is
ended when the script ends, however that comes about short of SIGKILL.
"""

import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent
ROOT = SCRIPTS.parent
TICKS_PER_SEC = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """A failure that is reported in one line."""


def note(text):
    print(f"{Path(sys.argv[0]).name}: {text}", file=sys.stderr, flush=True)


def run_script(main):
    """Runs main() and reports a failure in one line. A signal ends it, and everything that it started."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        main()
    except Failed as failure:
        note(failure)
        sys.exit(1)
    except BrokenPipeError:
        # The reader has closed the output, as `| head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# --- Machine -------------------------------------------------------------------------------------


def describe_machine():
    model = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())
    lines = [
        f"machine: {os.cpu_count()} cores ({model.group(1) if model else os.uname().machine}),"
        f" {int(memory.group(1)) / 2**20:.0f} GiB, Linux {os.uname().release}"
    ]
    load = os.getloadavg()[0]
    if load > 0.5:
        lines.append(
            f"this machine is busy with other work (load {load:.1f}): ratios of CPU time are rougher than they"
            " could be, and latencies and rates say little"
        )
    return lines


def memory_available():
    return int(re.search(r"MemAvailable:\s*(\d+)", Path("/proc/meminfo").read_text()).group(1)) * 1024


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def cpu_secs(root):
    """CPU seconds so far of a process, its descendants, and their children that have ended."""
    processes = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        processes[int(stat.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    tree, size = {root}, 0
    while len(tree) > size:
        size = len(tree)
        tree |= {pid for pid, (parent, _) in processes.items() if parent in tree}
    return sum(processes[pid][1] for pid in tree if pid in processes) / TICKS_PER_SEC


def await_quiet(*pids, seconds_max=300):
    """Waits until servers are almost idle: until flushes and compactions are done."""
    deadline = time.monotonic() + seconds_max
    quiet = 0
    while quiet < 3:
        before = [cpu_secs(pid) for pid in pids]
        time.sleep(1)
        are_quiet = all(cpu_secs(pid) - secs < 0.03 for pid, secs in zip(pids, before))
        quiet = quiet + 1 if are_quiet else 0
        if time.monotonic() > deadline:
            note(f"still busy after {seconds_max} s: {', '.join(map(str, pids))}; continuing")
            return


def disk_bytes(folder):
    """Bytes of a folder on disk, as `du` counts them."""
    return sum(path.lstat().st_blocks * 512 for path in Path(folder).rglob("*") if path.is_file())


# --- Servers -------------------------------------------------------------------------------------


class Started:
    """A started process with a log, for `with`."""

    def __init__(self, command, log, env=None):
        self.log = Path(log)
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                pass
        self.kill()

    def kill(self):
        """SIGKILL for the process and for what it has forked."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def await_true(self, condition, what, seconds_max=60, pause=0.05):
        """Waits for the start. If it fails, or a signal ends the script, the process is stopped."""
        deadline = time.monotonic() + seconds_max
        try:
            while not condition():
                if self.process.poll() is not None or time.monotonic() > deadline:
                    end = self.log.read_text(errors="replace").splitlines()[-10:]
                    raise Failed("\n    ".join([f"{what} did not start; the end of its log:", *end]))
                time.sleep(pause)
        except BaseException:
            self.stop()
            raise


class Liststore(Started):
    """A server on a free port. `settings` are by their keys: {"items.embedded.fsync": "group"}."""

    scheme, context = "http", None

    def __init__(self, binary, folder, settings):
        env = {name: value for name, value in os.environ.items() if not name.startswith("LISTSTORE")}
        env |= variables(settings)
        folder.mkdir(parents=True, exist_ok=True)
        listen = f"127.0.0.1:{free_port()}"
        self.url = f"{self.scheme}://{listen}"
        began = time.monotonic()
        super().__init__(
            [binary, "serve", "--listen", listen, "--data-dir", folder / "data"], folder / "liststore.log", env
        )
        self.await_true(self.is_ready, "liststore", seconds_max=300, pause=0.005)
        self.ready_secs = time.monotonic() - began

    def is_ready(self):
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5, context=self.context) as answer:
                return json.load(answer)["checks"]["item_store"] == "pass"
        except (urllib.error.URLError, OSError):
            return False

    def counter(self, name):
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=20) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name)

    def target(self):
        return ["--url", self.url, "--server-pid", self.pid]


class Redis(Started):
    """Debian's redis-server, with an append-only file that is synced every second."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        options = ["--bind", "127.0.0.1", "--port", self.port, "--dir", folder, "--daemonize", "no"]
        # The append-only file makes it durable. Snapshots would be additional work.
        options += ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]
        super().__init__(["redis-server", *options], folder / "redis.log")
        self.await_true(self.is_ready, "redis-server")

    def is_ready(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    def target(self):
        return ["--redis", f"127.0.0.1:{self.port}", "--server-pid", self.pid]


@contextmanager
def cassandra(folder, *options):
    """A cluster that ends with the block; yields its contact points. `options` are for `scripts/cassandra start`."""
    script = SCRIPTS / "cassandra"
    note("starting Cassandra")
    try:
        with subprocess.Popen(
            [script, "start", folder, "--optimize", *options], stdout=subprocess.PIPE, text=True
        ) as start:
            try:
                contact_points, _ = start.communicate()
            except BaseException:
                # With SIGKILL, as by subprocess.run, the script could not stop its nodes.
                start.terminate()
                raise
        if start.returncode != 0:
            raise Failed("Cassandra did not start")
        yield contact_points.strip()
    finally:
        subprocess.run([script, "kill", folder, "all"], stdout=sys.stderr, check=False)


def on_cassandra(contact_points):
    """Settings of a server on a node that `cassandra` has started."""
    return {
        "items.store": "cql",
        "items.cql.contact_points": contact_points,
        "items.cql.replication_factor": 1,
        "items.cql.datacenter": "datacenter1",
    }


def variables(settings):
    """Settings as the environment has them."""
    return {"LISTSTORE__" + key.upper().replace(".", "__"): str(value) for key, value in settings.items()}


def migrate(binary, settings, folder):
    done = subprocess.run([binary, "migrate"], env=os.environ | variables(settings), cwd=folder, stdout=sys.stderr)
    if done.returncode != 0:
        raise Failed("liststore migrate failed")


def install_redis():
    if shutil.which("redis-server"):
        return
    command = f'. "{SCRIPTS}/lib/common.sh"; quiet_apt_install redis-server'
    if subprocess.run(["bash", "-euo", "pipefail", "-c", command], stdout=sys.stderr).returncode != 0:
        raise Failed("redis-server could not be installed")


def release_binary(given):
    """The binary to measure: the one that was named, or a build of this tree as it is published."""
    if given:
        return Path(given).resolve()
    note("building a release binary")
    command = ["cargo", "build", "--config", "packaging/dist.toml", "--profile", "dist", "--locked"]
    if subprocess.run(command, cwd=ROOT, stdout=sys.stderr).returncode != 0:
        raise Failed(f"{' '.join(command)} failed")
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "dist" / "liststore"


def bench_program(name, *options):
    """The program of a benchmark of this tree."""
    note(f"building benches/{name}.rs")
    command = ["cargo", "bench", "--locked", "--no-run", "--bench", name, *options]
    command += ["--message-format=json"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    for line in built.stdout.splitlines() if built.returncode == 0 else []:
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == name:
            return Path(message["executable"])
    raise Failed(f"cargo bench --no-run --bench {name} failed")


class Workspace:
    """A folder for all data, which is deleted with the end of the script."""

    def __init__(self, parent=None):
        self.parent = parent

    def __enter__(self):
        self.path = Path(tempfile.mkdtemp(prefix="liststore-measure.", dir=self.parent))
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


# --- Runs ----------------------------------------------------------------------------------------


class Bench:
    """Runs `liststore bench`, and stores every report."""

    def __init__(self, binary, results=None):
        self.binary = binary
        self.results = results

    def load(self, server, *options):
        self._run([*server.target(), "--load", "--duration", "0s", *options])

    def measure(self, server, *options):
        command = [*server.target(), "--output", "json", *options]
        report = json.loads(self._run(command))
        errors = report["total"]["errors"]
        if errors:
            note(f"errors: {errors} in {' '.join(map(str, options))}")
        if self.results:
            with open(self.results, "a", encoding="utf-8") as results:
                results.write(json.dumps({"command": [str(word) for word in command], "report": report}) + "\n")
        return report

    def warm(self, server, *options):
        """Reads until nearly all gets are answered from memory: from rendered pages or list heads."""
        counters = [f"liststore_{kind}_total" for kind in ("page_cache_hits", "head_hits", "head_misses")]
        for number in range(20):
            before = [server.counter(counter) for counter in counters]
            self._run([*server.target(), *options, "--gets", 1, "--warmup", "0s", "--duration", "5s", "--seed", 100 + number])
            after = [server.counter(counter) for counter in counters]
            pages, heads, misses = (now - then for now, then in zip(after, before))
            if misses < 0.01 * (pages + heads + misses):
                return
        note(f"after 100 s of reading, {misses / (pages + heads + misses):.0%} of gets still read more than memory")

    def _run(self, options):
        command = [str(word) for word in [self.binary, "bench", *options]]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)} failed: {done.stderr.strip()} {done.stdout.strip()[:2000]}")
        return done.stdout


def operation(report, name):
    return next(line for line in report["operations"] if line["operation"] == name)


# --- Results -------------------------------------------------------------------------------------


def spread(numbers, digits=2):
    """The median, with the smallest and the largest: `4.12 (3.98 to 4.30)`."""
    if len(numbers) == 1:
        return f"{numbers[0]:.{digits}f}"
    return f"{statistics.median(numbers):.{digits}f} ({min(numbers):.{digits}f} to {max(numbers):.{digits}f})"


def verdict(goal, what, shown, wanted, reached):
    """One line for a goal of the project."""
    print(f"{goal}  {what}: {shown}; goal {wanted}: {'reached' if reached else 'MISSED'}", flush=True)
