#include "launcher/host/env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/launcher/config/error_matchers.h"

namespace trireme {
namespace {

EnvironmentLookup variables(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(Env, AloneWithoutLauncher) {
  const LaunchEnvironment launch = read_launch_environment(variables({}));
  EXPECT_FALSE(launch.under_mpi());
  EXPECT_EQ(launch.num_ranks, 1);
  // In a Slurm batch script without srun.
  EXPECT_FALSE(
      read_launch_environment(variables({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}})).under_mpi());
}

TEST(Env, StagesOnGpusGetQueuesAndLoadedKernels) {
  std::map<std::string, std::string> set;
  const auto setter = [&](const char* name, const char* value) { set[name] = value; };
  prepare_environment_for_stages(variables({}), setter);
  EXPECT_EQ(set, (std::map<std::string, std::string>{{"CUDA_DEVICE_MAX_CONNECTIONS", "32"},
                                                     {"CUDA_MODULE_LOADING", "EAGER"}}));
  set.clear();
  prepare_environment_for_stages(
      variables({{"CUDA_DEVICE_MAX_CONNECTIONS", "24"}, {"CUDA_MODULE_LOADING", "LAZY"}}), setter);
  EXPECT_TRUE(set.empty());
  const std::string message = error_message([&] {
    prepare_environment_for_stages(variables({{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}}), setter);
  });
  EXPECT_THAT(message,
              ::testing::HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS = 1: the streams of a pipeline's rank"));
}

TEST(Env, RanksThatShareAGpuClaimHostsOfTheirOwn) {
  std::map<std::string, std::string> set;
  const auto setter = [&](const char* name, const char* value) { set[name] = value; };
  prepare_environment_for_shared_gpus({.rank = 3, .num_ranks = 4, .num_local_ranks = 4}, variables({}),
                                      setter);
  EXPECT_EQ(set, (std::map<std::string, std::string>{{"NCCL_HOSTID", "trireme-rank-3"},
                                                     {"NCCL_SOCKET_IFNAME", "lo"},
                                                     {"NCCL_IB_DISABLE", "1"},
                                                     {"NCCL_ALGO", "Ring"},
                                                     {"NCCL_PROTO", "Simple"}}));
  // The loopback interface reaches no other machine. A user's choices stay, apart from a host for all ranks.
  set.clear();
  prepare_environment_for_shared_gpus({.rank = 5, .num_ranks = 8, .local_rank = 1, .num_local_ranks = 4},
                                      variables({{"NCCL_HOSTID", "one"}, {"NCCL_PROTO", "LL"}}), setter);
  EXPECT_EQ(set, (std::map<std::string, std::string>{
                     {"NCCL_HOSTID", "trireme-rank-5"}, {"NCCL_IB_DISABLE", "1"}, {"NCCL_ALGO", "Ring"}}));
}

TEST(Env, ThreadsSpinBrieflyUnlessTheUserSaysHowTheyWait) {
  std::map<std::string, std::string> set;
  const auto setter = [&](const char* name, const char* value) { set[name] = value; };
  EXPECT_FALSE(prepare_environment_for_threads(variables({{"OMP_WAIT_POLICY", "active"}}), setter));
  EXPECT_FALSE(prepare_environment_for_threads(variables({{"GOMP_SPINCOUNT", "5"}}), setter));
  EXPECT_TRUE(set.empty());
  EXPECT_TRUE(prepare_environment_for_threads(variables({}), setter));
  ASSERT_TRUE(set.contains("GOMP_SPINCOUNT"));
  // Set once, so that the program does not restart for ever.
  EXPECT_FALSE(prepare_environment_for_threads(variables(set), setter));
}

TEST(Env, OpenMpi) {
  const LaunchEnvironment launch = read_launch_environment(variables({{"OMPI_COMM_WORLD_SIZE", "4"},
                                                                      {"OMPI_COMM_WORLD_RANK", "3"},
                                                                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                                      {"PMIX_RANK", "3"}}));
  EXPECT_TRUE(launch.under_mpi());
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.num_ranks, 4);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.num_local_ranks, 2);
}

TEST(Env, SlurmWithPmix) {
  const LaunchEnvironment launch = read_launch_environment(
      variables({{"PMIX_RANK", "5"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_LOCALID", "1"}}));
  EXPECT_TRUE(launch.under_mpi());
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.num_ranks, 8);
  EXPECT_EQ(launch.local_rank, 1);
}

TEST(Env, SlurmListsTheTasksOfEachNode) {
  const auto tasks = [](const std::string& list, const std::string& node) {
    return read_launch_environment(
               variables({{"PMIX_RANK", "0"}, {"SLURM_STEP_TASKS_PER_NODE", list}, {"SLURM_NODEID", node}}))
        .num_local_ranks;
  };
  EXPECT_EQ(tasks("4", "0"), 4);
  EXPECT_EQ(tasks("4(x2)", "1"), 4);
  EXPECT_EQ(tasks("4(x2),3,2(x12)", "2"), 3);
  EXPECT_EQ(tasks("4(x2),3,2(x12)", "14"), 2);
  EXPECT_EQ(tasks("4(x2)", "2"), 1);  // unknown
  EXPECT_EQ(tasks("4(x", "0"), 1);
  EXPECT_EQ(tasks("", "0"), 1);
}

TEST(Env, SlurmWithoutMpiIsRefused) {
  const std::string message = error_message([] {
    read_launch_environment(variables({{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "2"}}));
  });
  EXPECT_THAT(message, ::testing::HasSubstr("srun has started 4 tasks without MPI"));
  EXPECT_NO_THROW(read_launch_environment(variables({{"SLURM_STEP_NUM_TASKS", "1"}})));
}

TEST(Env, UnreadableNumbersAreIgnored) {
  const LaunchEnvironment launch =
      read_launch_environment(variables({{"OMPI_COMM_WORLD_SIZE", "4x"}, {"OMPI_COMM_WORLD_RANK", ""}}));
  EXPECT_EQ(launch.num_ranks, 1);
  EXPECT_EQ(launch.rank, 0);
}

}  // namespace
}  // namespace trireme
