"""Commands on a machine that fails: full disks, folders that cannot be written, files
that change, little memory.

A case is a command in a process of its own under one fault. It must end within a minute
with exit code 0, 1 or 2, without a traceback, and after an error with one printable
line that names the cause. The output file is the former one or a whole new one, and
nothing else is left beside it. Most processes are forked from one that has imported
everything; those whose fault matters at the start are new ones.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

import bochner as bo

# Of a processor, and by the clock where others use the machine
SECONDS, LONGEST = 60, 600
INPUTS = "rows.csv", "rows.parquet", "model"
COMMAND = "from bochner.cli import main; main()"
FULL = r"no space left|file too large"
MEMORY = (
    r"memory|allocat|malloc|shared object|can't start new thread|failed to "
    r"map|resource temporarily unavailable"
)
CHANGED = r"changed|vanished|no such file|damaged|truncated|empty|line \d|bytes \d"
REMARKS = "warning: ", "Compiling inner loops"


class Done(NamedTuple):
    """How a process ended, and what it printed."""

    code: int
    out: str
    err: str


def serve() -> None:
    """Fork a process for each line of standard input; tell its number, then its exit
    code and what it printed.
    """
    import bochner.cli.app
    import bochner.cli.evaluation
    import bochner.cli.fitting
    import bochner.estimators
    import bochner.loops.compile
    import bochner.report  # noqa: F401

    while line := sys.stdin.readline():
        job, pipes = json.loads(line), (os.pipe(), os.pipe())
        child = os.fork()
        if not child:
            for number, (_, end) in enumerate(pipes, 1):
                os.dup2(end, number)
            for descriptor in (number for pair in pipes for number in pair):
                os.close(descriptor)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            sys.stdout, sys.stderr = (
                open(number, "w", encoding="utf-8")  # noqa: SIM115
                for number in (1, 2)
            )
            limit_time(job["seconds"])
            os.chdir(job["cwd"])
            sys.argv = ["bochner", *job["arguments"]]
            exec(compile(job["code"], "<case>", "exec"), {"__name__": "__main__"})  # noqa: S102
            return
        print(child, flush=True)
        texts = []
        for begin, end in pipes:
            os.close(end)
            with open(begin, encoding="utf-8", errors="surrogateescape") as file:
                texts.append(file.read())
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps([code, *texts]), flush=True)


def limit_time(seconds: int) -> None:
    """End this process after so many seconds of a processor, or ten times as many by
    the clock.
    """
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (seconds, 2 * seconds))
    signal.alarm(10 * seconds)


class Lab:
    """A folder with tables and a model, what commands make of them when nothing fails,
    and the process that forks.

    Parameters
    ----------
    folder : Path
    rows : int
        Of the tables. More make files that are read for longer.
    names : sequence of str, optional
        Of tasks; by default all.
    """

    def __init__(
        self, folder: Path, rows: int = 2000, names: Sequence[str] = ()
    ) -> None:
        self.folder, self.rows, self.names = folder, rows, tuple(names or TASKS)
        rng = np.random.default_rng(0)
        X = rng.normal(size=(rows, 3))
        table = pa.table(
            {
                "x0": X[:, 0],
                "x1": X[:, 1],
                "x2": X[:, 2],
                "y": X[:, 0] + np.sin(X[:, 1]),
            }
        )
        csv.write_csv(table, folder / "rows.csv")
        parquet.write_table(
            table, folder / "rows.parquet", row_group_size=max(rows // 40, 1)
        )
        model = bo.KernelMachineRegressor(
            "gaussian", n_components=64, alpha=1.0, features="fourier", random_state=0
        )
        bo.save(
            model.fit(table.slice(0, 2000).drop(["y"]), X[:2000, 0]),
            folder / "model",
            {"target": "y"},
        )
        self.start()
        self.whole: dict[str, bytes] = {}
        for name in self.names:
            self.whole[name] = b""
            out = folder / f"whole{TASKS[name][1]}"
            done = self.run(
                self.arguments(name, out), folder, seconds=10 * SECONDS
            )  # loops may have to be compiled
            assert done.code == 0, f"{name}: {done.err}"
            self.whole[name] = out.read_bytes()
            out.unlink()

    def start(self) -> None:
        """Start the process that forks, and see what this user may do."""
        self.mounts = _can_mount()
        self.server = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def close(self) -> None:
        """End the process that forks."""
        assert self.server.stdin is not None
        self.server.stdin.close()
        self.server.wait()
        assert self.server.stdout is not None
        self.server.stdout.close()

    def arguments(self, name: str, out: str | os.PathLike[str]) -> list[str]:
        """The command of a task that writes this file."""
        words = [
            str(self.folder / word) if word in INPUTS else word
            for word in TASKS[name][0]
        ]
        return [*words, "--out", os.fspath(out)]

    def run(
        self,
        arguments: list[str],
        cwd: Path,
        prelude: str = "",
        meanwhile: Callable[[int], object] | None = None,
        seconds: int = SECONDS,
    ) -> Done:
        """Run a command in a process that is forked, after a prelude."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        job = {
            "code": f"{prelude}\n{COMMAND}",
            "arguments": arguments,
            "cwd": str(cwd),
            "seconds": seconds,
        }
        self.server.stdin.write(json.dumps(job).encode() + b"\n")
        self.server.stdin.flush()
        child = int(self.server.stdout.readline())
        if meanwhile is not None:
            meanwhile(child)
        return Done(*json.loads(self.server.stdout.readline()))


