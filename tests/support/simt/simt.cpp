// One operating-system thread a launch. Fibers begin by ucontext and switch by _setjmp, which makes no system
// call. AddressSanitizer would follow neither: what runs on fibers is built without it.
#include "simt.h"

#include <cstring>
#include <exception>
#include <memory>
#include <setjmp.h>
#include <ucontext.h>
#include <vector>

namespace mmaemu::testing::simt {
namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10;

struct Fault {
  std::string what;
};

constexpr int kSeveral = -1;  // readers of a word

struct Warp {
  const char* instruction = nullptr;
  int arrived = 0;
  std::uint64_t done = 0;  // instructions
  LaneBytes inputs{};
  LaneBytes results{};
};

class Context {
 public:
  void begin(void (*function)(), std::byte* stack) {
    getcontext(&start_);
    start_.uc_stack.ss_sp = stack;
    start_.uc_stack.ss_size = kStackBytes;
    start_.uc_link = nullptr;
    makecontext(&start_, function, 0);
    begins_ = true;
  }
  void switch_to(Context& other) {
    if (_setjmp(at_) != 0) return;
    if (!other.begins_) _longjmp(other.at_, 1);
    other.begins_ = false;
    setcontext(&other.start_);
  }

 private:
  ucontext_t start_{};
  jmp_buf at_{};
  bool begins_ = false;
};

struct Fiber {
  Context context;
  std::unique_ptr<std::byte[]> stack;
  Index thread;
  const std::uint64_t* counter = nullptr;  // waits until it is not `seen`
  std::uint64_t seen = 0;
  bool finished = false;
};

class Block {
 public:
  Block(const Grid& grid, const std::function<void()>& kernel) : kernel_(kernel) {
    const unsigned count = grid.threads.x * grid.threads.y;
    fibers_.resize(count);
    warps_.resize((count + kWarp - 1) / kWarp);
    for (unsigned i = 0; i < count; ++i) {
      fibers_[i].stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
      fibers_[i].thread = {i % grid.threads.x, i / grid.threads.x};
    }
  }

  void run();
  void barrier();
  void warp_instruction(const char* name, WarpFunction compute, const void* inputs, std::size_t input_bytes,
                        void* results, std::size_t result_bytes);
  void shared_access(SharedWord* first, std::size_t words, Access access);
  [[noreturn]] static void enter();

 private:
  void wait(const std::uint64_t& counter);
  Fiber& fiber() { return fibers_[static_cast<std::size_t>(current_)]; }

