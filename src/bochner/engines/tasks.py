"""Work that waits for the results of other work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Task:
    """Work whose result is still to come, and the tasks that wait for it.

    Its methods are called by one thread at a time.
    """

    __slots__ = ("arguments", "awaited", "done", "followers", "missing", "value", "work")

    def __init__(self, work: Callable[..., Any], arguments: tuple) -> None:
        self.work, self.arguments, self.value, self.done = work, arguments, None, False
        self.followers: list[Task] = []
        self.missing = self.awaited = 0
        for argument in arguments:
            if isinstance(argument, Task):
                self.missing += argument.lead(self)

    def lead(self, follower: Task) -> bool:
        """Note what takes the result; whether it has to wait."""
        if self.done and self.followers and not self.awaited:
            raise ValueError("This result has been handed over: submit all work that needs it before asking for any.")
        self.followers.append(follower)
        self.awaited += 1
        return not self.done

    def is_ready_after_one_more(self) -> bool:
        """Note that something it waits for is done; whether that was the last."""
        self.missing -= 1
        return not self.missing

    def take_arguments(self) -> list[Any]:
        """The arguments, which are not kept."""
        values = [argument.hand_over() if isinstance(argument, Task) else argument for argument in self.arguments]
        self.arguments = ()
        return values

    def hand_over(self) -> Any:
        """The result, which the last one that waited for it takes along: sums of sums leave nothing behind."""
        value, self.awaited = self.value, self.awaited - 1
        if not self.awaited:
            self.value = None
        return value

    def finish(self, value: Any) -> list[Task]:
        """Keep the result; the tasks that need nothing more."""
        self.value, self.done = value, True
        return [follower for follower in self.followers if follower.is_ready_after_one_more()]


def ready_tasks(task: Task) -> list[Task]:
    """The tasks below this one that wait for no other, from the left to the right."""
    if task.done:
        return []
    if not task.missing:
        return [task]
    return [leaf for argument in task.arguments if isinstance(argument, Task) for leaf in ready_tasks(argument)]
