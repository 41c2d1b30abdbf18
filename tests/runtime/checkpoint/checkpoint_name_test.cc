#include "runtime/checkpoint/checkpoint_name.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

using Kind = CheckpointName::Kind;

TEST(CheckpointName, RoundTrip) {
  EXPECT_EQ((CheckpointName{.kind = Kind::kFinal, .step = 10, .mark = ""}).to_string(), "step-000010");
  EXPECT_EQ((CheckpointName{.kind = Kind::kFinal, .step = 12345678, .mark = ""}).to_string(),
            "step-12345678");
  for (const char* text : {"step-000000", "step-999999", "step-1000000", ".tmp-step-000010-7.99@a-host.org",
                           ".old-step-000010-7.99@h", ".del-step-1234567-7.99@h"}) {
    const auto name = parse_checkpoint_name(text);
    ASSERT_TRUE(name.has_value()) << text;
    EXPECT_EQ(name->to_string(), text);
  }
  const auto temporary = parse_checkpoint_name(".tmp-step-000010-7.99@a-host.org");
  EXPECT_EQ(temporary->kind, Kind::kTemporary);
  EXPECT_EQ(temporary->step, 10);
  EXPECT_EQ(temporary->mark, "7.99@a-host.org");
}

TEST(CheckpointName, OthersAreNotOurs) {
  for (const char* text : {"", "step-", "step-10", "step-0000010", "step--00010", "step-000010-copy",
                           "step-00001x", "step-99999999999999999999", ".tmp-step-000010",
                           ".tmp-000010-7.9@h", ".new-step-000010-7.9@h", "notes.txt"})
    EXPECT_FALSE(parse_checkpoint_name(text).has_value()) << text;
}

}  // namespace
}  // namespace trireme