def started(
    arguments: list[str], cwd: Path, prelude: str = "", **environment: str | None
) -> subprocess.Popen:
    """A new process of a command, after a prelude, which has a minute; None takes a
    variable away.
    """
    words = {
        name: value
        for name, value in (os.environ | environment).items()
        if value is not None
    }
    code = (
        "import resource, signal; resource.setrlimit(resource.RLIMIT_CPU, "
        f"({SECONDS}, {2 * SECONDS}))\n"
    )
    code += f"signal.alarm({LONGEST})\n{prelude}\n{COMMAND}"
    command = [sys.executable, "-c", code, *map(os.fsencode, arguments)]
    pipes = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }
    return subprocess.Popen(command, env=words, cwd=cwd, **pipes)  # type: ignore[call-overload]


def ended(process: subprocess.Popen) -> Done:
    """How it ended."""
    out, err = process.communicate()
    return Done(
        process.returncode,
        *(text.decode("utf-8", "surrogateescape") for text in (out, err)),
    )


TASKS: dict[str, tuple[tuple[str, ...], str]] = {
    "fit": (
        (
            "fit",
            "rows.csv",
            "--target",
            "y",
            "--n-components",
            "32",
            "--seed",
            "0",
            "--test-size",
            "0",
        ),
        ".st",
    ),
    "predict": (("predict", "model", "rows.csv"), ".csv"),
    "predict parquet": (("predict", "model", "rows.parquet"), ".parquet"),
    "predict gzip": (("predict", "model", "rows.csv"), ".csv.gz"),
    "explain": (("explain", "model", "rows.parquet", "--rows", "50"), ".csv"),
    "report": (("report", "model", "rows.csv"), ".html"),
}
STREAMED = (
    "--sample",
    "1000",
    "--features",
    "fourier",
    "--kernel",
    "gaussian",
    "--alpha",
    "1",
)


