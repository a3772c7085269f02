"""What scripts/plot-latency does once matplotlib is there."""

import argparse
import sys

sys.dont_write_bytecode = True

import matplotlib  # noqa: E402
from measure import Bench, Liststore, Workspace, await_quiet, describe_machine, note, operation, release_binary, run_script

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402

RATES = [1_500, 3_000, 6_000, 9_000, 12_000, 15_000, 18_000, 21_000, 24_000, 27_000, 30_000]
PERCENTILES = ["p50", "p99", "p99.9"]
COLOURS = {"get": "#1f6fb4", "add": "#d1651a"}
STYLES = {"p50": "-", "p99": "--", "p99.9": ":"}


def measure(options):
    """For each rate that was reached: the rate, and milliseconds by operation and percentile."""
    bench = Bench(release_binary(options.binary))
    rows = []
    with Workspace(options.dir) as folder, Liststore(bench.binary, folder, {"items.embedded.fsync": options.fsync}) as server:
        note(f"loading {options.lists} lists of 200 items")
        bench.load(server, "--lists", options.lists)
        bench.warm(server)
        for rate in options.rates:
            await_quiet(server.pid)
            note(f"{rate} requests a second for {options.seconds} s")
            rates = ["--get-rate", rate * 2 // 3, "--add-rate", rate // 3]
            report = bench.measure(server, *rates, "--warmup", "2s", "--duration", f"{options.seconds}s")
            lines = {name: operation(report, name) for name in COLOURS}
            if sum(line["requests_per_sec"] for line in lines.values()) < 0.99 * rate:
                note(f"{rate} a second were not reached: the picture ends before")
                break
            rows.append((rate, {name: line["latency_ms"] for name, line in lines.items()}))
            shown = ", ".join(f"{n} {p} {ms[p]} ms" for n, ms in rows[-1][1].items() for p in PERCENTILES)
            print(f"{rate:>6} a second: {shown}", flush=True)
    return rows


def draw(rows, file, title):
    # The same picture of the same numbers, so that it can be kept with the code.
    matplotlib.rcParams.update({"svg.hashsalt": "liststore", "font.family": "sans-serif"})
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for name, colour in COLOURS.items():
        for percentile in PERCENTILES:
            points = [latencies[name][percentile] for _, latencies in rows]
            label = f"{name} {percentile}"
            axes.plot([rate for rate, _ in rows], points, STYLES[percentile], color=colour, marker="o", ms=3, label=label)
    axes.set(xlabel="requests a second, two gets of 50 items to one add of 10", ylabel="milliseconds", yscale="log")
    axes.set_title(title, fontsize=9)
    axes.grid(True, which="both", alpha=0.25)
    axes.legend(ncols=2, fontsize=8)
    figure.savefig(file, metadata={"Date": None})


def rates(text):
    return [int(rate) for rate in text.split(",")]


def main():
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS)
    parser.add_argument("file")
    parser.add_argument("--rates", type=rates, default=RATES)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--lists", type=int, default=100_000)
    parser.add_argument("--fsync", choices=["group", "interval"], default="group")
    parser.add_argument("--binary")
    parser.add_argument("--dir")
    options = parser.parse_args()
    machine = describe_machine()
    print("\n".join(machine), flush=True)
    rows = measure(options)
    if not rows:
        sys.exit("not even the lowest rate was reached: nothing is drawn")
    what = f"{options.lists} lists of 200 items, fsync {options.fsync}, generator on the same machine"
    draw(rows, options.file, f"{what}\n{machine[0].removeprefix('machine: ')}")


if __name__ == "__main__":
    run_script(main)
