"""Tests of the lanes of scripts/test, with small programs in place of the steps:
python3 -m unittest discover --start-directory scripts/lib"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).parents[1]
STEPS = """cassandra check-alerts check-clients check-dependencies check-k8s check-workflows fuzz-api kube mutants overload
postgres release soak test-image test-kubernetes test-lean test-release""".split()
# Each step writes its name to the file `ran`, and ends with the status in the file `status/STEP`, if there is one.
STEP = """#!/bin/bash
name=$(basename "$0") action=$1
[ "$action" != start ] || echo address
[ "$action" = install ] && name=$name-install
echo "$name" >>"$FOLDER/ran"
exit "$(cat "$FOLDER/status/$name" 2>/dev/null || echo 0)"
"""
# The build makes one suite and the two programs. A run of the checker writes the file of its state.
CARGO = """#!/bin/bash
state=$(sed -n 's/.*--state \\([^ ]*\\).*/\\1/p' <<<"$*")
[ -z "$state" ] || touch "$state"
case $* in *--no-run*) ;; *) exit 0 ;; esac
mkdir -p target/debug
printf '#!/bin/sh\\nexit "$(cat "%s/status/suite" 2>/dev/null || echo 0)"\\n' "$FOLDER" >target/debug/liststore
chmod +x target/debug/liststore
cp target/debug/liststore target/debug/liststore-operator
echo '{"reason": "compiler-artifact", "executable": "'$PWD'/target/debug/liststore", "profile": {"test": true},
  "target": {"kind": ["test"], "name": "api"}, "manifest_path": "'$PWD'/Cargo.toml"}' | tr -d '\\n'
