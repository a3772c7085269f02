"""Prints the licences of all packages in the published programs: each text of their sources once.

usage: licences.py TARGET…

If the source of a package has no text, the Apache License is the one in LICENSE. Another licence needs a text in
packaging/licences/NAME.txt.
"""

import json
import pathlib
import re
import subprocess
import sys
from collections import defaultdict

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = re.compile(r"(un)?licen[cs]e|copying|copyright|notice", re.IGNORECASE)
CODE = {".c", ".cc", ".go", ".h", ".html", ".json", ".pl", ".py", ".rs", ".sh", ".toml", ".yml"}


def texts(folder):
    """The texts of licences in a source. Some packages have the path of a text in place of a symbolic link to it."""
    paths = [path for path in sorted(folder.rglob("*")) if NAME.match(path.name) and path.suffix not in CODE]
    found = [path.read_text(errors="replace").strip() for path in paths if path.is_file()]
    return [text for text in found if "\n" in text]


def cargo(*arguments):
    done = subprocess.run(["cargo", *arguments, "--locked"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"licences.py: cargo {arguments[0]} failed")
    return done.stdout


def contained(target):
    """Names and versions of the packages in both programs. Macros and build scripts only run during the compilation."""
    programs = ["--package", "liststore", "--package", "liststore-operator"]
    lines = cargo(
        "tree", *programs, "--target", target, "--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"
    )
    return {tuple(line.split()[:2]) for line in lines.splitlines() if line}


def main(targets):
    platforms = [f"--filter-platform={target}" for target in targets]
    sources = {
        (package["name"], "v" + package["version"]): package
        for package in json.loads(cargo("metadata", "--format-version", "1", *platforms))["packages"]
        if package["source"] is not None
    }
    packages = sorted(set().union(*map(contained, targets)) & sources.keys())
    users = defaultdict(list)
    missing = []
    for name, version in packages:
        found = texts(pathlib.Path(sources[name, version]["manifest_path"]).parent)
        if not found:
            licence = sources[name, version]["license"] or "a licence without a name"
            ours = ROOT / ("LICENSE" if "Apache-2.0" in licence else f"packaging/licences/{name}.txt")
            if not ours.exists():
                missing.append(f"{name} {version} ({licence})")
                continue
            found = [ours.read_text().strip()]
        for text in found:
            users[text].append(f"{name} {version}")
    if missing:
        sys.exit("licences.py: add texts to packaging/licences for " + ", ".join(missing))
    print("The programs of Liststore contain these packages:\n")
    for name, version in packages:
        print(f"    {name} {version}: {sources[name, version]['license']}")
    for text, names in sorted(users.items(), key=lambda item: item[1]):
        print(f"\n{'=' * 80}\n\nOf {', '.join(dict.fromkeys(names))}:\n\n{text}")


main(sys.argv[1:])