def complaint(
    done: Done, cause: str = "", starts: tuple[str, ...] = ("error: ",)
) -> str:
    """What is wrong with how a command ended: "" for nothing.

    Parameters
    ----------
    done : Done
    cause : str
        Expression that the line of an error must match.
    starts : tuple of str
        How that line may begin.
    """
    lines = [line for line in done.err.splitlines() if not line.startswith(REMARKS)]
    if done.code in (-signal.SIGXCPU, -signal.SIGALRM):
        return f"took longer than {SECONDS} s"
    if done.code not in (0, 1, 2):
        return f"ended with {done.code}: {done.err[-300:]!r}"
    if "Traceback" in done.err:
        return f"printed a traceback: {done.err[-400:]!r}"
    if any(not (c.isprintable() or c in "\n\t") for c in done.err):
        return f"printed what steers a terminal: {done.err[-300:]!r}"
    if done.code == 0 and lines:
        return f"succeeded and said {lines}"
    if done.code == 1 and (len(lines) != 1 or not lines[0].startswith(starts)):
        return f"said {done.err[-300:]!r}"
    if done.code == 1 and not re.search(cause, lines[0], re.IGNORECASE):
        return f"names no cause: {lines[0]!r}"
    return ""


def contents(folder: Path) -> dict[bytes, bytes | None]:
    """Names in a folder, and what is in the files."""
    return {
        os.fsencode(path.name): path.read_bytes() if path.is_file() else None
        for path in folder.iterdir()
    }


def incomplete(lab: Lab, name: str, path: str | os.PathLike[str]) -> str:
    """What is wrong with the output of a task that has succeeded."""
    found = Path(path).read_bytes()
    if name == "fit":
        bo.load(path)
        return ""
    if name == "report":
        return (
            ""
            if found.rstrip().endswith(b"</html>")
            else f"wrote {len(found)} bytes of a page"
        )
    return (
        ""
        if found == lab.whole[name]
        else f"wrote {len(found)} bytes in place of {len(lab.whole[name])}"
    )


def outcome(
    lab: Lab,
    name: str,
    out: Path,
    before: dict[bytes, bytes | None],
    done: Done,
    cause: str = "",
) -> str:
    """What is wrong with the end of a task, and what it left in the folder of its
    output.
    """
    wrong = complaint(done, cause)
    if wrong:
        return wrong
    after, own = contents(out.parent), os.fsencode(out.name)
    if done.code == 0:
        wrong = incomplete(lab, name, out)
        after.pop(own)
        before = {other: value for other, value in before.items() if other != own}
    if after != before:
        changed = sorted(
            key
            for key in after.keys() | before.keys()
            if after.get(key, b"-") != before.get(key, b"-")
        )
        return f"ended with {done.code} and changed {changed}"
    return wrong


def of_library(done: Done) -> bool:
    """Whether a process was ended by OpenBLAS or LLVM, which say why in their own
    words, some by SIGINT.
    """
    return (
        done.code in (1, 130)
        and "Traceback" not in done.err
        and done.err.startswith(("OpenBLAS ", "LLVM ERROR"))
    )


def _can_mount() -> bool:
    """Whether this user may mount file systems."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["mount", "-t", "tmpfs", "none", folder]
        if (
            not shutil.which("mount")
            or subprocess.run(command, capture_output=True).returncode
        ):
            return False
        subprocess.run(["umount", folder], check=True)
    return True


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[None]:
    """Mount something at a folder while the block runs."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", *options, str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def pick(rng: np.random.Generator, things: Any) -> Any:
    """One of some things."""
    things = list(things)
    return things[int(rng.integers(len(things)))]


def former(rng: np.random.Generator, path: Path) -> None:
    """Perhaps a former file at the place of an output."""
    if rng.integers(2):
        path.write_bytes(b"former")


def full_disk(
    lab: Lab, folder: Path, rng: np.random.Generator, mounts: bool = True
) -> tuple[str, str]:
    """A file system that is full after some of the output, or a limit on the size of
    files.
    """
    name = pick(rng, lab.names)
    free = int(rng.uniform(0, 1.2) * len(lab.whole[name]))
    if not (lab.mounts and mounts and rng.integers(2)):
        out = folder / f"out{TASKS[name][1]}"
        former(rng, out)
        before = contents(folder)
        limit = (
            "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, "
            f"({free}, resource.RLIM_INFINITY))"
        )
        done = lab.run(lab.arguments(name, out), folder, limit)
        return f"{name}, files of at most {free} bytes", outcome(
            lab, name, out, before, done, FULL
        )
    disk = folder / "disk"
    with mounted(disk, "-t", "tmpfs", "-o", "size=2m", "none"):
        out = disk / f"out{TASKS[name][1]}"
        former(rng, out)
        (disk / "filling").write_bytes(
            b"x" * max(2**21 - 4096 * rng.integers(1, 4) - free, 0)
        )
        before = contents(disk)
        done = lab.run(lab.arguments(name, out), folder)
        return f"{name}, {free} bytes free", outcome(lab, name, out, before, done, FULL)