"""
TOOLS = ["typescript-5.9.3/node_modules/.bin/tsc", "cqlsh-6.2.2/bin/cqlsh", "feast-0.67.0/bin/feast"]


class Lanes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.checkout = self.folder / "checkout"
        lib = self.checkout / "scripts/lib"
        shutil.copytree(SCRIPTS / "lib", lib, ignore=shutil.ignore_patterns("__pycache__", "clients"))
        text = (SCRIPTS / "test").read_text()
        installation = '[ "$lane" = quick ] || install_servers'
        self.assertEqual(text.count(installation), 1)
        self.program("checkout/scripts/test", text.replace(installation, ""))
        for step in STEPS:
            self.program(f"checkout/scripts/{step}", STEP)
        for name in ["crates", "src/operations/openapi"]:
            (self.checkout / name).mkdir(parents=True)
        (self.checkout / ".gitignore").write_text("target/\n__pycache__/\n")
        self.program("bin/cargo", CARGO)
        self.program("bin/rustfmt", "#!/bin/sh\n")
        self.program("bin/id", "#!/bin/sh\necho 0\n")
        self.program("bin/go", "#!/bin/sh\necho go99.0\n")
        for tool in TOOLS:
            self.program(f"cache/{tool}", "#!/bin/sh\n")
            (self.folder / "cache" / tool.split("/")[0] / "installed").touch()
        (self.folder / "status").mkdir()
        (self.folder / "tmp").mkdir()
        for command in [["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "all"]]:
            author = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
            subprocess.run(["git", *author, *command], cwd=self.checkout, check=True)

    def program(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def ends_with(self, step, status):
        (self.folder / "status" / step).write_text(str(status))

    def run_lane(self, *arguments):
        """Returns the exit status, the results of the summary by step, and the steps that ran."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LISTSTORE_")}
        environment |= {
            "FOLDER": str(self.folder),
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            "LISTSTORE_CACHE": str(self.folder / "cache"),
            "LISTSTORE_TEST_ROUNDS": "1",
            "TMPDIR": str(self.folder / "tmp"),
        }
        environment.pop("CARGO_TARGET_DIR", None)
        (self.folder / "ran").write_text("")
        command = [self.checkout / "scripts/test", *arguments]
        done = subprocess.run(command, env=environment, text=True, stdin=subprocess.DEVNULL, capture_output=True)
        self.output = done.stdout + done.stderr
        results = {}
        for line in done.stdout.partition("== Summary\n")[2].splitlines()[:-1]:
            result, _, command = line.partition(" s  ")
            results[command.replace(f"{self.checkout}/scripts/", "")] = result.rpartition(" ")[0].strip()
        self.assertEqual(list((self.folder / "tmp").iterdir()), [], "the lane left files")
        return done.returncode, results, (self.folder / "ran").read_text().split()

    def failed(self, results):
        return [step for step, result in results.items() if result == "FAILED"]

    def test_the_full_lane_runs_each_step_once(self):
        status, results, ran = self.run_lane()
        self.assertEqual((status, self.failed(results)), (0, []), self.output)
        for step in ["test-image", "check-k8s", "test-kubernetes", "test-lean", "check-workflows", "fuzz-api"]:
            self.assertEqual(ran.count(step), 1, step)
        self.assertEqual(results["suite api"], "ok")

    def test_a_failed_step_fails_the_lane_and_the_others_run(self):
        for step in ["test-lean", "test-image", "test-kubernetes"]:
            self.ends_with(step, 1)
        status, results, ran = self.run_lane()
        self.assertEqual(status, 1)
        self.assertEqual([step.split()[0] for step in self.failed(results)], ["test-lean", "test-image", "test-kubernetes"])
        self.assertIn("fuzz-api", ran)

    def test_the_full_lane_refuses_other_users_than_root_at_once(self):
        self.program("bin/id", "#!/bin/sh\necho 1000\n")
        self.assertEqual(self.run_lane(), (1, {}, []))
        self.assertIn('sudo -E env "PATH=$PATH" "HOME=$HOME" scripts/test', self.output)
        self.assertEqual(self.run_lane("quick")[0], 0, self.output)

    def test_a_failed_suite_fails_the_lane(self):
        self.ends_with("suite", 101)
        status, results, _ = self.run_lane()
        self.assertEqual(status, 1)
        self.assertEqual(self.failed(results), ["run_suites (exit status 1)", "suite api"])

    def test_advisories_that_nobody_could_ask_are_reported(self):
        self.ends_with("check-dependencies", 3)
        _, results, _ = self.run_lane()
        asked = [(step, result) for step, result in results.items() if "advisories" in step]
        self.assertEqual(asked, [("check-dependencies advisories: the network does not reach it", "NOT ASKED")])
        self.assertEqual(self.failed(results), ["check-dependencies licenses sources bans (exit status 3)"])

    def test_kubernetes_that_cannot_be_installed_fails_the_lane(self):
        self.ends_with("kube-install", 1)
        status, results, ran = self.run_lane()
        self.assertEqual((status, "test-kubernetes" in ran), (1, False))
        self.assertEqual(self.failed(results), ["the image, the manifests or Kubernetes: the reason is above"])

    def test_without_a_server_no_suite_runs(self):
        self.ends_with("cassandra", 1)
        status, results, ran = self.run_lane()
        self.assertEqual((status, "suite api" in results, "fuzz-api" in ran), (1, False, True))
        self.assertEqual(self.failed(results)[:2], ["starting cassandra", "no suite was run: they need the servers"])

    def test_the_long_lane_continues_after_what_passed_and_then_begins_anew(self):
        self.ends_with("soak", 1)
        # Some mutants are missed.
        self.ends_with("mutants", 2)
        status, results, _ = self.run_lane("nightly")
        self.assertEqual((status, [step.split()[0] for step in self.failed(results)]), (1, ["soak"]), self.output)
        self.assertIn("MISSED", results.values())
        kept = sorted(path.name for path in self.checkout.glob("target/nightly/*/*"))
        passed = ["alerts", "bags", "checker", "clients", "cql", "flaky", "mutants", "overload", "release", "sets"]
        self.assertEqual(kept, [f"{step}.passed" for step in passed])
        self.ends_with("soak", 0)
        status, results, ran = self.run_lane("nightly")
        steps = [step for step in ran if step not in ("postgres", "cassandra")]
        self.assertEqual((status, steps, list(results.values()).count("BEFORE")), (0, ["soak"], 10), self.output)
        status, _, ran = self.run_lane("nightly")
        self.assertEqual((status, "overload" in ran and "soak" in ran), (0, True))

    def test_the_long_lane_does_not_trust_a_changed_checkout(self):
        self.ends_with("soak", 1)
        (self.checkout / "changed").touch()
        for _ in range(2):
            status, _, ran = self.run_lane("nightly")
            self.assertEqual((status, "overload" in ran), (1, True))

    def test_unknown_lanes_are_refused(self):
        for arguments in [["quik"], ["nightly", "quik"], ["quick", "more"]]:
            status, _, ran = self.run_lane(*arguments)
            self.assertEqual((status, ran), (2, []))


if __name__ == "__main__":
    unittest.main()
