// Files that are written as a whole or not at all.
#include "platform/files.h"

#include <gtest/gtest.h>
#include <thread>

#include "../cuda/temporary_folder.h"

namespace mmaemu {
namespace {

using testing::contents;
using testing::files_below;
using testing::fill;
using testing::TemporaryFolder;

TEST(Files, AreReadAsTheyWereWritten) {
  const TemporaryFolder folder;
  const std::string path = folder / "new/folders/file";
  for (const std::string& text : {std::string("one\0two", 7), std::string(), std::string(100000, 'x')}) {
    ASSERT_TRUE(write_file(path, bytes_of(text)).ok());
    const std::optional<Bytes> read = read_file(path);
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(text_of(*read), text);
  }
  EXPECT_EQ(files_below(folder.path()).size(), 1U);
}

TEST(Files, ThatCannotBeReadAreNone) {
  const TemporaryFolder folder;
  EXPECT_FALSE(read_file(folder / "missing").has_value());
  EXPECT_FALSE(read_file(folder.path()).has_value());
  EXPECT_FALSE(read_file("").has_value());
}

TEST(Files, ThatCannotBeWrittenStayAsTheyAre) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "taken");
  const Status over_folder = write_file(folder / "taken", bytes_of("text"));
  ASSERT_FALSE(over_folder.ok());
  EXPECT_NE(over_folder.error().message.find("taken"), std::string::npos) << over_folder.error().message;
  fill(folder / "file", "old");
  EXPECT_FALSE(write_file(folder / "file/below", bytes_of("text")).ok());
  EXPECT_EQ(contents(folder / "file"), "old");
  EXPECT_EQ(files_below(folder.path()).size(), 1U);  // no temporary file stays
}

TEST(Files, AreNeverSeenHalfWritten) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  const std::string a(1 << 20, 'a');
  const std::string b(1 << 19, 'b');
  ASSERT_TRUE(write_file(path, bytes_of(a)).ok());
  std::jthread writer([&] {
    for (int i = 0; i < 50; ++i) static_cast<void>(write_file(path, bytes_of(i % 2 == 0 ? b : a)).ok());
  });
  for (int i = 0; i < 200; ++i) {
    const std::optional<Bytes> read = read_file(path);
    ASSERT_TRUE(read.has_value());
    const std::string_view text = text_of(*read);
    EXPECT_TRUE(text == a || text == b) << text.size();
  }
}

TEST(Files, FolderOfTheLibraryIsThatOfTheProgramThatHoldsIt) {
  EXPECT_EQ(library_folder(), std::filesystem::read_symlink("/proc/self/exe").parent_path().string());
}

}  // namespace
}  // namespace mmaemu
