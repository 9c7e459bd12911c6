#!/usr/bin/python3
"""tidy.py: the rules of the house that no compiler checks. Looks at the files git would commit; prints each breach, ends 1 if there is one."""
import os
import re
import subprocess
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
ROOMS = ["server", "model", "kernels", "shaders", "web", "tools", "tests"]
TOP = {"CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md"} | set(ROOMS)
CODE = (".cpp", ".hpp", ".js", ".mjs", ".py", ".sh", ".css", ".html", ".comp", ".glsl", ".cmake", ".c", ".h")
LONGEST_FILE = 400
LONGEST_FUNCTION = 60
WIDEST_LINE = 160
DATA_LIKE = {"tools/mini/corpus.py"}  # a long list of sentences is not a long program
DENSE = ("tools/mini/",)              # the training scripts are formulas, written as such
NOT_OURS_TO_TIDY = ("tests/data/", "tests/fuzz/seeds/", "tools/mini/model/")
README_LINES = 70                     # a page

# Put together from halves, so that this file does not contain what it looks for.
UNFINISHED = re.compile("|".join(["TO" + "DO", "FIX" + "ME", r"\bX" + r"XX\b", "HA" + "CK"]))
PLACES = re.compile(r"/(?:wo" + r"rk|ho" + r"me|ro" + r"ot|fa" + r"rm)/[A-Za-z0-9_.]")


def listed():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    names = [name for name in out.decode().split("\0") if name]
    return sorted(name for name in names if os.path.isfile(os.path.join(ROOT, name)))


def functions(lines):
    """(line, length) of what looks like a C++ function: from a line at the margin that opens a brace to the brace at the margin that
    closes it. Formatting makes that exact for free functions, and no body hides from it, since it begins somewhere at the margin."""
    begin = None
    for number, line in enumerate(lines, 1):
        if begin is None and re.match(r"[A-Za-z\[~].*\)[^;]*\{$", line) and not re.match(r"(namespace|class|struct|enum|union|extern)\b", line):
            begin = number
        elif begin is not None and line.startswith("}"):
            yield begin, number - begin + 1
            begin = None


def check_awaits(lines):
    """The operand of co_await names things, it does not make them: g++ 12 destroys what is made there twice."""
    for number, line in enumerate(lines, 1):
        code = line.split("//")[0]
        if "co_await" not in code:
            continue
        operand = code.split("co_await", 1)[1]
        # A brace that opens a block (`if (co_await x) {`) stands at the end of the line; one with contents makes an aggregate.
        if re.search(r"\{(?!\s*$)", operand):
            yield number, "co_await whose operand makes an aggregate: bind it to a name first"
        if re.search(r"\[[^\]]*[&=a-z][^\]]*\]\s*(\(|\{|mutable)", operand):
            yield number, "co_await whose operand makes a capturing lambda: bind it to a name first"
        if re.search(r"\?.*co_await|co_await[^;]*\?[^;]*:", code):
            yield number, "co_await in an arm of ?: - use if"
        if re.search(r"=\s*\{[^}]*co_await|\w\{[^}]*co_await", code):
            yield number, "co_await inside a braced initialiser: bind its result to a name first"


def check_code(name, text):
    lines = text.split("\n")
    if len(lines) - 1 > LONGEST_FILE and name not in DATA_LIKE:
        yield len(lines) - 1, f"longer than {LONGEST_FILE} lines"
    if name.endswith(".hpp"):
        if "#pragma once" not in lines:
            yield 1, "no #pragma once"
        if re.search(r"^\s*using namespace", text, re.M):
            yield 1, "a header with using namespace"
    if name.endswith((".cpp", ".hpp")):
        for number, length in functions(lines):
            # A test may be a long table of cases.
            if length > LONGEST_FUNCTION and not name.startswith("tests/"):
                yield number, f"a function of {length} lines; at most {LONGEST_FUNCTION}"
        yield from check_awaits(lines)
        for number, line in enumerate(lines, 1):
            if not name.startswith("tests/") and re.search(r"(std|(?<!\w))::_?(quick_)?(exit|abort)\(", line.split("//")[0]):
                yield number, "ends the process: return an error instead"
    for number, line in enumerate(lines, 1):
        if len(line) > WIDEST_LINE and not name.startswith(DENSE):
            yield number, f"wider than {WIDEST_LINE} columns"


def check_text(name, text):
    for number, line in enumerate(text.split("\n"), 1):
        if UNFINISHED.search(line):
            yield number, "a mark of unfinished work"
        if PLACES.search(line):
            yield number, "a path of somebody's machine"
        if line != line.rstrip() and not name.endswith(".md"):
            yield number, "space at the end of the line"
    if text and not text.endswith("\n"):
        yield text.count("\n") + 1, "no newline at the end"


def check_readme(folder, names):
    name = f"{folder}/README.md" if folder else "README.md"
    if name not in names:
        yield name, 0, "missing: what lives here, what may enter, where to start reading"
        return
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        count = len(f.read().split("\n")) - 1
    if folder and count > README_LINES:
        yield name, count, f"longer than a page ({README_LINES} lines)"


def breaches():
    names = listed()
    for top in sorted({name.split("/")[0] for name in names}):
        if top not in TOP and not top.startswith("."):
            yield top, 0, "does not belong at the top"
    for folder in ["", *ROOMS]:
        yield from check_readme(folder, names)
    for name in names:
        is_code = name.endswith(CODE) or name.endswith("CMakeLists.txt")
        if not (is_code or name.endswith((".md", ".json", ".inc"))) or name.startswith(NOT_OURS_TO_TIDY):
            continue
        with open(os.path.join(ROOT, name), encoding="utf-8") as f:
            text = f.read()
        if not name.endswith(("package-lock.json", ".inc")):
            yield from ((name, *found) for found in check_text(name, text))
        if is_code:
            yield from ((name, *found) for found in check_code(name, text))


def self_test():
    """The rules find what they are for: a check that cannot fail checks nothing."""
    bad = ["x = co_await f(Thing{1});", "co_await run([&] { g(); });", "y = a ? co_await f() : 0;", "T t{co_await f()};"]
    good = ["const auto x = co_await f(name);", "if (co_await g(x)) {", "co_await f(std::move(name));", "while (!(co_await h(a, b))) {"]
    for line in bad:
        assert list(check_awaits([line])), line
    for line in good:
        assert not list(check_awaits([line])), line
    assert [length for _, length in functions(["int f() {", "  g();", "}"])] == [3]


def main():
    self_test()
    count = 0
    for name, number, what in breaches():
        print(f"{name}:{number}: {what}")
        count += 1
    print(f"{count} breaches")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
