#include "launcher/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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
  const auto json = nlohmann::json::parse(to_json(report));
  const std::string text = to_text(report);
  EXPECT_EQ(json["version"], report.version);
  EXPECT_EQ(json["launch"]["ranks"], 3);
  EXPECT_EQ(json["cores"]["usable"], report.cores.usable());
  EXPECT_THAT(text, ::testing::HasSubstr(report.version));
  EXPECT_THAT(text, ::testing::HasSubstr("rank 1 of 3"));
  EXPECT_THAT(text, ::testing::HasSubstr("123 GFLOP/s"));
}

TEST(Doctor, MeasuresARate) {
  const double gflops = measure_sgemm_gflops(1);
  EXPECT_GT(gflops, 0.0);
  EXPECT_LT(gflops, 1e5);
}

}  // namespace
}  // namespace trireme
