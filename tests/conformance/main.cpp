// Registers one test for each recorded case and target, so that a failing case can be rerun alone: suites
// Rtx4060Chains, Rtx4060Calls, Toolbox, OracleChains, OracleCalls and AutoSplit, each with the target's name
// before it; the test's name is the case's id. Ends with what was checked.
#include <cstdint>
#include <gtest/gtest.h>
#include <iomanip>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "golden.h"
#include "replay.h"
#include "targets.h"

namespace mmaemu::testing {
namespace {

struct Totals {
  std::int64_t cases = 0;
  std::int64_t outputs = 0;
};

std::map<std::string, Totals>& totals() {
  static std::map<std::string, Totals> map;
  return map;
}

golden::Archives& archives() {
  static golden::Archives all;
  return all;
}

template <class Case>
using Replay = Outcome (*)(const Target&, const Case&, golden::Archives&);

template <class Case>
class ReplayTest : public ::testing::Test {
 public:
  ReplayTest(const Target& target, const Case& recorded, Replay<Case> replay)
      : target_(target), recorded_(recorded), replay_(replay) {}

  void TestBody() override {
    const Outcome outcome = replay_(target_, recorded_, archives());
    for (const std::string& failure : outcome.failures) ADD_FAILURE() << failure;
    EXPECT_GT(outcome.outputs, 0) << "the case has no outputs";
    Totals& total = totals()[::testing::UnitTest::GetInstance()->current_test_info()->test_suite_name()];
    ++total.cases;
    total.outputs += outcome.outputs;
  }

 private:
  const Target& target_;
  const Case& recorded_;
  Replay<Case> replay_;
};

// `cases` must outlive the run.
template <class Case>
void register_suite(const Target& target, const std::string& name, const std::vector<Case>& cases,
                    Replay<Case> replay) {
  for (const Case& recorded : cases) {
    ::testing::RegisterTest((target.name + "/" + name).c_str(), recorded.id.c_str(), nullptr, nullptr,
                            __FILE__, __LINE__, [&target, &recorded, replay]() -> ::testing::Test* {
                              return new ReplayTest<Case>(target, recorded, replay);
                            });
  }
}

struct Recorded {
  golden::Rtx4060 rtx4060 = golden::load_rtx4060();
  std::vector<golden::ToolboxSet> toolbox = golden::load_toolbox();
  std::vector<golden::DotCase> oracle_chains = golden::load_dots();
  std::vector<golden::CallCase> oracle_calls = golden::load_oracle();
  std::vector<golden::CallCase> auto_calls = golden::load_auto();
};

std::int64_t outputs_of(const std::vector<golden::CallCase>& cases) {
  std::int64_t outputs = 0;
  for (const golden::CallCase& c : cases) outputs += static_cast<std::int64_t>(c.calls.size());
  return outputs;
}

// A truncated file would otherwise pass.
class Holdings : public ::testing::Test {
 public:
  explicit Holdings(const Recorded& recorded) : recorded_(recorded) {}
  void TestBody() override {
    const golden::Rtx4060& rtx4060 = recorded_.rtx4060;
    EXPECT_EQ(rtx4060.dots.size(), 94U);
    EXPECT_EQ(rtx4060.dots.size() + rtx4060.calls.size(), 1844U);
    EXPECT_EQ(static_cast<std::int64_t>(rtx4060.dots.size()) + outputs_of(rtx4060.calls), 10338);
    EXPECT_EQ(recorded_.toolbox.size(), 10U);
    EXPECT_EQ(recorded_.oracle_chains.size(), 500U);
    EXPECT_EQ(outputs_of(recorded_.oracle_calls), 2 * 600);
    EXPECT_EQ(recorded_.auto_calls.size(), 120U);
  }

 private:
  const Recorded& recorded_;
};

void print_totals(const Recorded& recorded) {
  for (const auto& [suite, total] : totals()) {
    std::cout << std::left << std::setw(22) << suite << std::right << std::setw(6) << total.cases << " cases"
              << std::setw(8) << total.outputs << " outputs\n";
  }
  if (totals().empty()) return;
  std::int64_t positional = 0;
  for (const golden::CallCase& c : recorded.rtx4060.calls)
    for (const golden::Call& call : c.calls) positional += call.positional_bias ? 1 : 0;
  std::cout << "Not told apart in C++: a bias passed by position or by keyword (" << positional
            << " calls by position).\n";
}

}  // namespace

int run_all() {
  const Recorded recorded;
  ::testing::RegisterTest("Recordings", "AreAllThere", nullptr, nullptr, __FILE__, __LINE__,
                          [&]() -> ::testing::Test* { return new Holdings(recorded); });
  for (const Target& target : targets()) {
    register_suite(target, "Rtx4060Chains", recorded.rtx4060.dots, &replay_dot);
    register_suite(target, "Rtx4060Calls", recorded.rtx4060.calls, &replay_calls);
    register_suite(target, "Toolbox", recorded.toolbox, &replay_toolbox);
    register_suite(target, "OracleChains", recorded.oracle_chains, &replay_dot);
    register_suite(target, "OracleCalls", recorded.oracle_calls, &replay_calls);
  }
  // These calls are large, and what they show is the decision: once through the entry points is enough.
  register_suite(targets().front(), "AutoSplit", recorded.auto_calls, &replay_calls);
  const int failed = RUN_ALL_TESTS();
  print_totals(recorded);
  return failed;
}

}  // namespace mmaemu::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return mmaemu::testing::run_all();
}
