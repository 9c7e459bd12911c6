#!/usr/bin/python3
"""headers.py [BUILD]: each header compiles alone, so that whoever includes it needs to know of no other. Takes the flags of the release build."""
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys
import tempfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def flags_of_the_build(build):
    """Includes and definitions of a translation unit of the tools, which may see every room."""
    with open(os.path.join(ROOT, build, "compile_commands.json"), encoding="utf-8") as f:
        commands = json.load(f)
    command = next(c["command"] for c in commands if c["file"].endswith("tools/main.cpp"))
    words = shlex.split(command)
    kept, take_next = [], False
    for word in words:
        if take_next or word.startswith(("-I", "-D", "-std=", "-W", "-isystem")):
            kept.append(word)
            take_next = word == "-isystem"
    return kept


def compile_alone(header, flags):
    with tempfile.TemporaryDirectory() as folder:
        unit = os.path.join(folder, "alone.cpp")
        with open(unit, "w", encoding="utf-8") as f:
            # Twice: a missing guard shows too.
            f.write(f'#include "{header}"\n#include "{header}"\n')
        # A constant or helper that this lone unit does not use is no mistake of the header.
        # The tests' own headers may use what the build defines for every test.
        if header.startswith("tests/"):
            flags = [*flags, f'-DK3_TEST_DATA="{ROOT}/tests/data"', f'-DK3_SOURCE_DIR="{ROOT}"']
        command = ["clang++-19", "-fsyntax-only", "-I", ROOT, *flags, "-Wno-unused-const-variable", unit]
        done = subprocess.run(command, capture_output=True, text=True)
        return header, done.stderr if done.returncode != 0 else ""


def main():
    flags = flags_of_the_build(sys.argv[1] if len(sys.argv) > 1 else "build/release")
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.hpp"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    headers = sorted(out.split())
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for header, errors in pool.map(lambda header: compile_alone(header, flags), headers):
            if errors:
                bad += 1
                print(f"{header}:\n{errors}")
    print(f"{len(headers)} headers, {bad} do not stand alone")
    return 1 if bad or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
