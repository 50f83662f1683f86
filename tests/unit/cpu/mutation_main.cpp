// Linked with an engine one of whose constants is broken (MMAEMU_MUTANT): the random cases must notice, on
// every target of this processor. Exits with 0 if they do.
#include <cstdio>

#include "cpu/target.h"
#include "differential.h"

int main() {
  using namespace mmaemu;
  const std::uint64_t seed = testing::test_seed();
  const std::int64_t cases = testing::test_cases(3000);
  std::printf("MMAEMU_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  bool all_caught = true;
  for (const cpu::Target target : cpu::available_targets()) {
    std::int64_t caught = 0;
    std::int64_t first = -1;
    for (std::int64_t i = 0; i < cases && caught < 3; ++i) {
      if (!testing::DifferentialCase(seed, i).difference(cpu::name(target))) continue;
      if (++caught == 1) first = i;
    }
    std::printf("%s: %s, first by case %lld\n", cpu::name(target).data(),
                caught > 0 ? "caught" : "NOT caught", static_cast<long long>(first));
    all_caught = all_caught && caught > 0;
  }
  return all_caught ? 0 : 1;
}
