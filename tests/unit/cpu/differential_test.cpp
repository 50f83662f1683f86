// Every CPU target of this processor against the model, bit by bit, on fresh random cases.
#include "differential.h"

#include <algorithm>
#include <cstdio>
#include <gtest/gtest.h>
#include <string>

#include "mmaemu/gemm.h"

#include "cpu/target.h"

namespace mmaemu::testing {
namespace {

TEST(Differential, EveryTargetEqualsTheModel) {
  const std::uint64_t seed = test_seed();
  const std::int64_t cases = test_cases(12'000);
  std::vector<std::string_view> here;
  for (const cpu::Target target : cpu::available_targets()) here.push_back(cpu::name(target));
  std::string absent;
  for (const std::string_view name : cpu::kTargetNames)
    if (std::ranges::find(here, name) == here.end()) absent += " " + std::string(name);
  std::string run;
  for (const std::string_view name : here) run += " " + std::string(name);
  std::printf("MMAEMU_TEST_SEED=%llu, %lld cases; targets run:%s; not available here:%s\n",
              static_cast<unsigned long long>(seed), static_cast<long long>(cases), run.c_str(),
              absent.empty() ? " none" : absent.c_str());
  int failures = 0;
  for (std::int64_t i = 0; i < cases && failures < 5; ++i) {
    DifferentialCase one(seed, i);
    for (const std::string_view target : here) {
      const std::optional<std::string> difference = one.difference(target);
      if (!difference) continue;
      ADD_FAILURE() << target << ": " << *difference << "\n  " << one.description();
      ++failures;
    }
  }
}

}  // namespace
}  // namespace mmaemu::testing
