#include "launcher/host/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "parallel/comm/local.h"

namespace trireme {
namespace {

TEST(Doctor, KnowsItsBackends) {
  const DoctorReport report = examine({});
  EXPECT_THAT(report.backends, ::testing::IsSupersetOf({std::string("cpu"), std::string("meta")}));
  EXPECT_THAT(report.onednn, ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

TEST(Doctor, TextAndJsonAgree) {
  DoctorReport report = examine({.launcher = "mpirun (Open MPI)", .rank = 1, .num_ranks = 3});
  report.sgemm_gflops = 123.4;
  const auto json = to_json(report);
  const std::string text = to_text(report);
  EXPECT_EQ(json["version"], report.version);
  EXPECT_EQ(json["launch"]["ranks"], 3);
  EXPECT_EQ(json["cores"]["usable"], report.cores.usable());
  EXPECT_THAT(text, ::testing::HasSubstr(report.version));
  EXPECT_THAT(text, ::testing::HasSubstr("rank 1 of 3"));
  EXPECT_THAT(text, ::testing::HasSubstr("123 GFLOP/s"));
}

TEST(Doctor, LooksUpLocalhost) {
  DoctorReport report = examine({});
  EXPECT_EQ(report.localhost.name, "localhost");
  report.localhost = {.name = "localhost", .problem = "Name or service not known", .seconds = 5.01};
  EXPECT_THAT(to_text(report),
              ::testing::HasSubstr("not found (Name or service not known) after 5.0 s: mpirun looks it up"));
  EXPECT_THAT(to_text(report), ::testing::HasSubstr("the line \"127.0.0.1 localhost\" to /etc/hosts"));
  const auto json = to_json(report)["localhost"];
  EXPECT_EQ(json["problem"], "Name or service not known");
  EXPECT_EQ(json["lookup_s"], 5.01);
}

TEST(NameLookup, IsShortUnlessSomethingIsWrong) {
  EXPECT_EQ(look_up_name("127.0.0.1").problem, "");
  EXPECT_NE(look_up_name(std::string(300, 'x')).problem, "");  // longer than a name can be: no DNS is asked
  EXPECT_EQ(describe_localhost({.name = "localhost", .problem = "", .seconds = 0.0002}), "found in 0.2 ms");
  EXPECT_THAT(describe_localhost({.name = "localhost", .problem = "", .seconds = 2}),
              ::testing::StartsWith("found after 2.0 s: mpirun looks it up"));
}

// nccl-tests, doc/PERFORMANCE.md: bus bandwidth = algorithm bandwidth x 2 (n - 1) / n.
TEST(Doctor, MeasuresAllReduces) {
  EXPECT_EQ(all_reduce_bus_factor(2), 1.0);
  EXPECT_EQ(all_reduce_bus_factor(4), 1.5);
  EXPECT_EQ(all_reduce_bus_factor(8), 1.75);
  DoctorReport report = examine({});
  run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
    const AllReduceBandwidth mine = measure_all_reduce({{DeviceType::kCpu, 0}, comm});
    if (comm->rank() == 0) report.all_reduce = mine;
  });
  const auto json = to_json(report)["all_reduce"];
  EXPECT_EQ(json["ranks"], 2);
  EXPECT_EQ(json["communicator"], "local");
  ASSERT_EQ(json["sizes"].size(), 5u);
  for (const auto& size : json["sizes"]) {
    const double bytes = size["bytes"], ms = size["ms"], rate = size["algorithm_gb_per_s"];
    EXPECT_NEAR(rate, bytes / (ms * 1e-3) / 1e9, 1e-6 * rate);
    EXPECT_EQ(size["bus_gb_per_s"], size["algorithm_gb_per_s"]);
  }
  EXPECT_THAT(to_text(report), ::testing::HasSubstr("2 ranks over local (cpu), 1.00 MiB: "));
}

// On the CPU, in place of a GPU.
TEST(Doctor, MeasuresADevice) {
  DoctorReport report = examine({});
  report.gpu_rates =
      measure_device_rates({DeviceType::kCpu, 0}, 1, {.product = 64, .copy_bytes = 4096, .ms = 1});
  const auto json = to_json(report)["gpu_rates"];
  EXPECT_EQ(json["tflops"].size(), 5u);
  for (const auto& [math, tflops] : json["tflops"].items()) EXPECT_GT(tflops.get<double>(), 0.0) << math;
  EXPECT_GT(json["copy_gb_per_s"].get<double>(), 0.0);
  EXPECT_GT(json["upload_gb_per_s"].get<double>(), 0.0);
  EXPECT_THAT(to_text(report), ::testing::HasSubstr("GPU 0 rates"));
}

TEST(Doctor, MeasuresARate) {
  const double gflops = measure_sgemm_gflops(1);
  EXPECT_GT(gflops, 0.0);
  EXPECT_LT(gflops, 1e5);
}

}  // namespace
}  // namespace trireme
