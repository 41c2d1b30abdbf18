// Checks, after the whole suite has run, that it has a case for every op of the table.
#include <gmock/gmock.h>

#include "tests/kernels/meta_run.h"

namespace trireme::testing {
namespace {

class EveryOpHasACase : public ::testing::Environment {
 public:
  void TearDown() override {
    const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
    const bool is_part =  // filtered, or shared with other processes
        all.test_to_run_count() + all.disabled_test_count() < all.total_test_count();
    if (is_part) return;
    EXPECT_THAT(ops_without_a_case(), ::testing::IsEmpty());
  }
};
const ::testing::Environment* const kAtTheEnd = ::testing::AddGlobalTestEnvironment(new EveryOpHasACase);

}  // namespace
}  // namespace trireme::testing
