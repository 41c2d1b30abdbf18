#include "launcher/host/address_space.h"

#include <gtest/gtest.h>

#include "tests/launcher/config/error_matchers.h"

namespace trireme {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

TEST(AddressSpace, ALimitTooSmallForThreadsIsRefused) {
  EXPECT_NO_THROW(refuse_small_address_space({.used_bytes = 80 * kMiB, .num_threads = 64}));
  EXPECT_NO_THROW(
      refuse_small_address_space({.limit_bytes = 160 * kMiB, .used_bytes = 80 * kMiB, .num_threads = 2}));
  EXPECT_EQ(error_message([] {
              refuse_small_address_space(
                  {.limit_bytes = 160 * kMiB - 1, .used_bytes = 80 * kMiB, .num_threads = 2});
            }),
            "ulimit -v is 163839: the program, its libraries and threads need 163840 KiB of address space; "
            "set it to more, or to unlimited");
}

TEST(AddressSpace, OfThisProcessIsKnown) {
  const AddressSpace space = address_space();
  EXPECT_GT(space.used_bytes, kMiB);
  EXPECT_GE(space.num_threads, 1);
}

}  // namespace
}  // namespace trireme
