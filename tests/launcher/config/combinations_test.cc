#include "launcher/config/combinations.h"

#include <gtest/gtest.h>

#include "tests/launcher/config/error_matchers.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

// The check refuses exactly the combinations that the table calls refused.
TEST(Combinations, ReadmeHoldsTheTable) {
  const std::string readme = testing::read_file(TRIREME_SOURCE_DIR "/README.md");
  const std::string begin = "<!-- combinations: begin -->\n", end = "<!-- combinations: end -->";
  const auto start = readme.find(begin), stop = readme.find(end);
  ASSERT_NE(start, std::string::npos);
  ASSERT_NE(stop, std::string::npos);
  EXPECT_EQ(readme.substr(start + begin.size(), stop - start - begin.size()), combinations_reference())
      << "replace the part between the markers by:\n"
      << combinations_reference();
}

TEST(Combinations, AreRefusedWithAPipelineOnly) {
  JobConfig job;
  job.parallel.cuda_graph = true;
  EXPECT_NO_THROW(check_combinations(job));
  job.parallel.pipeline = 2;
  EXPECT_NE(error_message([&] { check_combinations(job); }, ErrorCode::kUnsupported).find("cuda_graph"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme
