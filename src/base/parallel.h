// One parallel loop over independent tasks, on threads that are kept between calls. Safe to call from many
// threads at once and in a forked child (GNU's OpenMP runtime hangs there, which is why it isn't used).
#pragma once

#include <cstdint>
#include <functional>

namespace mmaemu {

// Processors this process may run on.
int available_threads();

// Calls task(i) once for each i in [0, count), on at most `threads` threads (0: available_threads()), the
// calling thread among them. `cancelled`, where given, is polled by the calling thread alone, about every 20
// ms; once it returns true no further task starts. Returns false if it was cancelled, after the running tasks
// have ended. A task must not throw. Which thread runs a task is unspecified, so tasks must not share what
// they write.
bool parallel_for(std::int64_t count, int threads, const std::function<void(std::int64_t)>& task,
                  const std::function<bool()>& cancelled = {});

}  // namespace mmaemu
