"""A process that lives long: thousands of fits, many threads, forks and interrupts, and
the models stay what they are.

Each model has predictions that it made alone, at the beginning. Whatever the process
has done since, another fit gives the same bits. Memory, threads and open files do not
grow, an interrupt ends a fit at once and leaves nothing behind, processes that are made
afterwards can fit, and threads that compute at once are as many as there are
processors. The kind of Jupyter kernels needs ipykernel (``pip install ipykernel``).
"""

from __future__ import annotations

import _thread
import asyncio
import gc
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from threadpoolctl import threadpool_info

import bochner as bo
from bochner.engines.local import n_threads
from bochner.kernels import Gaussian, Laplacian

Verdict = tuple[
    str, str, float
]  # a case in words, what is wrong with it, and its seconds
SMALL: dict[str, Any] = {
    "kernel": Gaussian(),
    "n_components": 40,
    "alpha": 1.0,
    "random_state": 0,
}
BINS: dict[str, Any] = {
    "features": bo.BinningFeatures(Laplacian(4.0), 10, random_state=0),
    "random_state": 0,
}
MODELS: dict[str, Callable[[], Any]] = {
    "moments": lambda: bo.KernelMachineRegressor(**SMALL),
    "gradients": lambda: bo.KernelMachineRegressor(**SMALL, solver="cg"),
    "bins": lambda: bo.KernelMachineRegressor(**BINS, alpha=1.0),
    "classes": lambda: bo.KernelMachineClassifier(**SMALL),
}
# Fits before the first look, between two looks, and what memory may become
WARM, EVERY, GROWTH = 100, 100, 1.05
LIMIT = 60.0  # seconds of a child
SETTLED = 2.0  # seconds in which helpers finish what they have begun
# Share of looks at which more threads than processors may run, as one begins while
# another ends
CROWDED = 0.05


@cache
def rows() -> tuple[np.ndarray, np.ndarray]:
    """Rows and targets, more than one block of them."""
    X = np.random.default_rng(0).normal(size=(2500, 3)).astype(np.float32)
    return X, X[:, 0] + np.sin(2 * X[:, 1])


def fitted(name: str) -> Any:
    """A model that has been fitted."""
    X, y = rows()
    return MODELS[name]().fit(X, y > 0 if name == "classes" else y)


def bits(model: Any) -> str:
    """A hash of what a model predicts."""
    predict = getattr(model, "predict_proba", model.predict)
    return sha256(np.ascontiguousarray(predict(rows()[0])).tobytes()).hexdigest()


def again(name: str) -> str:
    """The bits of a model that is fitted now."""
    return bits(fitted(name))


@cache
def alone() -> dict[str, str]:
    """The bits of all models, and of none of them again."""
    return {name: again(name) for name in MODELS}


def differing(found: dict[str, str] | list[tuple[str, str]]) -> str:
    """The models whose bits are not those of a fit alone."""
    pairs = found.items() if isinstance(found, dict) else found
    return ", ".join(sorted({name for name, own in pairs if own != alone()[name]}))


def blas_threads() -> list[int]:
    """Threads of each BLAS library."""
    return [
        library["num_threads"]
        for library in threadpool_info()
        if library["user_api"] == "blas"
    ]


