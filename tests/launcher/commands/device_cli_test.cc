// Messages of the built program about GPUs that are not available: in a build without CUDA, and in one with
// CUDA on a machine without a (visible) device.
#include <cstdlib>

#include "tests/launcher/commands/cli_fixture.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

#ifdef TRIREME_WITH_CUDA
constexpr bool kWithCuda = true;
#else
constexpr bool kWithCuda = false;
#endif

class DeviceCli : public Cli {
 protected:
  void SetUp() override {
    ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
    const ProgramResult doctor = run({"doctor", "--no-measure"});
    ASSERT_EQ(doctor.exit_code, 0) << doctor.err;
    doctor_ = doctor.out;
    testing::write_file(
        scratch_ / "job.toml",
        "[model]\nlayers = 1\nhidden = 16\nheads = 2\nvocab = 32\nseq_len = 8\n"
        "[data]\nkind = \"synthetic\"\n[train]\nsteps = 2\nglobal_batch = 2\nmicro_batch = 2\n");
  }
  void TearDown() override { ::unsetenv("CUDA_VISIBLE_DEVICES"); }
  std::vector<std::string> train(const std::string& device) {
    return {"train", "job.toml", "--set", "parallel.device=" + device, "--set", "parallel.threads=1"};
  }
  static constexpr const char* kReason =
      "no NVIDIA driver is loaded|no GPU is visible to this process|the driver supports CUDA up to ";

  std::string doctor_;
};

TEST_F(DeviceCli, DoctorSaysWhatIsUsedInstead) {
  if (kWithCuda) {
    EXPECT_THAT(doctor_, ContainsRegex(std::string("GPUs +none: (") + kReason +
                                       ").*`device = \"auto\"` uses the CPU"));
    EXPECT_THAT(doctor_,
                AllOf(ContainsRegex("toolkit +[0-9]+\\.[0-9]+"), ContainsRegex("backends +cpu, cuda, meta")));
  } else {
    EXPECT_THAT(doctor_, AllOf(ContainsRegex("backends +cpu, meta"),
                               HasSubstr("cuda: not in this build; jobs compute on the CPU")));
  }
}

TEST_F(DeviceCli, AutoComputesOnTheCpu) {
  const ProgramResult result = run(train("auto"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(testing::read_file(scratch_ / "runs/job/summary.json"), HasSubstr("\"device\": \"cpu\""));
  if (kWithCuda) {
    EXPECT_THAT(result.err, ContainsRegex(std::string("no GPU: (") + kReason + ").*; computing on the CPU"));
  }
}

TEST_F(DeviceCli, CudaIsRefused) {
  const std::string message = refusal(train("cuda"));
  EXPECT_THAT(message, AllOf(HasSubstr("parallel.device = \"cuda\", but "),
                             HasSubstr("use device = \"cpu\" or \"auto\"")));
  EXPECT_THAT(message, ContainsRegex(kWithCuda ? kReason : "this build has no backend for device .cuda."));
}

// A plan for GPUs can be made anywhere; unknown values are reported.
TEST_F(DeviceCli, PlanSaysWhatThisBuildLacks) {
  const ProgramResult planned = run({"plan", "job.toml", "--set", "parallel.device=cuda"});
  EXPECT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_THAT(planned.out, ContainsRegex(std::string("parallel.device = \"cuda\": ") +
                                         (kWithCuda ? std::string("this machine has none: (") + kReason + ")"
                                                    : "this build has no backend for GPUs")));
  EXPECT_THAT(planned.out, HasSubstr("is that of this machine's CPUs"));
}

// The output of doctor on a machine with a card is enough to plan for it elsewhere.
TEST_F(DeviceCli, PlansForAMeasuredCard) {
  const auto plan = [&](const std::string& rates) {
    testing::write_file(
        scratch_ / "card.json",
        R"({"gpus": {"devices": [{"name": "Some GPU", "memory_bytes": 8589934592}]}, "gpu_rates": )" + rates +
            "}");
    return run({"plan", "job.toml", "--card", "card.json"});
  };
  const ProgramResult planned = plan(R"({"context_bytes": 1073741824})");
  EXPECT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_THAT(
      planned.out,
      AllOf(HasSubstr("\ncontext and libraries: 1.00 GiB of the card's 8.00 GiB, as measured on Some GPU"),
            HasSubstr(" of 7.00 GiB (Some GPU, card.json)"), Not(HasSubstr("cannot run here"))));
  for (const char* rates :
       {"null", "{}", R"({"context_bytes": 9589934592})", R"({"context_bytes": "much"})"}) {
    const ProgramResult refused = plan(rates);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, AllOf(HasSubstr("card.json: "), HasSubstr("gpu_rates.context_bytes"))) << rates;
  }
  // A part of the gate that contains doctor's output, and one without that stage.
  const std::string stage = R"({"state": "passed", "result": {"gpus": {"devices": [{"name": "Some GPU", )"
                            R"("memory_bytes": 8589934592}]}, "gpu_rates": {"context_bytes": 1073741824}}})";
  testing::write_file(scratch_ / "probe.json", R"({"part": "probe", "stages": {"rates": )" + stage + "}}");
  EXPECT_THAT(run({"plan", "job.toml", "--card", "probe.json"}).out, HasSubstr(" of 7.00 GiB (Some GPU, "));
  testing::write_file(scratch_ / "state.json", R"({"part": "state", "stages": {"doctor": )" + stage + "}}");
  EXPECT_THAT(run({"plan", "job.toml", "--card", "state.json"}).err,
              AllOf(HasSubstr("state.json: "), HasSubstr("probe.json of tests/bench/gpu_gate.sh")));
  EXPECT_THAT(run({"plan", "job.toml", "--card", "card.json", "--set", "parallel.device=cpu"}).err,
              HasSubstr("--card card.json: the job says parallel.device = \"cpu\""));
}

}  // namespace
}  // namespace trireme
