"""A cluster in one thread, which does with work and results what a cluster does: an
engine for tests.
"""

import pickle
from dataclasses import dataclass

from bochner.engines.local import at_most


def copied(data, **more):
    """What was pickled."""
    return pickle.loads(data, **more)  # noqa: S301 - made in the same test


@dataclass(frozen=True)
class Handle:
    """Number of a work that was given away."""

    number: int


class Farm:
    """Work is done as soon as it comes, on copies of its arguments; results stay here,
    and can be lost.

    Attributes
    ----------
    sent : list of int
        Bytes of each work with its arguments, as they travel.
    done : dict of int to bytes
        Results of works.
    n_done : int
        Works done, those that had to be done again among them.
    """

    is_remote = True

    def __init__(self, n_processes=2, keeps_results=True, worker_memory=1 << 30):
        self.n_processes = self.n_workers = n_processes
        self.keeps_results, self.worker_memory = keeps_results, worker_memory
        self.works, self.done, self.sent, self.n_done = [], {}, [], 0

    def submit(self, work, *arguments):
        self.works.append(pickle.dumps((work, arguments)))
        self.sent.append(len(self.works[-1]))
        handle = Handle(len(self.works) - 1)
        self.kept(handle.number)
        return handle

    def share(self, value):
        return self.submit(_same, value)

    def results(self, handles):
        """What comes over a wire cannot be written to."""
        for handle in handles:
            buffers = []
            data = pickle.dumps(
                copied(self.kept(handle.number)), 5, buffer_callback=buffers.append
            )
            yield copied(data, buffers=[bytes(buffer.raw()) for buffer in buffers])

    def kept(self, number):
        """The result of a work, which is done again where it was lost."""
        if number not in self.done:
            work, arguments = copied(self.works[number])
            values = [
                copied(self.kept(one.number)) if isinstance(one, Handle) else one
                for one in arguments
            ]
            before = pickle.dumps(values)
            with at_most(1):
                self.done[number] = pickle.dumps(work(*values))
            assert pickle.dumps(values) == before, (
                f"{work} has changed what it was given"
            )
            self.n_done += 1
        return self.done[number]

    def lose(self):
        """Forget all results."""
        self.done.clear()


def _same(value):
    return value
