// parallel.layout = "auto" in a job: the short form, kept keys, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/config/config.h"
#include "launcher/keys/job_file.h"
#include "tests/launcher/config/error_matchers.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kJob = "[model]\nsize = \"124m\"\n[data]\ntrain = \"tokens\"\n";

JobConfig parse(const std::string& more, const std::vector<std::string>& overrides = {}) {
  return parse_config(kJob + more, "job.toml", overrides);
}

std::string parse_error(const std::string& more, const std::vector<std::string>& overrides = {}) {
  return error_message([&] { parse(more, overrides); }, ErrorCode::kInvalidInput);
}

JobConfig parse_auto(const std::string& more = "", const std::vector<std::string>& overrides = {}) {
  return parse_config("parallel = \"auto\"\n" + std::string(kJob) + more, "job.toml", overrides);
}

/// Layout fields that the job sets.
OpenFields given_fields(const JobConfig& job) {
  OpenFields given = searched_fields();
  for (const std::string& field : job.parallel.open) given.erase(field);
  return given;
}

TEST(SearchedLayout, ParallelAutoIsShortForASearchedLayout) {
  EXPECT_TRUE(parse_auto().parallel.is_searched());
  EXPECT_TRUE(given_fields(parse_auto()).empty());
  const JobConfig longer = parse("[parallel]\nlayout = \"auto\"\nzero = 2\nmemory_limit = \"1 GiB\"\n");
  EXPECT_TRUE(longer.parallel.is_searched());
  EXPECT_EQ(longer.parallel.memory_limit, 1 << 30);
  EXPECT_EQ(given_fields(longer), (OpenFields{"zero"}));
  // It clears the layout keys of the file and nothing else; later keys are kept.
  const JobConfig taken =
      parse("[parallel]\npipeline = 4\nthreads = 3\n", {"parallel=auto", "parallel.tensor=2"});
  EXPECT_EQ(taken.parallel.layout.pipeline, 1);
  EXPECT_EQ(taken.parallel.threads, 3);
  EXPECT_EQ(given_fields(taken), (OpenFields{"tensor"}));
  EXPECT_FALSE(parse("").parallel.is_searched());
}

TEST(SearchedLayout, ASearchedLayoutIsWrittenAsFarAsItIsGiven) {
  const JobConfig job = parse_auto("", {"parallel.zero=0", "parallel.cluster=here.toml"});
  const std::string text = to_toml(job);
  EXPECT_THAT(text, AllOf(HasSubstr("layout = \"auto\""), HasSubstr("zero = 0"),
                          HasSubstr("cluster = \"here.toml\"")));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("pipeline = ")));
  const JobConfig again = parse_config(text, "again");
  EXPECT_EQ(to_toml(again), text);
  EXPECT_EQ(again.parallel.open, job.parallel.open);
}

TEST(SearchedLayout, RefusesWhatASearchOfLayoutsCannotKeep) {
  EXPECT_THAT(
      error_message([] { parse_config("parallel = \"fast\"\n", "job.toml"); }, ErrorCode::kInvalidInput),
      HasSubstr("job.toml:1:1: parallel is a section, [parallel], or the word \"auto\"; found"));
  EXPECT_THAT(parse_error("", {"parallel=3"}), HasSubstr("--set parallel=3: parallel is a section"));
  EXPECT_THAT(parse_error("[parallel]\nlayout = \"auto\"\npipeline_cut = \"3\"\n"),
              HasSubstr("parallel.pipeline_cut = \"3\" is of one layout"));
  EXPECT_THAT(parse_error("[parallel]\nlayout = \"best\"\n"), HasSubstr("\"given\", \"auto\""));
  EXPECT_THAT(parse_error("[parallel]\ncluster = \"here.toml\"\n"),
              AllOf(HasSubstr("parallel.cluster is for layout = \"auto\""),
                    HasSubstr("parallel.layout = \"given\"")));
  EXPECT_THAT(parse_error("[parallel]\nlayout = \"auto\"\ncluster_device = \"h100\"\n"),
              HasSubstr("parallel.cluster_device = \"h100\" is of the file that parallel.cluster names"));
  // The check waits until the layout is chosen.
  parse("[parallel]\nlayout = \"auto\"\nschedule = \"interleaved\"\nsequence = true\n");
}

}  // namespace
}  // namespace trireme
