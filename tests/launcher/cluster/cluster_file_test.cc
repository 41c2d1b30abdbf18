#include "launcher/cluster/cluster_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "launcher/keys/job_file.h"
#include "runtime/base/error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path kExamples = std::filesystem::path(TRIREME_SOURCE_DIR) / "examples/clusters";

/// The example with one kind of node, with `from` replaced by `to`.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = testing::read_file(kExamples / "a100-80.toml");
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string refusal(const std::string& text) {
  try {
    parse_cluster(text, "c.toml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    return error.what();
  }
  return "";
}

TEST(ClusterFile, AllExamplesAreRead) {
  int num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kExamples)) {
    if (entry.path().extension() != ".toml") continue;
    const Cluster cluster = read_cluster(entry.path());
    EXPECT_FALSE(cluster.name.empty()) << entry.path();
    ++num_files;
  }
  EXPECT_GE(num_files, 12);
}

TEST(ClusterFile, WhatIsWrittenIsReadAgain) {
  const Cluster cluster = read_cluster(kExamples / "mosaicml-calibrated.toml");
  const std::string text = to_toml(cluster);
  EXPECT_EQ(to_toml(parse_cluster(text, "again")), text);
  EXPECT_EQ(cluster.devices.size(), 3u);
  EXPECT_EQ(cluster.device("h100-80gb").peak_tflops.at("fp8"), 1979);
}

TEST(ClusterFile, NamesAreQuoted) {
  Cluster cluster = read_cluster(kExamples / "a100-80.toml");
  cluster.name = "a \"cluster\" \\ of mine";
  EXPECT_EQ(parse_cluster(to_toml(cluster), "again").name, cluster.name);
}

TEST(ClusterFile, UnknownKeysNameTheNearest) {
  EXPECT_THAT(refusal(changed("memory_gb_s", "memory_gb_sec")),
              HasSubstr("unknown key devices.a100-80gb.memory_gb_sec; did you mean "
                        "devices.a100-80gb.memory_gb_s?"));
  EXPECT_THAT(refusal(changed("latency_us", "latency")), HasSubstr("did you mean links.nvlink3.latency_us?"));
  EXPECT_THAT(refusal(changed("ranks_per_node", "ranks_pernode")), HasSubstr("did you mean ranks_per_node?"));
  EXPECT_THAT(refusal(changed("bf16", "bf17")),
              HasSubstr("did you mean devices.a100-80gb.peak_tflops.bf16?"));
}

TEST(ClusterFile, MissingLinksAreNamed) {
  EXPECT_THAT(refusal(changed("[links.nvlink3]", "[links.other]")),
              HasSubstr("devices.a100-80gb.inside = \"nvlink3\": there is no [links.nvlink3]"));
  EXPECT_THAT(refusal(changed("between = \"infiniband\"", "between = \"tokenring\"")),
              HasSubstr("devices.a100-80gb.between = \"tokenring\": there is no [links.tokenring]"));
}

TEST(ClusterFile, BandwidthsMustBeAboveZero) {
  EXPECT_THAT(refusal(changed("gb_s = 220", "gb_s = 0")), HasSubstr("links.nvlink3.gb_s = 0 must be from"));
  EXPECT_THAT(refusal(changed("gb_s = 220", "")), HasSubstr("links.nvlink3.gb_s is missing: a number from"));
  EXPECT_THAT(refusal(changed("memory_gb_s = 2039", "")),
              HasSubstr(".memory_gb_s is missing: a number from"));
  EXPECT_THAT(refusal(changed("memory_gb_s = 2039", "memory_gb_s = -1")),
              HasSubstr("devices.a100-80gb.memory_gb_s = -1 must be from"));
  EXPECT_THAT(refusal(changed("bf16 = 312", "bf16 = nan")),
              HasSubstr("peak_tflops.bf16 = nan must be above 0"));
}

TEST(ClusterFile, ValuesOfAnotherTypeAreRefused) {
  EXPECT_THAT(refusal(changed("gb_s = 220", "gb_s = \"fast\"")),
              HasSubstr("links.nvlink3.gb_s needs a number"));
  EXPECT_THAT(refusal("name = 3"), HasSubstr("c.toml:1:8: name needs a string"));
  EXPECT_THAT(refusal("devices = 3"), HasSubstr("devices needs a section [devices]"));
  EXPECT_THAT(refusal("name = \"empty\""), HasSubstr("there is no device; add a section [devices.NAME]"));
  EXPECT_THAT(refusal("name = "), HasSubstr("c.toml:1:"));
}

TEST(ClusterFile, MeasuredCallsAreReadAgain) {
  Cluster cluster = read_cluster(kExamples / "a100-80.toml");
  cluster.devices[0].type = DeviceType::kCpu;
  cluster.devices[0].threads = 2;
  cluster.devices[0].measured["matmul fp32 NT"] = {{1024, 4096, 1.5}, {2048, 8192, 2.25, 64}};
  const Cluster again = parse_cluster(to_toml(cluster), "again");
  EXPECT_EQ(to_toml(again), to_toml(cluster));
  EXPECT_EQ(again.devices[0].type, DeviceType::kCpu);
  EXPECT_EQ(again.devices[0].threads, 2);
  const std::vector<MeasuredOp>& calls = again.devices[0].measured.at("matmul fp32 NT");
  EXPECT_EQ(calls[0].inner, 0);
  EXPECT_EQ(calls[1].us, 2.25);
  EXPECT_EQ(calls[1].inner, 64);
}

TEST(ClusterFile, BadMeasuredCallsAreNamed) {
  const auto with_calls = [](const std::string& calls) {
    return changed("[links.nvlink3]",
                   "[devices.a100-80gb.measured]\n\"add fp32\" = " + calls + "\n\n[links.nvlink3]");
  };
  EXPECT_THAT(refusal(with_calls("3")), HasSubstr("[[bytes, operations, us], ...]"));
  EXPECT_THAT(refusal(with_calls("[[1, 2]]")), HasSubstr("a call is [bytes, operations, us]"));
  EXPECT_THAT(refusal(with_calls("[[1, 0, 0]]")), HasSubstr("us above 0"));
  EXPECT_THAT(refusal(changed("family =", "type = \"tpu\"\nfamily =")), HasSubstr("must be cuda or cpu"));
  EXPECT_THAT(refusal(changed("inside = \"nvlink3\"", "")), HasSubstr("inside is missing"));
}

}  // namespace
}  // namespace trireme