def no_place(lab: Lab, folder: Path, rng: np.random.Generator) -> tuple[str, str]:
    """An output that cannot be written: the folder, or what has the name."""
    name = pick(rng, lab.names)
    suffix = TASKS[name][1]
    own = folder / "own"
    own.mkdir()
    (own / "file").write_bytes(b"")
    (own / f"folder{suffix}").mkdir()
    (own / f"loop{suffix}").symlink_to(own / f"loop{suffix}")
    (own / f"dangling{suffix}").symlink_to(own / "missing" / "file")
    os.mkfifo(own / f"fifo{suffix}")
    places = [
        f"missing/out{suffix}",
        f"file/out{suffix}",
        f"folder{suffix}",
        f"loop{suffix}",
        f"dangling{suffix}",
    ]
    places += [
        f"fifo{suffix}",
        "x" * 300 + suffix,
        f"out{suffix}/",
        "",
        ".",
        "x/" * 2500 + suffix,
    ]
    place = pick(rng, [*places, *["read-only"] * 3 * lab.mounts])
    cause = (
        r"folder|directory|regular file|read-only|too long|too many|name|cannot "
        r"be written|no such file"
    )
    if place == "read-only":
        disk = folder / "disk"
        with mounted(disk, "-t", "tmpfs", "-o", "size=2m", "none"):
            out = disk / f"out{suffix}"
            former(rng, out)
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
            before = contents(disk)
            done = lab.run(lab.arguments(name, out), folder)
            wrong = outcome(lab, name, out, before, done, cause)
            return f"{name}, read-only", wrong or (
                "" if done.code == 1 else "succeeded"
            )
    before = contents(own)
    done = lab.run(lab.arguments(name, place), own)
    if (
        place.startswith("loop") and done.code == 0
    ):  # which is no name of anything, and is replaced
        return f"{name}, loop", incomplete(lab, name, own / place)
    wrong = complaint(done, cause) or ("" if done.code else f"succeeded: {done.out!r}")
    return f"{name}, {place[:20]!r}", wrong or (
        "" if contents(own) == before else "changed the folder"
    )


