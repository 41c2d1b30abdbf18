#include "runtime/base/rng.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

// Known answers of Philox4x32-10 from the Random123 library's kat_vectors (Salmon et al.).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Philox4{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  const std::uint32_t ones = 0xffffffffu;
  EXPECT_EQ(philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (Philox4{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(philox4x32({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
            (Philox4{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(Philox, EveryPartOfTheKeyMatters) {
  const RngKey key{.seed = 1, .step = 2, .block = 3, .op = 4};
  const Philox4 base = key.draw(5, 6);
  EXPECT_NE(base, (RngKey{.seed = 1ull << 40 | 1, .step = 2, .block = 3, .op = 4}.draw(5, 6)));
  EXPECT_NE(base, (RngKey{.seed = 1, .step = 9, .block = 3, .op = 4}.draw(5, 6)));
  EXPECT_NE(base, (RngKey{.seed = 1, .step = 2, .block = 9, .op = 4}.draw(5, 6)));
  EXPECT_NE(base, (RngKey{.seed = 1, .step = 2, .block = 3, .op = 9}.draw(5, 6)));
  EXPECT_NE(base, key.draw(9, 6));
  EXPECT_NE(base, key.draw(5, 9));
}

}  // namespace
}  // namespace trireme
