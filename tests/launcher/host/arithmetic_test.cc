#include "launcher/host/arithmetic.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/host/agreement.h"
#include "parallel/comm/local.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Arithmetic, NamesWhatDecidesBits) {
  const BitFacts facts = arithmetic_of({DeviceType::kCpu, 0});
  for (const char* name : {"build", "instruction set", "oneDNN", "oneDNN's instruction set"}) {
    ASSERT_TRUE(facts.contains(name)) << name;
    EXPECT_NE(facts.at(name), "");
  }
}

TEST(Arithmetic, RanksWithOtherInstructionsAreNamedWithTheirHosts) {
  const BitFacts wide = {{"instruction set", "x86_64_v4"}, {"build", "1"}};
  const BitFacts narrow = {{"instruction set", "x86_64_v3"}, {"build", "1"}};
  EXPECT_EQ(describe_different_ranks({wide, wide}, {"a", "b"}), "");
  const std::string text = describe_different_ranks({wide, wide, narrow, wide}, {"a", "b", "b", "c"});
  EXPECT_THAT(text, AllOf(HasSubstr("instruction set: x86_64_v4 on ranks 0-1, 3 (a and 2 more hosts), "
                                    "x86_64_v3 on rank 2 (b)"),
                          HasSubstr("mpirun -x ONEDNN_MAX_CPU_ISA="), Not(HasSubstr("build:"))));
}

TEST(Arithmetic, ALibraryThatOneRankLacksIsADifference) {
  const std::string text = describe_different_ranks({{{"oneDNN", "2.6.3"}}, {}}, {"a", "b"});
  EXPECT_THAT(text, AllOf(HasSubstr("oneDNN: 2.6.3 on rank 0 (a), none on rank 1 (b)"),
                          HasSubstr("the same build, libraries"), Not(HasSubstr("ONEDNN_MAX_CPU_ISA"))));
}

TEST(Arithmetic, UnlikeCardsAreNamed) {
  const auto card = [](const char* name, int multiprocessors) -> BitFacts {
    return {{"GPU", fmt::format("{}, sm_90, {} multiprocessors", name, multiprocessors)},
            {"cuDNN", "9.19.0"}};
  };
  const BitFacts sxm = card("NVIDIA H100 80GB HBM3", 132), pcie = card("NVIDIA H100 PCIe", 114);
  EXPECT_EQ(describe_different_ranks({sxm, sxm}, {"a", "b"}), "");
  EXPECT_THAT(
      describe_different_ranks({sxm, pcie, sxm}, {"a", "b", "c"}),
      AllOf(HasSubstr("GPU: NVIDIA H100 80GB HBM3, sm_90, 132 multiprocessors on ranks 0, 2 (a and 1 more "
                      "hosts), NVIDIA H100 PCIe, sm_90, 114 multiprocessors on rank 1 (b)"),
            HasSubstr("train on GPUs of one model"), Not(HasSubstr("the same build, libraries"))));
  EXPECT_THAT(
      describe_changes(sxm, pcie),
      ElementsAre("GPU (NVIDIA H100 80GB HBM3, sm_90, 132 multiprocessors, now NVIDIA H100 PCIe, sm_90, 114 "
                  "multiprocessors)"));
}

TEST(Arithmetic, RanksRefuseTogether) {
  run_local_ranks(2, [](const std::shared_ptr<Communicator>& comm) {
    check_same_arithmetic(*comm, {{"build", "1"}});
    EXPECT_THROW(check_same_arithmetic(*comm, {{"build", std::to_string(comm->rank())}}), AgreedError);
  });
}

TEST(Arithmetic, ChangesAreThoseThatBothKnow) {
  EXPECT_THAT(
      describe_changes(BitFacts{{"a", "1"}, {"b", "1"}, {"c", "1"}}, {{"b", "2"}, {"c", "1"}, {"d", "1"}}),
      ElementsAre("b (1, now 2)"));
  EXPECT_THAT(describe_changes(BitFacts{}, {{"b", "2"}}), IsEmpty());
}

}  // namespace
}  // namespace trireme