def held() -> tuple[int, int, int]:
    """Resident bytes, threads and open files of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return (
        pages * resource.getpagesize(),
        len(os.listdir("/proc/self/task")),
        len(os.listdir("/proc/self/fd")),
    )


def fits(number: int) -> Iterator[Verdict]:
    """Fits and predictions one after the other, of each model in turn, and looks at
    what the process holds.
    """
    first: tuple[int, int, int] | None = None
    alone()
    for k in range(number):
        start, name, wrong = time.perf_counter(), list(MODELS)[k % len(MODELS)], ""
        if again(name) != alone()[name]:
            wrong = "other bits"
        if (k + 1) % EVERY == 0 and k + 1 >= WARM:
            now = held()
            first = first or now
            if now[0] > GROWTH * first[0] or now[1:] != first[1:]:
                wrong = f"holds {now} (bytes, threads, files) after {first}"
        yield f"fit {k} {name}", wrong, time.perf_counter() - start


WAYS: dict[str, Callable[[], object]] = {
    "interrupt_main": _thread.interrupt_main,
    "raise_signal": lambda: signal.raise_signal(signal.SIGINT),
    "kill": lambda: os.kill(os.getpid(), signal.SIGINT),
}


def interrupted(
    work: Callable[[], object], moment: float, way: Callable[[], object]
) -> str:
    """Interrupt work after some seconds; what is wrong with how it ends."""

    def send() -> None:
        time.sleep(moment)
        way()

    thread = threading.Thread(target=send)
    try:
        thread.start()
        work()
        thread.join(LIMIT)
        time.sleep(0.05)  # for an interrupt after the work
    except KeyboardInterrupt:
        return ""
    finally:
        thread.join(LIMIT)
    return "the interrupt was lost"


def interrupts(number: int, first: int = 0) -> Iterator[Verdict]:
    """Fits that are interrupted at random moments, as a notebook does it, each with
    another fit after it.
    """
    alone()
    for name in MODELS:
        again(name)  # lest the first ones that are timed are slower
    seconds = {name: _seconds(name) for name in MODELS}
    before, collects, most = blas_threads(), gc.isenabled(), held()[1] + n_threads()
    for seed in range(first, first + number):
        rng, start = np.random.default_rng(seed), time.perf_counter()
        name, way = (
            list(MODELS)[seed % len(MODELS)],
            list(WAYS)[seed // len(MODELS) % len(WAYS)],
        )
        ignored: list[Any] = []
        former, sys.unraisablehook = sys.unraisablehook, ignored.append
        try:
            moment = float(rng.uniform(0, 1.1 * seconds[name]))
            wrong = interrupted(lambda name=name: again(name), moment, WAYS[way])  # type: ignore[misc]
        finally:
            sys.unraisablehook = former
        if not wrong and not settled(before):
            wrong = f"BLAS has {blas_threads()} threads, and had {before}"
        if not wrong and gc.isenabled() != collects:
            wrong = "garbage is no longer collected"
        if not wrong and again(name) != alone()[name]:
            wrong = "other bits after it"
        if not wrong and held()[1] > most:
            wrong = f"{held()[1]} threads are left"
        yield (
            f"{seed} {name} by {way}",
            wrong or (f"ignored {ignored[0]}" if ignored else ""),
            _since(start),
        )


def _seconds(name: str) -> float:
    start = time.perf_counter()
    again(name)
    return time.perf_counter() - start


def _since(start: float) -> float:
    return time.perf_counter() - start


def settled(before: list[int]) -> bool:
    """Whether BLAS has its threads again, once helpers have finished what they had
    begun.
    """
    deadline = time.monotonic() + SETTLED
    while blas_threads() != before and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    return blas_threads() == before


def together(number: int, first: int = 0) -> Iterator[Verdict]:
    """Threads that fit models of their own, and predict by models that they share,
    at once.
    """
    shared = {name: fitted(name) for name in MODELS}
    for seed in range(first, first + number):
        rng, start = np.random.default_rng(seed), time.perf_counter()
        names, fits_own = rng.choice(list(MODELS), 8), rng.integers(2, size=8)

        def one(
            k: int, names: Any = names, fits_own: Any = fits_own
        ) -> tuple[str, str]:
            name = str(names[k])
            return name, again(name) if fits_own[k] else bits(shared[name])

        before = blas_threads()
        with ThreadPoolExecutor(int(rng.integers(2, 9))) as pool:
            wrong = differing(list(pool.map(one, range(8))))
        yield (
            f"{seed} together",
            wrong or ("" if settled(before) else f"BLAS has {blas_threads()} threads"),
            _since(start),
        )


def all_again() -> dict[str, str]:
    """The bits of all models, fitted now."""
    return {name: again(name) for name in MODELS}


def forked(meanwhile: bool = False) -> dict[str, str]:
    """The same by a child, forked after a fit, or while another thread fits."""
    stop = threading.Event()
    busy = (
        threading.Thread(target=lambda: [all_again() for _ in iter(stop.is_set, True)])
        if meanwhile
        else None
    )
    if busy is not None:
        busy.start()
        time.sleep(0.05)
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writes, joblib.hash(all_again()).encode())
        finally:
            os._exit(0)
    stop.set()
    os.close(writes)
    try:
        return (
            alone()
            if _within(reads) == joblib.hash(alone())
            else dict.fromkeys(MODELS, "")
        )
    finally:
        os.close(reads)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if busy is not None:
            busy.join()


def _within(reads: int) -> str:
    """What a child writes within a limit of time."""
    found: list[bytes] = []
    thread = threading.Thread(
        target=lambda: found.append(os.read(reads, 100)), daemon=True
    )
    thread.start()
    thread.join(LIMIT)
    return found[0].decode() if found else "nothing"


def by_processes(method: str) -> dict[str, str]:
    """The same by a process of `multiprocessing`."""
    with multiprocessing.get_context(method).Pool(1) as pool:
        return pool.apply_async(all_again).get(LIMIT)


def by_loky() -> dict[str, str]:
    """The same by two processes of joblib."""
    names = list(MODELS)
    found = joblib.Parallel(n_jobs=2, backend="loky", timeout=LIMIT)(
        joblib.delayed(again)(name) for name in names
    )
    return dict(zip(names, found, strict=True))


async def _in_a_loop() -> dict[str, str]:
    return await asyncio.wait_for(asyncio.to_thread(all_again), LIMIT)


CHILDREN: dict[str, Callable[[], dict[str, str]]] = {
    "os.fork": forked,
    "os.fork while a thread fits": lambda: forked(meanwhile=True),
    "fork": lambda: by_processes("fork"),
    "asyncio": lambda: asyncio.run(_in_a_loop()),
    "spawn": lambda: by_processes("spawn"),
    "forkserver": lambda: by_processes("forkserver"),
    "loky": by_loky,
}


def children(number: int) -> Iterator[Verdict]:
    """Fits in processes and threads that are made after fits here; those that start
    slowly are a tenth of them.
    """
    alone()
    quick = list(CHILDREN)[:4]
    for k in range(number):
        start = time.perf_counter()
        kind = list(CHILDREN)[4 + k // 10 % 3] if k % 10 == 9 else quick[k % 4]
        try:
            wrong = differing(CHILDREN[kind]())
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        yield f"{k} {kind}", wrong, _since(start)


def crowds(number: int) -> Iterator[Verdict]:
    """Fits during which a thread looks at how many of the others run."""
    all_again()
    # OpenBLAS ends its threads before a fork; those that it starts next wait actively,
    # for 0.1 s
    time.sleep(0.5)
    cores = len(os.sched_getaffinity(0))
    for k in range(number):
        name, start = list(MODELS)[k % len(MODELS)], time.perf_counter()
        stop, looks = threading.Event(), list[int]()
        thread = threading.Thread(target=_look, args=(stop, looks))
        thread.start()
        for _ in range(10):
            again(name)
        stop.set()
        thread.join()
        above = sum(running > cores for running in looks)
        wrong = above > CROWDED * len(looks)
        yield (
            f"{k} {name}",
            f"{above} of {len(looks)} looks saw more threads than {cores}"
            if wrong
            else "",
            _since(start),
        )


def _look(stop: threading.Event, looks: list[int]) -> None:
    own = threading.get_native_id()
    while not stop.wait(0.002):
        running = 0
        for task in os.listdir("/proc/self/task"):
            try:
                state = (
                    Path(f"/proc/self/task/{task}/stat")
                    .read_text()
                    .rsplit(")", 1)[1]
                    .split()[0]
                )
            except OSError:  # a thread that has ended
                continue
            running += int(task) != own and state == "R"
        looks.append(running)


def notebooks(number: int) -> Iterator[Verdict]:
    """Fits in a Jupyter kernel that is interrupted at random moments, each with
    another fit after it.
    """
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")

    def cell(
        code: str, found: str = "None", begins: Callable[[], None] = lambda: None
    ) -> dict[str, Any]:
        def hook(message: dict[str, Any]) -> None:
            if message["msg_type"] == "execute_input":
                begins()

        options: dict[str, Any] = {"timeout": LIMIT, "output_hook": hook}
        return client.execute_interactive(
            code, user_expressions={"found": found}, **options
        )["content"]

    try:
        cell(
            f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import "
            "long_life"
        )
        cell(
            "long_life.MODELS['default'] = lambda: "
            "long_life.bo.KernelMachineRegressor(random_state=0)"
        )
        cell("long_life.alone()")
        names = [*MODELS, "default"]
        seconds = {
            name: float(_shown(cell("", f"long_life._seconds({name!r})")))
            for name in names
        }
        for seed in range(number):
            name, start = names[seed % len(names)], time.perf_counter()
            moment = float(np.random.default_rng(seed).uniform(0, seconds[name]))
            button = threading.Timer(moment, manager.interrupt_kernel)
            try:
                reply = cell(f"long_life.again({name!r})", begins=button.start)
            # Of an interrupt in the kernel's own code, which loses its reply; the next
            # cell tells
            except TimeoutError:
                reply = {}
            button.join()
            time.sleep(0.1)  # for an interrupt after the work
            error = reply.get("ename", "KeyboardInterrupt")
            wrong = (
                "" if error == "KeyboardInterrupt" else f"{error}: {reply['evalue']}"
            )
            if (
                not wrong
                and _shown(
                    cell(
                        "",
                        f"long_life.differing({{{name!r}: long_life.again({name!r})}})",
                    )
                )
                != "''"
            ):
                wrong = "other bits after it"
            yield f"{seed} {name} in a kernel", wrong, _since(start)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _shown(reply: dict[str, Any]) -> str:
    """What a cell has found, as text; its error if it has failed."""
    found = reply.get("user_expressions", {}).get("found", reply)
    return str(found["data"]["text/plain"] if found["status"] == "ok" else found)


KINDS: dict[str, Callable[[int], Iterator[Verdict]]] = {
    "fits in one process": fits,
    "interrupts": interrupts,
    "threads at once": together,
    "children": children,
    "threads that run": crowds,
    "Jupyter kernel": notebooks,
}
SHARE = {
    "fits in one process": 1,
    "interrupts": 5,
    "threads at once": 1,
    "children": 50,
    "threads that run": 100,
    "Jupyter kernel": 50,
}
