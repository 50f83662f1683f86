"""Where the pieces of an audit run: in this process, in processes of this machine, or on a Dask cluster.

A pool runs function(*arguments) for each item and yields (item's place, result), each place once, in any order. Pieces
may run more than once: a worker that dies takes its piece with it, and another worker gets it.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from .errors import MmaemuError

Items = Iterable[tuple[int, tuple[Any, ...]]]  # place and arguments
_ATTEMPTS = 3  # workers that a piece may take with it
_AHEAD = 4  # pieces that are handed out for each worker before it asks


class InProcess:
    """One piece after the other; the engine below uses the machine's threads."""

    def run(self, function: Callable[..., Any], items: Items) -> Iterator[tuple[int, Any]]:
        for place, arguments in items:
            yield place, function(*arguments)

    def close(self) -> None:
        pass


def _share_processors(workers: int) -> None:
    import torch

    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // workers))


class Processes:
    """Processes of this machine, which share its processors."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pool = self._start()

    def _start(self) -> concurrent.futures.ProcessPoolExecutor:
        # A forked child of a process with threads, such as torch's, may wait for a lock that nobody holds.
        context = multiprocessing.get_context("spawn")
        return concurrent.futures.ProcessPoolExecutor(self._workers, context, _share_processors, (self._workers,))

    def run(self, function: Callable[..., Any], items: Items) -> Iterator[tuple[int, Any]]:
        """MmaemuError where workers keep dying."""
        rest, deaths = iter(items), 0
        waiting: dict[concurrent.futures.Future[Any], tuple[int, tuple[Any, ...]]] = {}
        while True:
            for item in itertools.islice(rest, _AHEAD * self._workers - len(waiting)):
                waiting[self._submit(function, item)] = item
            if not waiting:
                return
            done, _ = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            if any(isinstance(future.exception(), BrokenProcessPool) for future in done):
                deaths += 1
                if deaths >= _ATTEMPTS * self._workers:
                    raise MmaemuError(
                        f"{deaths} times a worker process died: for lack of memory, where fewer help, or because "
                        'the script that calls audit does so outside of if __name__ == "__main__", which they import'
                    )
                finished = [future for future in waiting if future.done() and future.exception() is None]
                for future in finished:
                    yield waiting.pop(future)[0], future.result()
                self._restart()
                waiting = {self._submit(function, item): item for item in waiting.values()}
                continue
            for future in done:
                yield waiting.pop(future)[0], future.result()

    def _submit(self, function: Callable[..., Any], item: tuple[int, tuple[Any, ...]]) -> Any:
        try:
            return self._pool.submit(function, *item[1])
        except BrokenProcessPool:
            self._restart()
            return self._pool.submit(function, *item[1])

    def _restart(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._start()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class Dask:
    """The workers of a Dask cluster, which must see the recording under the same path and have mmaemu installed."""

    def __init__(self, scheduler: Any) -> None:
        """scheduler: an address, or a client, which stays open. MmaemuError where it cannot be reached."""
        try:
            import distributed
        except ImportError:
            raise MmaemuError("a scheduler needs the package distributed: pip install distributed") from None
        self._distributed = distributed
        self._own = isinstance(scheduler, str)
        if not self._own and not isinstance(scheduler, distributed.Client):
            raise TypeError(f"scheduler must be an address or a distributed.Client, not {type(scheduler).__name__}")
        try:
            self._client = distributed.Client(scheduler, timeout="10s") if self._own else scheduler
        except (OSError, TimeoutError, ValueError) as problem:
            raise MmaemuError(f"cannot reach the Dask scheduler {scheduler}: {problem}") from None

    def run(self, function: Callable[..., Any], items: Items) -> Iterator[tuple[int, Any]]:
        """MmaemuError where a piece keeps killing its workers, and where the scheduler is lost."""
        rest = iter(items)
        place_of: dict[Any, int] = {}

        def submit(count: int) -> list[Any]:
            futures = []
            for place, arguments in itertools.islice(rest, count):
                futures.append(self._client.submit(function, *arguments, pure=False, retries=_ATTEMPTS))
                place_of[futures[-1].key] = place
            return futures

        finished = self._distributed.as_completed(submit(_AHEAD * max(1, len(self._client.nthreads()))))
        try:
            for future in finished:
                place = place_of.pop(future.key)
                result = self._result(future)
                future.release()
                for more in submit(1):
                    finished.add(more)
                yield place, result
        finally:
            with contextlib.suppress(Exception):
                self._client.cancel([self._distributed.Future(key, self._client) for key in place_of])

    def _result(self, future: Any) -> Any:
        try:
            return future.result()
        except (self._distributed.KilledWorker, self._distributed.client.FutureCancelledError, OSError) as problem:
            raise MmaemuError(f"the Dask cluster lost a piece of the audit: {problem}") from None

    def close(self) -> None:
        if self._own:
            self._client.close()
