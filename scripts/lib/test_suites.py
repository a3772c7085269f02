"""Tests of suites.py with small programs: python3 -m unittest discover --start-directory scripts/lib"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SUITES = pathlib.Path(__file__).with_name("suites.py")


class Suites(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_suites(self, programs, *options):
        """Runs programs, each a shell script or None if it is missing. Returns the result and the lines of the report."""
        messages = []
        for name, script in programs.items():
            path = self.folder / name
            if script is not None:
                path.write_text(f"#!/bin/sh\n{script}\n")
                path.chmod(0o755)
            message = {
                "reason": "compiler-artifact",
                "executable": str(path),
                "profile": {"test": True},
                "target": {"kind": ["test"], "name": name},
                "manifest_path": str(self.folder / "Cargo.toml"),
            }
            messages.append(json.dumps(message))
        report = self.folder / "report"
        command = [sys.executable, SUITES, "--report", report, "--logs", self.folder, "--lanes", "1", *options]
        done = subprocess.run(command, input="\n".join(messages), text=True, capture_output=True)
        return done, report.read_text().splitlines() if report.exists() else []

    def test_each_suite_and_its_slowest_tests_are_reported(self):
        done, report = self.run_suites({"api": "echo 'test a::b ... ok <0.250s>'", "cli": "exit 0"})
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(sum(line.startswith("ok") for line in report), 2, report)
        self.assertTrue(any(line.startswith("slowest") and line.endswith("api a::b") for line in report), report)

    def test_a_failed_suite_fails_the_run(self):
        done, report = self.run_suites({"api": "exit 101", "cli": "exit 0"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("-- suite api: FAILED (exit status 101)", done.stdout)
        self.assertEqual(sorted(line.split()[0] for line in report), ["FAILED", "ok"])

    def test_a_suite_that_cannot_start_fails_and_the_others_run(self):
        done, report = self.run_suites({"api": None, "cli": "exit 0"})
        self.assertEqual(done.returncode, 1)
        self.assertEqual(sorted(line.split()[0] for line in report), ["FAILED", "ok"])

    def test_output_that_cannot_be_written_fails_the_suite(self):
        os.symlink("/dev/full", self.folder / "api.log")
        done, report = self.run_suites({"api": f"echo $$ >{self.folder}/pid; echo text; exec sleep 600", "cli": "exit 0"})
        self.assertEqual(done.returncode, 1)
        self.assertEqual(sorted(line.split()[0] for line in report), ["FAILED", "ok"])
        with self.assertRaises(ProcessLookupError):
            os.kill(int((self.folder / "pid").read_text()), 0)

    def test_a_run_that_leaves_suites_out_fails(self):
        # The thread of a lane ends with its first suite, because the name of its test is no text.
        ends_its_lane = r"printf 'test \377 ... ok\n'"
        done, report = self.run_suites({"api": ends_its_lane, "cli": ends_its_lane, "conformance": "exit 0"})
        self.assertEqual((done.returncode, report), (1, []), done.stderr)

    def test_suites_that_only_compute_have_a_lane_and_leave_it_to_others(self):
        def awaits(name):
            return f"for _ in $(seq 1200); do [ ! -e {self.folder}/{name}.ran ] || exit 0; sleep 0.1; done; exit 1"

        # `api` has the only lane until `cli` has run, so `cli` needs that of `tidy`.
        done, report = self.run_suites(
            {
                "api": awaits("cli"),
                "cli": f"[ -e {self.folder}/tidy.ran ] && touch {self.folder}/cli.ran",
                "tidy": f"sleep 0.5; touch {self.folder}/tidy.ran",
            }
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(sorted(line.split()[-1] for line in report), ["api", "cli", "tidy"])

    def test_a_suite_that_was_not_built_is_wrong_usage(self):
        done, _ = self.run_suites({"api": "exit 0"}, "nope")
        self.assertEqual(done.returncode, 2)
        self.assertIn("cargo built no suite nope", done.stderr)


if __name__ == "__main__":
    unittest.main()
