"""Threads, signals and forks: results never depend on them, and a long call can be ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import mmaemu
from calls import arguments, bits, codes, plain_environment, run_python

LONG_CALL = """
    import sys, time, torch, mmaemu
    K = 4096
    a = (torch.arange(8192 * K, dtype=torch.int32) % 0x77).to(torch.uint8).view(torch.float8_e4m3fn).view(8192, K)
    out = torch.full((8192, 8192), 7.0)
    one = torch.tensor(1.0)
"""


def interrupted(call: str) -> tuple[float, str, str, int]:
    """Runs a call in an interpreter of its own and sends SIGINT once it computes; returns when that was, by a clock
    that all processes share, and what became of the process."""
    program = textwrap.dedent(LONG_CALL) + textwrap.dedent(call)
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=plain_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "started\n"
        time.sleep(0.5)
        assert process.poll() is None
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        return sent, output, errors, process.returncode


def test_ctrl_c_ends_a_long_call_within_a_second() -> None:
    sent, output, errors, status = interrupted(
        """
        print("started", flush=True)
        try:
            mmaemu.scaled_mm(a, a.t(), one, one, out_dtype=torch.float32, splitk=1, profile="ada", out=out)
        except KeyboardInterrupt:
            ended = time.monotonic()
            assert (out == 7.0).all()
            small = a[:16, :256]
            assert torch.equal(mmaemu.accumulate(small, small, use_fast_accum=True, splitk=1),
                               mmaemu.accumulate(small.clone(), small, use_fast_accum=True, splitk=1))
            print(ended)
        """
    )
    assert (errors, status) == ("", 0)
    assert 0.0 <= float(output) - sent < 1.0


def test_ctrl_c_that_nobody_catches_ends_the_process() -> None:
    _, output, errors, status = interrupted(
        """
        print("started", flush=True)
        mmaemu.accumulate(a, a, use_fast_accum=False, splitk=1)
        """
    )
    assert (output, status) == ("", -signal.SIGINT)
    assert errors.rstrip().endswith("KeyboardInterrupt")


def test_a_signal_handler_may_raise_its_own_exception() -> None:
    _, output, errors, status = interrupted(
        """
        import signal

        class Stop(Exception):
            pass

        def handler(number, frame):
            raise Stop("now")

        signal.signal(signal.SIGINT, handler)
        print("started", flush=True)
        try:
            mmaemu.accumulate(a, a, use_fast_accum=True, splitk=1)
        except Stop as stop:
            print(stop)
        """
    )
    assert (output, errors, status) == ("now\n", "", 0)


def test_a_forked_child_computes_after_the_parent_did() -> None:
    result = run_python(
        """
        import os, torch, mmaemu
        torch.set_num_threads(4)
        a = (torch.arange(256 * 512) % 0x77).to(torch.uint8).view(torch.float8_e4m3fn).view(256, 512)

        def product():  # as bytes: torch's own operators may hang in a forked child
            return mmaemu.accumulate(a, a, use_fast_accum=False, splitk=1).numpy().tobytes()

        want = product()
        children = []
        for _ in range(3):
            child = os.fork()
            if child == 0:
                os._exit(0 if product() == want else 1)
            children.append(child)
        assert product() == want
        for child in children:
            assert os.waitpid(child, 0)[1] == 0
        """,
        "-W",
        "ignore::DeprecationWarning",  # of a fork while threads run
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_a_child_forked_by_multiprocessing_computes() -> None:
    result = run_python(
        """
        import multiprocessing, torch, mmaemu
        a = (torch.arange(64 * 512) % 0x77).to(torch.uint8).view(torch.float8_e4m3fn).view(64, 512)

        def product(seed):
            return mmaemu.accumulate(a, a[seed:], use_fast_accum=True, splitk=1).numpy().tobytes()

        if __name__ == "__main__":
            want = [product(seed) for seed in range(6)]
            with multiprocessing.get_context("fork").Pool(2) as pool:
                assert pool.map(product, range(6)) == want
        """,
        "-W",
        "ignore::DeprecationWarning",
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_many_python_threads_at_once_give_identical_bits() -> None:
    call = arguments(input=codes(48, 512, seed=1), mat2=codes(64, 512, seed=2).t())
    want = bits(mmaemu.scaled_mm(**call))

    def work(_: int) -> bool:
        return bits(mmaemu.scaled_mm(**call)) == want

    with ThreadPoolExecutor(max_workers=16) as pool:
        assert all(pool.map(work, range(60)))


def test_first_use_from_many_threads_at_once() -> None:
    result = run_python(
        """
        import threading, torch
        import mmaemu
        a = (torch.arange(32 * 128) % 0x77).to(torch.uint8).view(torch.float8_e4m3fn).view(32, 128)
        barrier = threading.Barrier(8)
        results, errors = [], []

        def first():
            barrier.wait()
            try:
                results.append(mmaemu.accumulate(a, a, use_fast_accum=True, splitk=1))
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=first) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert not errors, errors
        assert len(results) == 8 and all(torch.equal(results[0], result) for result in results)
        """
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_other_python_threads_run_during_a_call() -> None:
    """The GIL is released: a thread counts while the main thread computes."""
    counted = 0
    ended = threading.Event()

    def count() -> None:
        nonlocal counted
        while not ended.is_set():
            counted += 1
            time.sleep(0.001)

    a = codes(256, 1024)
    counter = threading.Thread(target=count)
    counter.start()
    start = time.monotonic()
    before = counted
    while time.monotonic() - start < 0.5:
        mmaemu.accumulate(a, a, use_fast_accum=False, splitk=1)
    during = counted - before
    ended.set()
    counter.join()
    assert during > 20


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 33])
def test_results_do_not_depend_on_torchs_thread_count(threads: int) -> None:
    call = arguments(input=codes(67, 256, seed=3), mat2=codes(80, 256, seed=4).t())
    torch.set_num_threads(1)
    want = bits(mmaemu.scaled_mm(**call))
    torch.set_num_threads(threads)
    assert bits(mmaemu.scaled_mm(**call)) == want


NUMPY_CALL = """
    import hashlib, ml_dtypes, numpy as np, mmaemu
    a = (np.arange(67 * 512) % 0x77).astype(np.uint8).view(ml_dtypes.float8_e4m3fn).reshape(67, 512)
    try:
        product = mmaemu.accumulate(a, a, use_fast_accum=False, splitk=1)
    except ValueError as error:
        print(error)
    else:
        print(hashlib.sha256(product.tobytes()).hexdigest())
