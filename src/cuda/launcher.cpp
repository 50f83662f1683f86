// cuLaunchKernel takes the address of each parameter: their types are those of kernels/*.cu.
#include "cuda/launcher.h"

#include <algorithm>

namespace mmaemu::cuda {
namespace {

constexpr int kThreads = 256;                   // of a block of the functions that run over elements
constexpr std::int64_t kMostBlocks = 65'536;    // of those functions, whose threads take more elements each
constexpr std::int64_t kMostGridRows = 65'535;  // a driver's limit on the second size of a grid

constexpr std::array<std::string_view, 5> kCommon{"mmaemu_gather", "mmaemu_add", "mmaemu_clear",
                                                  "mmaemu_flag", "mmaemu_finish"};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

std::string chain_name(const Kernel& kernel, FormatId a, FormatId b) {
  return "mmaemu_" + std::string(kernel.name) + "_" + std::string(format(a).name) +
         std::string(format(b).name);
}

std::string probe_name(std::string_view gate) {
  return "mmaemu_probe_" + std::string(gate);
}

std::uint32_t first_non_finite(FormatId id) {
  return format(id).max_finite() + 1;
}

}  // namespace

std::vector<std::string> function_names(const Kernel& kernel) {
  std::vector<std::string> names(kCommon.begin(), kCommon.end());
  for (const FormatPair& pair : kernel.pairs) names.push_back(chain_name(kernel, pair.a, pair.b));
  for (const std::string_view gate : kernel.own_gates) names.push_back(probe_name(gate));
  return names;
}

void Launcher::launch(std::string_view function, std::array<unsigned, 2> grid, std::array<unsigned, 2> block,
                      void** parameters) {
  if (!status_.ok()) return;
  const Driver& driver = runtime_.driver();
  const DriverStatus status = driver.launch(loaded_.function(function), grid[0], grid[1], 1, block[0],
                                            block[1], 1, 0, stream_, parameters, nullptr);
  if (status != kDriverSuccess)
    status_ = driver_error(driver, "the launch of " + std::string(function) + " fails", status);
}

void Launcher::launch_linear(std::string_view function, std::int64_t threads, void** parameters) {
  const std::int64_t blocks = std::clamp<std::int64_t>(ceil_div(threads, kThreads), 1, kMostBlocks);
  launch(function, {static_cast<unsigned>(blocks), 1}, {kThreads, 1}, parameters);
}

void Launcher::chain(const DeviceRows& a, const DeviceRows& b, DeviceAddress result) {
  const std::string name = chain_name(kernel_, a.format, b.format);
  const Tile& tile = kernel_.tile;
  const std::int64_t most_rows = kMostGridRows * tile.rows;
  for (std::int64_t first = 0; first < a.rows; first += most_rows) {
    DeviceAddress from = a.address + static_cast<DeviceAddress>(first * a.depth);
    DeviceAddress codes = b.address;
    DeviceAddress to = result + static_cast<DeviceAddress>(first * b.rows) * sizeof(float);
    int M = static_cast<int>(std::min(most_rows, a.rows - first));
    int N = static_cast<int>(b.rows);
    int K = static_cast<int>(a.depth);
    std::array<void*, 6> parameters{&from, &codes, &to, &M, &N, &K};
    launch(name,
           {static_cast<unsigned>(ceil_div(N, tile.columns)), static_cast<unsigned>(ceil_div(M, tile.rows))},
           {static_cast<unsigned>(tile.threads_x), static_cast<unsigned>(tile.threads_y)}, parameters.data());
  }
}

void Launcher::gather(const DeviceRows& from, const Chain& chain, DeviceAddress to) {
  DeviceRows source = from;
  Chain c = chain;
  std::array<void*, 8> parameters{&source.address, &to,       &source.rows, &source.depth,
                                  &c.begin,        &c.length, &c.width,     &c.stride};
  launch_linear("mmaemu_gather", from.rows * (chain.length / 16), parameters.data());
}

void Launcher::add(DeviceAddress sum, DeviceAddress part, std::int64_t elements) {
  std::array<void*, 3> parameters{&sum, &part, &elements};
  launch_linear("mmaemu_add", elements, parameters.data());
}

void Launcher::flag(const DeviceRows& codes, DeviceAddress flags) {
  DeviceRows rows = codes;
  std::array<void*, 2> cleared{&flags, &rows.rows};
  launch_linear("mmaemu_clear", rows.rows, cleared.data());
  std::uint32_t first = first_non_finite(codes.format);
  std::array<void*, 5> parameters{&rows.address, &flags, &rows.rows, &rows.depth, &first};
  launch_linear("mmaemu_flag", rows.rows * (rows.depth / 16), parameters.data());
}

void Launcher::finish(const Finish& f) {
  Finish g = f;
  std::uint32_t first_a = first_non_finite(f.a.format);
  std::uint32_t first_b = first_non_finite(f.b.format);
  int out_format = static_cast<int>(f.format);
  std::array<void*, 16> parameters{&g.sums,   &g.a.address, &g.b.address, &g.flags_a,  &g.flags_b, &first_a,
                                   &first_b,  &g.out,       &out_format,  &g.a.rows,   &g.b.rows,  &g.a.depth,
                                   &g.stride, &g.scales[0], &g.scales[1], &g.scales[2]};
  launch_linear("mmaemu_finish", f.a.rows * f.b.rows, parameters.data());
}

void Launcher::probe(std::string_view gate, DeviceAddress violations, std::uint32_t seed, int rounds) {
  constexpr std::int64_t kWarp = 32;
  std::array<void*, 3> parameters{&violations, &seed, &rounds};
  launch_linear(probe_name(gate), kProbeWarps * kWarp, parameters.data());
}

}  // namespace mmaemu::cuda
