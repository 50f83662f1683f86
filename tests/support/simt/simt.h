// Blocks of threads on the host: every thread of a block is a fiber that runs until it waits for others.
// Accesses to shared memory are checked: bounds, reads before any write of the block, and two threads at one
// word between barriers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace mmaemu::testing::simt {

struct Index {
  unsigned x = 0;
  unsigned y = 0;
};

struct Grid {
  Index blocks;
  Index threads;
};

// Of the thread that runs.
struct Registers {
  Index thread, block, threads, blocks;  // CUDA's threadIdx, blockIdx, blockDim, gridDim
};
Registers& registers();

// Runs `kernel` once for each thread. With `cooperative`, threads of a block run together and may wait for
// each other; else they run one after the other. Returns what was wrong, if anything; the launch then ends
// early.
std::optional<std::string> launch(const Grid& grid, bool cooperative, const std::function<void()>& kernel);

// Ends the launch from within a kernel.
[[noreturn]] void fault(const std::string& what);

// All threads of the block.
void barrier();

// An instruction of a whole warp: `inputs` of every lane goes in, and `compute` gets those of lanes 0 to 31
// and writes their results. It must be the same instruction in every lane, which `name` tells.
inline constexpr int kWarp = 32;
inline constexpr std::size_t kMostBytes = 64;  // of a lane's inputs, and of its results
using LaneBytes = std::array<std::array<std::byte, kMostBytes>, kWarp>;
using WarpFunction = void (*)(const LaneBytes& inputs, LaneBytes& results);
void warp_instruction(const char* name, WarpFunction compute, const void* inputs, std::size_t input_bytes,
                      void* results, std::size_t result_bytes);

// A word of shared memory since its last write and read: by which thread, in which interval between barriers
// (of all launches; 0: never).
struct SharedWord {
  std::uint64_t write_interval = 0;
  std::uint64_t read_interval = 0;
  int writer = 0;
  int reader = 0;
};

// Notes an access of the running thread.
enum class Access : std::uint8_t { read, write };
void shared_access(SharedWord* first, std::size_t words, Access access);

}  // namespace mmaemu::testing::simt
