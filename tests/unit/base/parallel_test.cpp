// The parallel loop: what runs, where, and how it ends.
#include "base/parallel.h"

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <mutex>
#include <sched.h>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace mmaemu {
namespace {

using namespace std::chrono_literals;

TEST(ParallelFor, CallsEachTaskOnce) {
  for (const std::int64_t count : {0, 1, 2, 3, 7, 1000}) {
    for (const int threads : {0, 1, 2, 3, 16}) {
      std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
      EXPECT_TRUE(
          parallel_for(count, threads, [&](std::int64_t i) { ++calls.at(static_cast<std::size_t>(i)); }));
      for (const std::atomic<int>& c : calls) ASSERT_EQ(c, 1);
    }
  }
}

TEST(ParallelFor, UsesAtMostTheThreadsAskedFor) {
  for (const int threads : {1, 2, 3}) {
    std::mutex mutex;
    std::set<std::thread::id> seen;
    parallel_for(64, threads, [&](std::int64_t) {
      std::this_thread::sleep_for(1ms);
      const std::lock_guard lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
    EXPECT_LE(seen.size(), static_cast<std::size_t>(threads));
  }
}

TEST(ParallelFor, OneThreadIsTheCallers) {
  parallel_for(8, 1, [caller = std::this_thread::get_id()](std::int64_t) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
}

// Two tasks that wait for each other end only if both run at once.
TEST(ParallelFor, RunsTasksAtTheSameTime) {
  std::atomic<int> started{0};
  std::atomic<bool> met{true};
  parallel_for(2, 2, [&](std::int64_t) {
    ++started;
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (started < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    if (started < 2) met = false;
  });
  EXPECT_TRUE(met);
}

TEST(ParallelFor, NestsInsideATask) {
  std::atomic<std::int64_t> sum{0};
  parallel_for(8, 4, [&](std::int64_t i) { parallel_for(8, 4, [&](std::int64_t j) { sum += 8 * i + j; }); });
  EXPECT_EQ(sum, 63 * 64 / 2);
}

TEST(ParallelFor, ServesManyCallersAtOnce) {
  std::atomic<std::int64_t> sum{0};
  {
    std::vector<std::jthread> callers;
    for (int c = 0; c < 6; ++c)
      callers.emplace_back([&] {
        for (int round = 0; round < 50; ++round) parallel_for(10, 3, [&](std::int64_t i) { sum += i; });
      });
  }
  EXPECT_EQ(sum, 6 * 50 * 45);
}

TEST(ParallelFor, CancelledStartsNoFurtherTask) {
  for (const int threads : {1, 3}) {
    std::atomic<int> running{0};
    std::atomic<int> started{0};
    const auto task = [&](std::int64_t) {
      ++started;
      ++running;
      std::this_thread::sleep_for(5ms);
      --running;
    };
    EXPECT_FALSE(parallel_for(1'000'000, threads, task, [] { return true; }));
    EXPECT_EQ(running, 0) << "a task outlived the call";
    EXPECT_LT(started, 1000);
    const int before = started;
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(started, before);
  }
}

TEST(ParallelFor, PollsOnTheCallingThreadAlone) {
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> polls{0};
  std::atomic<int> elsewhere{0};
  const auto cancelled = [&] {
    ++polls;
    if (std::this_thread::get_id() != caller) ++elsewhere;
    return false;
  };
  EXPECT_TRUE(parallel_for(
      60, 3, [](std::int64_t) { std::this_thread::sleep_for(5ms); }, cancelled));
  EXPECT_GT(polls, 0);
  EXPECT_EQ(elsewhere, 0);
}

// The caller has no task of its own left while a helper works on: it still polls, and still says so.
TEST(ParallelFor, IsCancelledWhileHelpersWork) {
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<bool> helper_started{false};
  std::atomic<bool> stop{false};
  const auto task = [&](std::int64_t) {
    if (std::this_thread::get_id() == caller) {
      const auto deadline = std::chrono::steady_clock::now() + 60s;
      while (!helper_started && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
      return;
    }
    helper_started = true;
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (!stop && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
  };
  EXPECT_FALSE(parallel_for(2, 2, task, [&] {
    stop = helper_started.load();
    return stop.load();
  }));
}

// Whether `body` returns true in a forked child within a minute. A sanitizer's leak check would not end in a
// child whose threads are gone: it leaves by _exit.
template <class Body>
bool true_in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool sums_up() {
  std::atomic<std::int64_t> sum{0};
  return parallel_for(1000, 4, [&](std::int64_t i) { sum += i; }) && sum == 499'500;
}

TEST(ParallelFor, WorksInAForkedChild) {
  ASSERT_TRUE(sums_up());  // the parent's threads exist, and do not in the child
  EXPECT_TRUE(true_in_child(sums_up));
  EXPECT_TRUE(true_in_child([] { return sums_up() && true_in_child(sums_up); }));
  EXPECT_TRUE(sums_up());
}

TEST(ParallelFor, WorksInAChildForkedWhileThreadsWork) {
  std::atomic<bool> stop{false};
  std::jthread busy([&] {
    while (!stop) sums_up();
  });
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(true_in_child(sums_up));
  stop = true;
}

TEST(AvailableThreads, AreThoseOfTheAffinityMask) {
  EXPECT_TRUE(true_in_child([] {
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    if (available_threads() != CPU_COUNT(&all)) return false;
    int first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0 && available_threads() == 1;
  }));
}

}  // namespace
}  // namespace mmaemu