def changed_input(lab: Lab, folder: Path, rng: np.random.Generator) -> tuple[str, str]:
    """An input that is removed, cut, prolonged or replaced while it is read."""
    kind, what = (
        pick(rng, (".csv", ".parquet")),
        pick(rng, ("remove", "cut", "append", "replace")),
    )
    data = folder / f"input{kind}"
    shutil.copy(lab.folder / f"rows{kind}", data)
    size, seconds = data.stat().st_size, rng.uniform(0, 0.4) ** 2
    cut = int(rng.integers(size))
    content = data.read_bytes()

    def change(child: int) -> None:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and str(data) not in _open_files(child):
            if _is_over(child):
                return
        time.sleep(seconds)
        match what:
            case "remove":
                data.unlink()
            case "cut":
                os.truncate(data, cut)
            case "append":
                with open(data, "ab") as file:
                    file.write(content[-cut:])
            case "replace":
                (folder / "other").write_bytes(content[:cut])
                os.replace(folder / "other", data)

    words = [
        "--target",
        "y",
        "--n-components",
        "32",
        "--seed",
        "0",
        "--test-size",
        "0",
        *STREAMED,
    ]
    task = pick(rng, ("fit", "predict", "streamed predict"))
    out = folder / ("out.st" if task == "fit" else "out.csv")
    former(rng, out)
    if task == "fit":
        arguments = ["fit", str(data), *words, "--out", str(out)]
    else:
        arguments = ["predict", str(lab.folder / "model"), str(data), "--out", str(out)]
        arguments += ["--memory-limit", "4MB"] if task == "streamed predict" else []
    before = contents(folder)
    done = lab.run(arguments, folder, meanwhile=change)
    case = f"{task} {kind}, {what} at {cut} of {size} after {seconds:.3f} s"
    wrong = complaint(done, CHANGED)
    after = contents(folder)
    for files in (before, after):
        files.pop(os.fsencode(data.name), None)
    if wrong or done.code:
        return case, wrong or (
            "" if after == before else "failed and changed its folder"
        )
    if task == "fit":
        bo.load(out)
        return case, ""
    found, whole = out.read_bytes().splitlines(), lab.whole["predict"].splitlines()
    own = 1 + content[:cut].count(b"\n") if kind == ".csv" else 0
    alike = (
        found[: min(len(found), len(whole)) - 1]
        == whole[: min(len(found), len(whole)) - 1]
    )
    return case, "" if alike and (
        len(found) == len(whole) or abs(len(found) - own) < 3
    ) else f"wrote {len(found)} rows"


def _open_files(process: int) -> list[str]:
    """Files that a process has open."""
    found = []
    try:
        for name in os.listdir(f"/proc/{process}/fd"):
            found.append(os.readlink(f"/proc/{process}/fd/{name}"))
    except OSError:
        pass
    return found


def _is_over(process: int) -> bool:
    """Whether a process has ended."""
    try:
        return (
            Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
            == "Z"
        )
    except OSError:
        return True


def little_memory(lab: Lab, folder: Path, rng: np.random.Generator) -> tuple[str, str]:
    """A limit on addresses, so much above those that are taken after the imports."""
    name, extra = pick(rng, lab.names), int(10 ** rng.uniform(0, 3.2))
    out = folder / f"out{TASKS[name][1]}"
    former(rng, out)
    before = contents(folder)
    limit = (
        "import resource\ntaken = 4096 * "
        "int(open('/proc/self/statm').read().split()[0])\n"
    )
    limit += f"resource.setrlimit(resource.RLIMIT_AS, (taken + {extra << 20},) * 2)"
    done = lab.run(lab.arguments(name, out), folder, limit)
    case = f"{name}, {extra} MB more"
    if of_library(done):
        return case, "" if contents(folder) == before else "changed the folder"
    return case, outcome(lab, name, out, before, done, MEMORY)


def little_memory_at_the_start(
    lab: Lab, folder: Path, rng: np.random.Generator
) -> tuple[str, str]:
    """As `little_memory`, from the start of the process. Libraries may say it in
    their own words.
    """
    name, limit = pick(rng, lab.names), int(10 ** rng.uniform(1.7, 3.6))
    out = folder / f"out{TASKS[name][1]}"
    former(rng, out)
    before = contents(folder)
    prelude = (
        f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({limit << 20},) * 2)"
    )
    done = ended(started(lab.arguments(name, out), folder, prelude))
    case = f"{name}, {limit} MB in all"
    if of_library(done):
        return case, "" if contents(folder) == before else "changed the folder"
    return case, outcome(lab, name, out, before, done, MEMORY)


LOCALES = ("C", "POSIX", "C.UTF-8", "tr_TR.UTF-8", "de_DE.ISO-8859-1")
HARD = ["é ü", "\udcff\udcfe", "İ", "日本", "a b", "x"]


