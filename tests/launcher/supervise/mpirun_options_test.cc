#include "launcher/supervise/mpirun_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> options_added(const std::vector<std::string>& given, const MpirunNeeds& needs,
                                       const std::map<std::string, std::string>& environment = {}) {
  const auto lookup = [&](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  };
  std::vector<std::string> added;
  for (const AddedOption& one : needed_mpirun_options(given, needs, lookup)) added.push_back(one.option);
  return added;
}

TEST(MpirunOptions, OnlyRootIsAllowedAsRoot) {
  EXPECT_THAT(options_added({}, {.is_root = true}), ElementsAre("--allow-run-as-root"));
  EXPECT_THAT(options_added({"--bind-to", "none"}, {.is_root = true, .has_hosts = true}),
              ElementsAre("--allow-run-as-root"));
  EXPECT_THAT(options_added({}, {.is_root = false}), IsEmpty());
  EXPECT_THAT(options_added({"--allow-run-as-root"}, {.is_root = true}), IsEmpty());
  EXPECT_THAT(options_added({"-allow-run-as-root"}, {.is_root = true}), IsEmpty());
  std::map<std::string, std::string> environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}};
  EXPECT_THAT(options_added({}, {.is_root = true}, environment), ElementsAre("--allow-run-as-root"));
  environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  EXPECT_THAT(options_added({}, {.is_root = true}, environment), IsEmpty());
}

TEST(MpirunOptions, MoreRanksThanCoresShareThem) {
  const MpirunNeeds crowded = {.num_ranks = 5, .num_cores = 4};
  const auto added = needed_mpirun_options({}, crowded, [](const char*) { return std::nullopt; });
  EXPECT_THAT(added, ElementsAre(AddedOption{"--oversubscribe", "5 ranks share 4 core(s)"}));
  EXPECT_THAT(options_added({}, {.num_ranks = 4, .num_cores = 4}), IsEmpty());
}

// More ranks than slots are an error there.
TEST(MpirunOptions, ChosenSlotsAreKept) {
  MpirunNeeds crowded = {.num_ranks = 5, .num_cores = 4};
  for (const char* chosen : {"--oversubscribe", "-oversubscribe", "--nooversubscribe", "node:oversubscribe",
                             "--host", "-H", "--hostfile", "-machinefile", "--use-hwthread-cpus"})
    EXPECT_THAT(options_added({"--bind-to", "none", chosen, "x"}, crowded), IsEmpty()) << chosen;
  for (const char* variable :
       {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE", "OMPI_MCA_rmaps_base_oversubscribe"})
    EXPECT_THAT(options_added({}, crowded, {{variable, "1"}}), IsEmpty()) << variable;
  crowded.has_hosts = true;
  EXPECT_THAT(options_added({}, crowded), IsEmpty());
}

TEST(MpirunOptions, ProcessorsOfACoreCountOnce) {
  EXPECT_GE(count_physical_cores(), 1);
  EXPECT_LE(count_physical_cores(), static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
}

}  // namespace
}  // namespace trireme