"""


def test_results_do_not_depend_on_mmaemu_num_threads() -> None:
    outcomes = [run_python(NUMPY_CALL, MMAEMU_NUM_THREADS=threads).stdout for threads in ("", "1", "2", "3", "64")]
    assert len(outcomes[0].strip()) == 64
    assert set(outcomes) == {outcomes[0]}


@pytest.mark.parametrize("threads", ["0", "-1", "two", "1.5", "4097", " 2", "99999999999999999999"])
def test_an_impossible_mmaemu_num_threads_is_a_value_error(threads: str) -> None:
    result = run_python(NUMPY_CALL, MMAEMU_NUM_THREADS=threads)
    assert result.stdout == f"MMAEMU_NUM_THREADS must be an integer in 1..4096, not {threads!r}\n"


def test_mmaemu_num_threads_is_how_many_threads_work() -> None:
    count = 'print(len(os.listdir("/proc/self/task")))'
    counts = {}
    for threads in ("1", "3"):
        result = run_python(
            "import os" + textwrap.dedent(NUMPY_CALL) + count, MMAEMU_NUM_THREADS=threads, OPENBLAS_NUM_THREADS="1"
        )
        counts[threads] = int(result.stdout.split()[-1])
    assert counts["3"] - counts["1"] == 2


def test_torchs_thread_count_is_how_many_threads_work() -> None:
    counts = {}
    for threads in (1, 3):
        result = run_python(
            f"""
            import os, torch, mmaemu
            torch.set_num_threads({threads})
            a = torch.zeros(1, dtype=torch.uint8).view(torch.float8_e4m3fn).expand(128, 4096)
            before = len(os.listdir("/proc/self/task"))
            mmaemu.accumulate(a, a, use_fast_accum=True, splitk=1)
            print(len(os.listdir("/proc/self/task")) - before)
            """,
            MMAEMU_NUM_THREADS="7",
        )
        counts[threads] = int(result.stdout)
    assert counts == {1: 0, 3: 2}


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity masks")
def test_without_torch_the_affinity_mask_says_how_many_threads_work() -> None:
    pin = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    count = 'print(len(os.listdir("/proc/self/task")))'
    result = run_python(pin + textwrap.dedent(NUMPY_CALL) + count, OPENBLAS_NUM_THREADS="1")
    assert result.stdout.split()[-1] == "1"
