// Described clusters fitted to public tables of measured steps. Minutes, so not among the quick tests.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "launcher/cluster/cluster_file.h"
#include "launcher/cluster/runs_file.h"
#include "parallel/cluster/calibrate.h"

namespace trireme {
namespace {

const std::filesystem::path kRoot = TRIREME_SOURCE_DIR;
const std::filesystem::path kExamples = kRoot / "examples/clusters";

double mean_absolute(const std::vector<double>& errors) {
  double sum = 0;
  for (const double error : errors) sum += std::abs(error);
  return sum / static_cast<double>(errors.size());
}

/// Measured steps from public tables, beside the source tree and not part of it.
class MeasuredRuns : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(MeasuredRuns, AreForeseenWithin8Percent) {
  const auto [table, name] = GetParam();
  const auto file = kRoot.parent_path() / "shared/data/cluster_runs" / table;
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "there is no ../shared/data/cluster_runs/" << table;
  const Cluster cluster = read_cluster(kExamples / (std::string(name) + ".toml"));
  const RunsFile table_of_runs = read_runs(file, cluster, BadRows::kRefuse);
  const std::vector<MeasuredStep> runs = table_of_runs.measured();
  EXPECT_LE(mean_absolute(cross_validate(cluster, runs, 10, 1)), 0.08);
  const Cluster committed = read_cluster(kExamples / (std::string(name) + "-calibrated.toml"));
  const Cluster fitted = parse_cluster(to_toml(calibrate(cluster, runs)), "fitted");
  for (const MeasuredStep& run : runs) {
    EXPECT_NEAR(run.predicted_ms(fitted) / run.predicted_ms(committed), 1, 0.01);
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, MeasuredRuns,
                         ::testing::Values(std::pair("vtrain_single.csv", "vtrain-single"),
                                           std::pair("vtrain_multi.csv", "vtrain-multi"),
                                           std::pair("mosaicml.csv", "mosaicml")),
                         [](const auto& info) {
                           const std::string table = info.param.first;
                           return table.substr(0, table.find('.'));
                         });

}  // namespace
}  // namespace trireme