def locales(lab: Lab, folder: Path, rng: np.random.Generator) -> tuple[str, str]:
    """A locale, encodings, and names that these may not have."""
    name, there, place = (
        pick(rng, lab.names),
        rng.integers(4) > 0,
        os.fsencode(pick(rng, HARD)),
    )
    variables: dict[str, str | None] = {
        "LC_ALL": pick(rng, LOCALES),
        "PYTHONUTF8": pick(rng, ("0", "0", "0", "1", None)),
    }
    variables |= {"PYTHONCOERCECLOCALE": pick(rng, ("0", None)), "LANG": None}
    variables |= {
        "OMP_WAIT_POLICY": None
    }  # whose value the library of OpenMP does not know in Turkish
    variables |= {"PYTHONIOENCODING": pick(rng, ("ascii", "latin-1", None, None))}
    own = Path(os.fsdecode(os.path.join(os.fsencode(folder), place)))
    own.mkdir()
    data = own / (TASKS[name][0][1 if name == "fit" else 2])
    if there:
        shutil.copy(lab.folder / data.name, data)
    out = own / f"out{TASKS[name][1]}"
    before = contents(own)
    arguments = [
        os.fspath(data) if word.endswith(data.name) else word
        for word in lab.arguments(name, out)
    ]
    done = ended(started(arguments, folder, **variables))
    case = f"{name}, {place!r}, {variables}"
    wrong = outcome(lab, name, out, before, _replaced(done), r"no such file")
    return case, wrong or (
        ""
        if done.code == (0 if there else 1)
        else f"ended with {done.code}: {done.err}"
    )


def _replaced(done: Done) -> Done:
    """With characters of other encodings than UTF-8 as if they were of it."""
    return done._replace(
        err=done.err.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    )


NAMES = [
    "a b",
    " ",
    "a\nb",
    "'",
    '"',
    "`id`",
    "$(id)",
    "-",
    "-x",
    "--out",
    "--help",
    "[x]",
    "*",
    "?",
    "{0}",
    "%s",
    "#",
]
NAMES += [
    "\udcff\udcfe",
    "\u202e",
    "\x1b[2J",
    "\x7f",
    "é",
    "e\u0301",
    "~",
    "a:b",
    "a\\b",
    "=1",
    "x" * 240,
    ".hidden",
]
NAMES += [
    "http:",
    "C:",
    "\t",
    "\r",
    "a;b",
    "a&b",
    "<b>",
    "[red]",
    ":smile:",
    "\u2028",
    "_x",
]


def paths(lab: Lab, folder: Path, rng: np.random.Generator) -> tuple[str, str]:
    """Names with blanks, ends of lines, quotes, dashes, marks of patterns and bytes
    that are not UTF-8.
    """
    name, part, where = (
        pick(rng, lab.names),
        pick(rng, NAMES),
        pick(rng, ("folder", "file", "bare", "missing")),
    )
    inputs, suffix = (
        {word for word in TASKS[name][0] if (lab.folder / word).is_file()},
        TASKS[name][1],
    )
    own = folder / part if where == "folder" else folder
    own.mkdir(exist_ok=True)
    arguments = lab.arguments(
        name, own / f"{part}-out{suffix}" if where != "bare" else f"{part}-out{suffix}"
    )
    for word in inputs:
        path = own / f"{part}{Path(word).suffix}" if where != "folder" else own / word
        if where != "missing":
            shutil.copy(lab.folder / word, path)
        at = arguments.index(str(lab.folder / word))
        arguments[at] = os.fspath(path) if where != "bare" else path.name
    out = own / f"{part}-out{suffix}"
    before = contents(own)
    done = lab.run(arguments, folder)
    case = f"{name}, {part!r} as {where}"
    wrong = outcome(
        lab, name, out, before, done, r"no such file|pattern|this machine only|input"
    )
    right = {"missing": (1,), "bare": (0, 1, 2)}.get(
        where, (0, 1) if part in ("[x]", "*", "?") else (0,)
    )
    return case, wrong or (
        "" if done.code in right else f"ended with {done.code}: {done.err}"
    )


