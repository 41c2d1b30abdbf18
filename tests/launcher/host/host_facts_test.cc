#include "launcher/host/host_facts.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(HostFacts, AreFoundAmongWhatMpirunPrints) {
  const HostFacts facts = facts_of_this_host(DeviceType::kCpu);
  EXPECT_FALSE(facts.host.empty());
  EXPECT_TRUE(facts.arithmetic.contains("instruction set"));
  EXPECT_FALSE(facts.arithmetic.at("build id").empty());
  const auto found = find_host_facts("a warning\n{\"other\": 1}\n" + to_json(facts) + "\nmore\n");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->host, facts.host);
  EXPECT_EQ(found->arithmetic, facts.arithmetic);
  EXPECT_FALSE(find_host_facts("ssh: connect to host b port 22: Connection refused\n"));
}

TEST(HostFacts, TellWhatMakesOtherBits) {
  const BitFacts one = {{"instruction set", "x86_64_v3"}, {"build", "1"}},
                 reference = {
                     {"instruction set", "x86_64_v4"}, {"build", "1"}, {"processor's maker", "Intel"}};
  EXPECT_EQ(describe_other_bits(one, one), "");
  EXPECT_EQ(describe_other_bits(one, reference),
            "instruction set x86_64_v3, not x86_64_v4; processor's maker none, not Intel");
}

}  // namespace
}  // namespace trireme
