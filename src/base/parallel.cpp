// The pool behind parallel_for: workers wait for jobs; a job is a counter of tasks that its helpers and its
// caller draw from.
#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <sched.h>
#include <system_error>
#include <thread>

namespace mmaemu {
namespace {

struct Job {
  Job(std::int64_t task_count, const std::function<void(std::int64_t)>& job_task)
      : count(task_count), task(job_task) {}

  // Runs tasks until none is left or `keep_going` says no.
  template <class KeepGoing>
  void work(KeepGoing keep_going) {
    while (keep_going() && !stop.load(std::memory_order_relaxed)) {
      const std::int64_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= count) return;
      task(i);
    }
  }

  const std::int64_t count;
  const std::function<void(std::int64_t)>& task;
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> stop{false};
  int helpers_wanted = 0;  // guarded by Pool::mutex_
  int helpers_active = 0;  // guarded by Pool::mutex_
};

class Pool {
 public:
  // The process's pool. It is never destroyed: its threads may outlive static destruction.
  static Pool& instance();

  bool run(Job& job, int helpers, const std::function<bool()>& cancelled) {
    if (helpers > 0) {
      {
        const std::lock_guard lock(mutex_);
        grow(helpers);
        job.helpers_wanted = std::min(helpers, workers_);
        jobs_.push_back(&job);
      }
      wake_.notify_all();
    }
    using Clock = std::chrono::steady_clock;
    auto last_poll = Clock::now();
    bool was_cancelled = false;
    const auto poll = [&] {
      if (!cancelled || was_cancelled) return;
      const auto now = Clock::now();
      if (now - last_poll < kPollInterval) return;
      last_poll = now;
      if (cancelled()) {
        was_cancelled = true;
        job.stop.store(true, std::memory_order_relaxed);
      }
    };
    job.work([&] {
      poll();
      return !was_cancelled;
    });
    if (helpers > 0) {
      std::unique_lock lock(mutex_);
      std::erase(jobs_, &job);
      while (!done_.wait_for(lock, kPollInterval, [&] { return job.helpers_active == 0; })) {
        lock.unlock();
        poll();
        lock.lock();
      }
    }
    return !was_cancelled;
  }

 private:
  static constexpr std::chrono::milliseconds kPollInterval{20};

  // A system that refuses another thread leaves the work to those there are.
  void grow(int wanted) {
    while (workers_ < wanted) {
      try {
        std::thread([this] { serve(); }).detach();
      } catch (const std::system_error&) {
        return;
      }
      ++workers_;
    }
  }

  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return find_job() != nullptr; });
      Job* job = find_job();
      --job->helpers_wanted;
      ++job->helpers_active;
      lock.unlock();
      job->work([] { return true; });
      lock.lock();
      if (--job->helpers_active == 0) done_.notify_all();
    }
  }

  Job* find_job() {
    for (Job* job : jobs_)
      if (job->helpers_wanted > 0) return job;
    return nullptr;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::deque<Job*> jobs_;
  int workers_ = 0;
};

std::atomic<Pool*> g_pool{nullptr};

Pool& Pool::instance() {
  // A forked child has none of the parent's threads, and the parent's locks may be held for ever: it gets a
  // new pool.
  static const int registered = pthread_atfork(nullptr, nullptr, [] { g_pool.store(nullptr); });
  static_cast<void>(registered);
  Pool* pool = g_pool.load();
  if (pool != nullptr) return *pool;
  auto fresh = std::make_unique<Pool>();
  if (g_pool.compare_exchange_strong(pool, fresh.get())) pool = fresh.release();
  return *pool;
}

}  // namespace

int available_threads() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

bool parallel_for(std::int64_t count, int threads, const std::function<void(std::int64_t)>& task,
                  const std::function<bool()>& cancelled) {
  if (threads <= 0) threads = available_threads();
  Job job(count, task);
  const auto helpers = static_cast<int>(std::min<std::int64_t>(threads, count) - 1);
  return Pool::instance().run(job, std::max(0, helpers), cancelled);
}

}  // namespace mmaemu