def set_back(lab: Lab, folder: Path, rng: np.random.Generator) -> tuple[str, str]:
    """A clock that is set back again and again."""
    name, step = pick(rng, lab.names), float(10 ** rng.uniform(-3, 9))
    out = folder / f"out{TASKS[name][1]}"
    before = contents(folder)
    prelude = (
        "import time; own = time.time; back = [0.0]\ndef late():\n    back[0] "
        f"+= {step}\n    return own() - back[0]\n"
    )
    prelude += "time.time = late; time.time_ns = lambda: int(1e9 * late())"
    done = lab.run([*lab.arguments(name, out), "--json"], folder, prelude)
    wrong = outcome(lab, name, out, before, done) or (
        "" if done.code == 0 else f"failed: {done.err}"
    )
    if not wrong and not 0 <= json.loads(done.out)["seconds"] < SECONDS:
        wrong = f"took {json.loads(done.out)['seconds']} s"
    return f"{name}, back by {step:.3g} s at each look", wrong


def no_home(lab: Lab, folder: Path, rng: np.random.Generator) -> tuple[str, str]:
    """No folder for compiled loops, or no home."""
    name, file = pick(rng, lab.names), folder / "file"
    file.touch()
    out = folder / f"out{TASKS[name][1]}"
    home = pick(
        rng, (None, "", str(folder / "missing"), str(file), "/proc", "relative", "~")
    )
    variables = {"HOME": home, "XDG_CACHE_HOME": pick(rng, (None, str(file), ""))}
    before = contents(folder)
    done = ended(started(lab.arguments(name, out), folder, **variables))
    wrong = outcome(lab, name, out, before, done)
    return f"{name}, {variables}", wrong or (
        "" if done.code == 0 else f"failed: {done.err}"
    )


def no_cache(lab: Lab, folder: Path, rng: np.random.Generator) -> tuple[str, str]:
    """A folder for compiled loops that is read-only, or full after some of them."""
    name = pick(rng, ("predict", "predict parquet", "fit"))
    out, disk, free = (
        folder / f"out{TASKS[name][1]}",
        folder / "disk",
        int(rng.integers(8, 400)),
    )
    if not lab.mounts:
        return "no mounts", ""
    read_only = rng.integers(3) == 0
    with mounted(disk, "-t", "tmpfs", "-o", f"size={4 * free}k", "none"):
        if read_only:
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        before = contents(folder)
        done = ended(
            started(
                lab.arguments(name, out), folder, NUMBA_CACHE_DIR=str(disk / "cache")
            )
        )
        left = [path.name for path in disk.rglob("*tmp*")]
        wrong = outcome(lab, name, out, before, done)
    wrong = (
        wrong
        or ("" if done.code == 0 else f"failed: {done.err}")
        or (f"left {left}" if left else "")
    )
    return f"{name}, cache {'read-only' if read_only else f'of {4 * free} kB'}", wrong


def together(lab: Lab, folder: Path, rng: np.random.Generator) -> tuple[str, str]:
    """Two commands that write one file at the same time, now and then with one empty
    folder for compiled loops.
    """
    name, empty = pick(rng, lab.names), rng.integers(5) == 0
    out = folder / f"out{TASKS[name][1]}"
    former(rng, out)
    before = contents(folder)
    variables = {"NUMBA_CACHE_DIR": str(folder.parent / "loops")} if empty else {}
    processes = [
        started(lab.arguments(name, out), folder, **variables) for _ in range(2)
    ]
    found = [ended(process) for process in processes]
    if empty:
        found.append(ended(started(lab.arguments(name, out), folder, **variables)))
        shutil.rmtree(folder.parent / "loops")
    wrong = next(
        filter(None, (outcome(lab, name, out, before, done) for done in found)), ""
    )
    failed = [done.err for done in found if done.code]
    return f"two of {name}{', no loops' if empty else ''}", wrong or (
        f"failed: {failed}" if failed else ""
    )


