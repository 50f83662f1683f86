// The verdict cache: what is kept is found, and no state of the folder is worse than an empty one.
#include "cuda/verdicts.h"

#include <gtest/gtest.h>

#include "../platform/scoped_environment.h"
#include "temporary_folder.h"

namespace mmaemu::cuda {
namespace {

using mmaemu::testing::contents;
using mmaemu::testing::files_below;
using mmaemu::testing::fill;
using mmaemu::testing::ScopedVariable;
using mmaemu::testing::TemporaryFolder;

VerdictKey key() {
  return {.kernel = "v4",
          .uuid = "GPU-1",
          .capability = "8.9",
          .driver = 12080,
          .driver_build = "libcuda.so.570.1",
          .binary = "abc"};
}

std::vector<GateResult> gates(bool passed) {
  return {{"load", true, "fatbin", {}, 0.5, false},
          {"smoke", passed, "3 products\tand a\nline", {{"elements", 12}, {"mismatches", -1}}, 0.25, false}};
}

// As a later process finds them: each folder is a cache of its own, so a copy of one has nothing in memory.
std::optional<std::vector<GateResult>> found_later(const std::string& folder,
                                                   const VerdictKey& wanted = key()) {
  const TemporaryFolder copy;
  if (std::filesystem::exists(folder + "/verdicts"))
    std::filesystem::copy(folder, copy.path(), std::filesystem::copy_options::recursive);
  const ScopedVariable variable("MMAEMU_CACHE_DIR", copy.path());
  return find_verdict(wanted);
}

class Verdicts : public ::testing::Test {
 protected:
  std::string entry() {
    const std::vector<std::string> files = files_below(folder_.path());
    EXPECT_EQ(files.size(), 1U);
    return files.at(0);
  }
  TemporaryFolder folder_;
  ScopedVariable variable_{"MMAEMU_CACHE_DIR", folder_.path()};
};

TEST_F(Verdicts, AreFoundInThisProcessAndInTheNext) {
  EXPECT_FALSE(find_verdict(key()).has_value());
  for (const bool passed : {true, false}) {
    keep_verdict(key(), gates(passed));
    std::vector<GateResult> expected = gates(passed);
    for (GateResult& gate : expected) gate.cached = true;
    EXPECT_EQ(find_verdict(key()), expected);
    expected[1].reason = "3 products and a line";
    EXPECT_EQ(found_later(folder_.path()), expected);
  }
}

TEST_F(Verdicts, HoldForTheirKeyAlone) {
  keep_verdict(key(), gates(true));
  std::vector<VerdictKey> others(6, key());
  others[0].kernel = "v1";
  others[1].uuid = "GPU-2";
  others[2].capability = "9.0";
  others[3].driver = 12090;
  others[4].driver_build = "libcuda.so.570.2";
  others[5].binary = "abd";
  for (const VerdictKey& other : others) {
    EXPECT_FALSE(find_verdict(other).has_value()) << other.text();
    EXPECT_FALSE(found_later(folder_.path(), other).has_value()) << other.text();
  }
}

TEST_F(Verdicts, DamagedEntryIsNone) {
  keep_verdict(key(), gates(false));
  const std::string path = entry();
  const std::string whole = contents(path);
  ASSERT_TRUE(found_later(folder_.path()).has_value());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    fill(path, damaged);
    EXPECT_FALSE(found_later(folder_.path()).has_value()) << "byte " << at;
  }
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, whole.size() / 2, whole.size() - 1}) {
    fill(path, whole.substr(0, length));
    EXPECT_FALSE(found_later(folder_.path()).has_value()) << length << " bytes";
  }
  fill(path, whole + whole);
  EXPECT_FALSE(found_later(folder_.path()).has_value());
}

TEST_F(Verdicts, OfAnotherKeyUnderThisNameIsNone) {
  VerdictKey another = key();
  another.kernel = "v1";
  keep_verdict(another, gates(true));
  const std::string other = contents(entry());
  std::filesystem::remove(entry());
  keep_verdict(key(), gates(true));
  fill(entry(), other);
  EXPECT_FALSE(found_later(folder_.path()).has_value());
}

TEST_F(Verdicts, FolderThatCannotBeWrittenKeepsThemInMemory) {
  const std::string file = folder_ / "file";
  fill(file, "");
  const ScopedVariable variable("MMAEMU_CACHE_DIR", file + "/below");
  keep_verdict(key(), gates(true));
  EXPECT_TRUE(find_verdict(key()).has_value());
  EXPECT_EQ(contents(file), "");
}

TEST_F(Verdicts, WithoutAnyFolderAreKeptInMemory) {
  const ScopedVariable none("MMAEMU_CACHE_DIR", std::nullopt);
  const ScopedVariable xdg("XDG_CACHE_HOME", std::nullopt);
  const ScopedVariable home("HOME", std::nullopt);
  VerdictKey k = key();
  k.uuid = "GPU-memory";
  keep_verdict(k, gates(true));
  EXPECT_TRUE(find_verdict(k).has_value());
}

TEST_F(Verdicts, FolderIsTheUsersCacheWithoutTheVariable) {
  const ScopedVariable none("MMAEMU_CACHE_DIR", std::nullopt);
  {
    const ScopedVariable xdg("XDG_CACHE_HOME", folder_ / "xdg");
    keep_verdict(key(), gates(true));
    EXPECT_EQ(files_below(folder_ / "xdg/mmaemu/verdicts").size(), 1U);
  }
  const ScopedVariable xdg("XDG_CACHE_HOME", "");
  const ScopedVariable home("HOME", folder_ / "home");
  keep_verdict(key(), gates(true));
  EXPECT_EQ(files_below(folder_ / "home/.cache/mmaemu/verdicts").size(), 1U);
}

TEST_F(Verdicts, LeaveNoTemporaryFiles) {
  for (int i = 0; i < 3; ++i) keep_verdict(key(), gates(i == 0));
  EXPECT_EQ(files_below(folder_.path()).size(), 1U);
}

}  // namespace
}  // namespace mmaemu::cuda
