// Errors as values.
#include "mmaemu/status.h"

#include <gtest/gtest.h>
#include <memory>

namespace mmaemu {
namespace {

TEST(ErrorKinds, AreNamedAsTheirPythonClasses) {
  EXPECT_EQ(class_name(ErrorKind::type_error), "TypeError");
  EXPECT_EQ(class_name(ErrorKind::value_error), "ValueError");
  EXPECT_EQ(class_name(ErrorKind::key_error), "KeyError");
  EXPECT_EQ(class_name(ErrorKind::out_of_memory), "MemoryError");
  EXPECT_EQ(class_name(ErrorKind::cancelled), "KeyboardInterrupt");
  EXPECT_EQ(class_name(ErrorKind::mmaemu_error), "MmaemuError");
  EXPECT_EQ(class_name(ErrorKind::reference_rejects), "ReferenceRejectsError");
  EXPECT_EQ(class_name(ErrorKind::unsupported_feature), "UnsupportedFeatureError");
  EXPECT_EQ(class_name(ErrorKind::split_unknown), "SplitKUnknownError");
  EXPECT_EQ(class_name(ErrorKind::backend_unavailable), "BackendUnavailableError");
}

TEST(Status, IsSuccessOrAnError) {
  const Status success;
  EXPECT_TRUE(success.ok());
  const Status failure = Error{ErrorKind::value_error, "K is -1"};
  ASSERT_FALSE(failure.ok());
  EXPECT_EQ(failure.error(), (Error{ErrorKind::value_error, "K is -1"}));
  EXPECT_NE(failure.error(), (Error{ErrorKind::type_error, "K is -1"}));
  EXPECT_NE(failure.error(), (Error{ErrorKind::value_error, "K is -2"}));
}

TEST(Result, IsAValueOrAnError) {
  const Result<std::string> value = std::string("bits");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value.value(), "bits");
  const Result<std::string> failure = Error{ErrorKind::key_error, "unknown"};
  ASSERT_FALSE(failure.ok());
  EXPECT_EQ(failure.error().kind, ErrorKind::key_error);
}

TEST(Result, GivesItsValueAway) {
  struct MoveOnly {
    std::unique_ptr<int> owned;
  };
  Result<MoveOnly> result = MoveOnly{std::make_unique<int>(7)};
  const MoveOnly taken = std::move(result).value();
  EXPECT_EQ(*taken.owned, 7);
}

}  // namespace
}  // namespace mmaemu
