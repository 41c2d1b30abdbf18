#include "launcher/report/roofline_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "launcher/job/build.h"
#include "launcher/keys/job_file.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

const std::string kSource = TRIREME_SOURCE_DIR;

RooflineReport report_of(const std::string& job) {
  return make_roofline_report(resolve(load_config(kSource + "/" + job, {})));
}

// The README's example is the command's output.
TEST(RooflineReport, IsThatOfTheReadme) {
  const std::string readme = testing::read_file(kSource + "/kernels/cuda/README.md");
  for (const std::string job : {"tests/bench/gpt2_124m.toml", "tests/bench/resnet50.toml"}) {
    EXPECT_THAT(readme, ::testing::HasSubstr("trireme doctor --roofline " + job + "\n\n```\n" +
                                             to_text(report_of(job)) + "```\n"));
  }
}

TEST(RooflineReport, JsonHasTheRowsOfTheSum) {
  const RooflineReport report = report_of("tests/bench/gpt2_124m.toml");
  const auto json = to_json(report);
  double seconds = 0, operations = 0;
  for (const auto& part : json["parts"]) {
    const double units = std::max<double>(1.0, static_cast<double>(part["blocks"].size()));
    for (const auto& row : part["calls_of_one"]) {
      const double calls = units * row["calls"].get<double>();
      seconds += calls * row["seconds"]["H200"].get<double>();
      operations += calls * row["operations"].get<double>();
    }
  }
  EXPECT_NEAR(json["step_seconds"]["H200"].get<double>(), seconds, 1e-12 * seconds);
  EXPECT_NEAR(json["tokens_per_s"]["H200"].get<double>(), 8 * 1024 / seconds, 1e-6 * 8 * 1024 / seconds);
  // 6 operations per weight and token in products, 6 L T C for attention; its scores are recomputed once in
  // backward.
  const double weights = 12.0 * 12 * 768 * 768 + 50304.0 * 768, attention = 12.0 * 1024 * 768;
  EXPECT_NEAR(operations / (8 * 1024), 6 * weights + 7 * attention, 1.0);
}

}  // namespace
}  // namespace trireme