  const std::function<void()>& kernel_;
  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  Context scheduler_;
  int current_ = 0;
  std::size_t at_barrier_ = 0;
  std::uint64_t first_interval_ = 0;
  std::uint64_t interval_ = 0;
  std::optional<Fault> fault_;
};

thread_local Registers the_registers;
TensorModel the_tensor_model;
thread_local Block* the_block = nullptr;
thread_local std::uint64_t last_interval = 0;

void Block::enter() {
  Block& block = *the_block;
  Fiber& self = block.fiber();
  try {
    block.kernel_();
  } catch (const Fault& f) {
    block.fault_ = f;
  }
  self.finished = true;
  self.context.switch_to(block.scheduler_);
  std::terminate();
}

void Block::run() {
  the_block = this;
  first_interval_ = interval_ = ++last_interval;
  at_barrier_ = 0;
  for (Warp& w : warps_) w.arrived = 0;
  for (Fiber& f : fibers_) {
    f.finished = false;
    f.counter = nullptr;
    f.context.begin(&Block::enter, f.stack.get());
  }
  bool all_finished = false;
  while (!all_finished && !fault_) {
    bool progress = false;
    all_finished = true;
    for (std::size_t i = 0; i < fibers_.size() && !fault_; ++i) {
      Fiber& f = fibers_[i];
      if (f.finished) continue;
      all_finished = false;
      if (f.counter != nullptr && *f.counter == f.seen) continue;
      progress = true;
      current_ = static_cast<int>(i);
      the_registers.thread = f.thread;
      scheduler_.switch_to(f.context);
    }
    if (!progress && !all_finished)
      fault_ = Fault{"threads wait for others that do not come: a barrier or warp instruction in a branch"};
  }
  the_block = nullptr;
  if (fault_) throw *fault_;
}

void Block::wait(const std::uint64_t& counter) {
  Fiber& self = fiber();
  self.counter = &counter;
  self.seen = counter;
  self.context.switch_to(scheduler_);
}

void Block::barrier() {
  if (++at_barrier_ == fibers_.size()) {
    at_barrier_ = 0;
    interval_ = ++last_interval;
  } else {
    wait(interval_);
  }
}

void Block::warp_instruction(const char* name, WarpFunction compute, const void* inputs,
                             std::size_t input_bytes, void* results, std::size_t result_bytes) {
  Warp& warp = warps_[static_cast<std::size_t>(current_ / kWarp)];
  const auto lane = static_cast<std::size_t>(current_ % kWarp);
  if (warp.arrived != 0 && warp.instruction != name)
    fault("lanes of a warp execute " + std::string(warp.instruction) + " and " + name);
  warp.instruction = name;
  std::memcpy(warp.inputs[lane].data(), inputs, input_bytes);
  if (++warp.arrived == kWarp) {
    compute(warp.inputs, warp.results);
    warp.arrived = 0;
    ++warp.done;
  } else {
    wait(warp.done);
  }
  // The next instruction of this warp needs this lane too: its results stay until they are read.
  std::memcpy(results, warp.results[lane].data(), result_bytes);
}

void Block::shared_access(SharedWord* first, std::size_t words, Access access) {
  for (SharedWord* w = first; w != first + words; ++w) {
    const bool written_now = w->write_interval == interval_ && w->writer != current_;
    const bool read_now = w->read_interval == interval_ && w->reader != current_;
    if (access == Access::read) {
      if (w->write_interval < first_interval_)
        fault("a thread reads shared memory that no thread has written");
      if (written_now) fault("a thread reads what another writes without a barrier between");
      w->reader = read_now ? kSeveral : current_;
      w->read_interval = interval_;
    } else {
      if (written_now) fault("two threads write a word without a barrier between");
      if (read_now) fault("a thread writes what another reads without a barrier between");
      w->writer = current_;
      w->write_interval = interval_;
    }
  }
}

}  // namespace

Registers& registers() {
  return the_registers;
}

TensorModel& tensor_model() {
  return the_tensor_model;
}

void fault(const std::string& what) {
  const Registers& r = the_registers;
  throw Fault{what + " (thread " + std::to_string(r.thread.x) + ", " + std::to_string(r.thread.y) +
              " of block " + std::to_string(r.block.x) + ", " + std::to_string(r.block.y) + ")"};
}

void barrier() {
  if (the_block == nullptr) fault("a barrier in a kernel that is launched thread by thread");
  the_block->barrier();
}

void warp_instruction(const char* name, WarpFunction compute, const void* inputs, std::size_t input_bytes,
                      void* results, std::size_t result_bytes) {
  if (the_block == nullptr) fault("a warp instruction in a kernel that is launched thread by thread");
  the_block->warp_instruction(name, compute, inputs, input_bytes, results, result_bytes);
}

void shared_access(SharedWord* first, std::size_t words, Access access) {
  if (the_block == nullptr) fault("shared memory in a kernel that is launched thread by thread");
  the_block->shared_access(first, words, access);
}

std::optional<std::string> launch(const Grid& grid, bool cooperative, const std::function<void()>& kernel) {
  Registers& r = the_registers;
  r.blocks = grid.blocks;
  r.threads = grid.threads;
  std::optional<Block> block;
  if (cooperative) block.emplace(grid, kernel);
  try {
    for (r.block.y = 0; r.block.y < grid.blocks.y; ++r.block.y) {
      for (r.block.x = 0; r.block.x < grid.blocks.x; ++r.block.x) {
        if (block) {
          block->run();
          continue;
        }
        for (r.thread.y = 0; r.thread.y < grid.threads.y; ++r.thread.y)
          for (r.thread.x = 0; r.thread.x < grid.threads.x; ++r.thread.x) kernel();
      }
    }
  } catch (const Fault& f) {
    return f.what;
  }
  return std::nullopt;
}

}  // namespace mmaemu::testing::simt