LIMITED = """
import sys
from importlib import import_module
from pathlib import Path
for name in ("numba", "pyarrow.parquet", "scipy.optimize", "bochner.estimators.machine", "bochner.loops.trig"):
    import_module(name)
import bochner as bo
def figure(name):
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition(name + ":")[2].split()[0])
model = bo.{model}({kernel!r}, n_components={size}, features={features!r}, alpha=1.0, solver={solver!r}, random_state=0)
Path("/proc/self/clear_refs").write_text("5")
before = figure("VmRSS")
try:
    with bo.settings(memory_limit={limit}):
        model.fit({path!r}, "y")
except MemoryError as error:
    print("refused:", error, file=sys.stderr)
print(figure("VmHWM") - before)
"""


def within_limit(folder: Path, seed: int) -> tuple[str, str, float]:
    """A fit within a memory limit: the case, what is wrong if it takes more than a
    tenth more, and seconds.

    What the libraries hold before does not count. A fit that cannot keep to the limit
    must refuse.
    """
    rng, start = np.random.default_rng([seed, 1]), time.perf_counter()
    limit, columns = int(1e9 * rng.choice([0.5, 1.0, 2.0])), int(2 ** rng.uniform(1, 6))
    rows = int(min(6e6 / columns, 10 ** rng.uniform(4.5, 5.7)))
    features, solver = pick(
        rng, (("fourier", "direct"), ("fourier", "cg"), ("binning", "cg"))
    )
    kernel = "gaussian" if features == "fourier" else "laplacian"
    model, size = (
        pick(rng, ("KernelMachineRegressor", "KernelMachineClassifier")),
        int(2 ** rng.uniform(6, 12.5)),
    )
    size = size // 8 if features == "binning" else size
    X = rng.standard_normal((rows, columns), np.float32)
    y = X[:, 0] + np.sin(X[:, 1])
    target = np.where(y > 0, "a", "b") if model.endswith("Classifier") else y
    path = folder / "limited.parquet"
    table = pa.table({**{f"x{j}": column for j, column in enumerate(X.T)}, "y": target})
    parquet.write_table(
        table, path, row_group_size=int(rng.choice([20_000, 200_000, rows]))
    )
    del X, y, target, table
    words = {
        "model": model,
        "kernel": kernel,
        "size": size,
        "features": features,
        "solver": solver,
        "limit": limit,
    }
    code = LIMITED.format(path=str(path), **words)
    case = (
        f"{seed} {model} {features} {solver}, {rows:,} x {columns}, {size} "
        f"components, {limit / 1e9} GB"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=10 * SECONDS,
        )
    except subprocess.TimeoutExpired:
        return case, "took ten minutes", time.perf_counter() - start
    wrong = (
        f"ended with {done.returncode}: {done.stderr[-300:]}" if done.returncode else ""
    )
    if not wrong and int(done.stdout) > 1.1 * limit:
        wrong = f"took {int(done.stdout) / 1e6:.0f} MB"
    return (
        case + (" (refused)" if "refused:" in done.stderr else ""),
        wrong,
        time.perf_counter() - start,
    )


KINDS: dict[str, Callable[[Lab, Path, np.random.Generator], tuple[str, str]]] = {
    "full disk": full_disk,
    "no place for the output": no_place,
    "input changes": changed_input,
    "little memory": little_memory,
    "little memory at the start": little_memory_at_the_start,
    "locales": locales,
    "paths": paths,
    "clock set back": set_back,
    "no home": no_home,
    "no cache": no_cache,
    "two at once": together,
}


COSTLY = dict.fromkeys(
    ("little memory at the start", "locales", "no home", "no cache", "two at once"), 5
)
"""What takes so many times as long as the others, in processes of its own."""


def judge(kind: str, seed: int, lab: Lab) -> tuple[str, str, float]:
    """A case in words, what is wrong with it, and its seconds."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=lab.folder) as name:
        case, wrong = KINDS[kind](
            lab, Path(name), np.random.default_rng([seed, list(KINDS).index(kind)])
        )
    return f"{seed} {case}", wrong, time.perf_counter() - start


if __name__ == "__main__":
    serve()
